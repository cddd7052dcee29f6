// SPDX-License-Identifier: Apache-2.0
//
// How tools show a Status, and what they do when a library finds a bug of ours.
#pragma once

#include "ir/Status.h"

namespace ds {

/// The text of a file, or of standard input for "-".
StatusOr<std::string> readInput(const std::string &path);

/// "place: error: text" with notes, one per line; entries without a place get the tool's name. Where the place
/// is a line of `path`, whose text is given, the line and a caret are added unless a note has them.
std::string diagnostics(const Status &s, std::string_view tool, std::string_view text = {},
                        std::string_view path = {});

/// The line of a place "path:line:col", or 0 if it is of another form or another file.
int64_t lineOf(const std::string &place, std::string_view path);

/// Makes LLVM's fatal errors, which Builder::create raises, print "tool: internal error" and exit with 70.
void exitOnFatalErrors(const char *tool);

} // namespace ds
