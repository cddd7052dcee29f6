// SPDX-License-Identifier: Apache-2.0
//
// The only way passes and the importer create ops: names the results, infers their types by the op's
// shape rule, checks attributes, stamps phase and origin, and links the op at the insertion point.
#pragma once

#include "ir/Graph.h"

namespace ds {

/// Infers result types from operand types and (completed) attributes; the shape rule of the op's row.
/// Errors carry the op's mnemonic and rule label, e.g. "matmul: inner sizes differ: ... [matmul_2]".
Status inferTypes(OpKind k, llvm::ArrayRef<Type> operands, const Attrs &attrs, const Module &m,
                  llvm::SmallVectorImpl<Type> &results);

class Builder {
public:
  Builder(Module &m, Program &p) : module(m), program(p) {}

  Module &module;
  Program &program;
  Phase phase = Phase::Forward;
  Origin origin;
  Op *before = nullptr; // insert before this op, or at the end if null

  /// Creates an op with one named result per name; bound lists the symbols of the remaining results.
  /// Names are made unique (".2"). An error is a bug of the caller, or bad input for importers.
  StatusOr<Op *> tryCreate(OpKind k, llvm::ArrayRef<Value *> operands,
                           llvm::ArrayRef<std::string> names, Attrs attrs = {},
                           llvm::ArrayRef<Symbol *> bound = {});
  /// For passes, where an error would be our bug: aborts with the message in that case.
  Op *create(OpKind k, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<std::string> names,
             Attrs attrs = {}, llvm::ArrayRef<Symbol *> bound = {});
  /// Shorthand for ops with one named result.
  Value *op(OpKind k, llvm::ArrayRef<Value *> operands, const std::string &name, Attrs attrs = {}) {
    return create(k, operands, {name}, std::move(attrs))->result();
  }
};

} // namespace ds
