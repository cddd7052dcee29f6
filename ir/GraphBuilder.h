// SPDX-License-Identifier: Apache-2.0
//
// The only way passes and the importer create ops: names the results, infers their types by the op's
// shape rule, checks attributes, stamps phase and origin, and links the op at the insertion point.
#pragma once

#include "ir/Graph.h"

namespace ds {

/// Infers result types from operand types and (completed) attributes; the shape rule of the op's row.
/// Errors carry the op's mnemonic and rule label, e.g. "matmul: inner sizes differ: ... [matmul_2]".
/// bound lists the symbols of the last results: they must have the inferred type, and decide the placement
/// that accumulate gives (a rank's own scalar is its contribution to a partial accumulator).
Status inferTypes(OpKind k, llvm::ArrayRef<Type> operands, const Attrs &attrs, const Module &m,
                  llvm::SmallVectorImpl<Type> &results, llvm::ArrayRef<Symbol *> bound = {});

/// Recomputes all result types of p in order, after placements of symbols or inputs have changed. Stops at
/// the first op whose operands no longer fit; its error has the op's origin as place.
Status reinferTypes(Module &m, Program &p);

/// What is wrong with t as the type of a value of m, or "": too many elements, an unknown mesh axis, a
/// placement without a mesh, a shard that is not flat or does not divide into ranks x kQuantum [G7, G8].
std::string typeProblem(const Type &t, const Module &m);

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
