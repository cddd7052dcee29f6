// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation by given statistics, in core ops: y = x * factor + shift with one factor and shift per channel.
// The importer makes it under --bn frozen, form-programs for evaluation.
#pragma once

#include "ir/GraphBuilder.h"

#include <functional>

namespace ds {

/// Makes an op whose result is named after what is normalised and this suffix ("": the last op).
using MakeOp = std::function<StatusOr<Value *>(OpKind k, llvm::ArrayRef<Value *> operands,
                                               Attrs attrs, const std::string &suffix)>;

StatusOr<Value *> normaliseBy(const MakeOp &make, Value *x, Value *scale, Value *bias, Value *mean,
                              Value *var, double eps);

} // namespace ds
