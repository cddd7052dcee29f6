// SPDX-License-Identifier: Apache-2.0
//
// Names in .dsched text: bare where the lexer reads them as one name and no clause starts with them,
// else in quotes. Private to the printer, the parser and the verifier.
#pragma once

#include "ir/Lexer.h"

#include <string>

namespace ds {

std::string nameText(const std::string &name);
/// A bare or a quoted name.
StatusOr<std::string> parseName(Lexer &lex);

} // namespace ds
