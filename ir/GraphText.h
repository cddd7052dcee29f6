// SPDX-License-Identifier: Apache-2.0
//
// .dsir text, both ways, and the verifier. Syntax: docs/ir.md. Printing is deterministic and every printed
// module parses back to the same print.
#pragma once

#include "ir/Graph.h"

namespace ds {

struct PrintOptions {
  bool origins = false; // trailing "// node (pass)" comments
};
std::string printModule(const Module &m, const PrintOptions &o = {});
std::string printOp(const Op &op);

/// Parses one module. path is used for places and origins. All syntax errors carry file:line:col and a
/// caret note. The result is verified only by verifyModule.
StatusOr<std::unique_ptr<Module>> parseModule(std::string_view text, std::string_view path);

/// Rules G1..: docs/ir.md. Reports every violation.
Status verifyModule(const Module &m);

} // namespace ds
