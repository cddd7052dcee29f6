// SPDX-License-Identifier: Apache-2.0
//
// What a converter sees: one ONNX node with its inputs bound, and helpers that emit core ops. A node whose
// inputs are all known is evaluated instead (OnnxEval*.cpp); a converter only asks for known values where
// the operator needs them at plan time (shapes, axes), and reads the others through value().
#pragma once

#include "frontend/OnnxFile.h"
#include "frontend/OnnxImport.h"
#include "frontend/OnnxKnown.h"
#include "ir/GraphBuilder.h"

#include <set>

namespace ds {

/// One ONNX node after inlining. The proto is owned by the model or by the inliner.
struct OnnxNode {
  const onnx::NodeProto *proto = nullptr;
  std::string name;   // for messages; the op type and first output if the model gives none
  std::string module; // module path, or empty
  int64_t opset = 0;  // of the node's domain

  const std::string &op() const { return proto->op_type(); }
  const onnx::AttributeProto *attr(std::string_view name) const;
  int64_t i(std::string_view name, int64_t def) const;
  double f(std::string_view name, double def) const;
  std::string s(std::string_view name, std::string_view def) const;
  std::optional<std::vector<int64_t>> ints(std::string_view name) const;
};

/// What an ONNX value name stands for: a value of the program, something known at plan time, a list of
/// these (a sequence), or nothing (an omitted optional input).
struct OnnxVal {
  Value *value = nullptr;
  KnownRef known;
  std::shared_ptr<std::vector<OnnxVal>> sequence;

  OnnxVal() = default;
  OnnxVal(Value *v) : value(v) {}
  OnnxVal(KnownRef k) : known(std::move(k)) {}
  explicit operator bool() const { return value || known || sequence; }
  DType dtype() const { return value ? value->type.dtype : known->dtype; }
  const Dims &dims() const { return value ? value->type.dims : known->dims; }
  int64_t rank() const { return static_cast<int64_t>(dims().size()); }
};

class Importer;

class Converter {
public:
  Converter(Importer &importer, Builder &b) : importer(importer), b(b) {}

  Importer &importer;
  Builder &b;
  const OnnxNode *node = nullptr;
  std::vector<OnnxVal> in;  // as many as the node names; omitted ones are empty
  std::vector<OnnxVal> out; // set by the converter; outputs beyond its size stay undefined
  std::string name;         // base of result names

  bool has(size_t i) const { return i < in.size() && in[i]; }
  bool wantsOutput(int i) const;
  Status error(std::string text) const; // "Gemm: ..."; the node's place is added by the importer
  /// Inputs first..last must be tensors (present, no sequences).
  Status wantTensors(size_t least, size_t most) const;

  const Dims &dims(size_t i) const { return in[i].dims(); }
  DType dtype(size_t i) const { return in[i].dtype(); }
  int64_t rank(size_t i) const { return in[i].rank(); }
  /// Input i as a value of the program; known ones are emitted.
  StatusOr<Value *> value(size_t i) { return value(in[i]); }
  StatusOr<Value *> value(const OnnxVal &v);
  /// Like value, but a known one may come without its repeated axes where broadcasting to `result` over
  /// the other operands gives the same.
  StatusOr<Value *> broadcastable(const OnnxVal &v, const Dims &withoutIt, const Dims &result);
  /// Input i as integers known at plan time; `what` names it in the error.
  StatusOr<std::vector<int64_t>> known(size_t i, const char *what);
  StatusOr<double> knownScalar(size_t i, const char *what);

  /// An axis in -rank..rank-1, counted from the front.
  StatusOr<int64_t> axis(int64_t a, int64_t rank) const;
  StatusOr<std::vector<int64_t>> axes(std::vector<int64_t> a, int64_t rank) const; // sorted
  /// The dims product is small enough for a tensor.
  Status checkDims(const Dims &d) const;

  // Emitting. Names are made from `name` and the suffix (".sum"); the last op of a node takes none.
  StatusOr<Value *> emit(OpKind k, llvm::ArrayRef<Value *> operands, Attrs attrs = {},
                         const std::string &suffix = "");
  StatusOr<Value *> scalar(DType t, double v) { return fill(t, {}, v); }
  StatusOr<Value *> fill(DType t, const Dims &dims, double v);
  StatusOr<Value *> iota(DType t, const Dims &dims, int64_t axis, int64_t start, int64_t step);
  // No-ops return their operand; reshape of reshape is one.
  StatusOr<Value *> reshape(Value *v, const Dims &dims, const std::string &suffix = "");
  StatusOr<Value *> transpose(Value *v, const std::vector<int64_t> &perm,
                              const std::string &suffix = "");
  StatusOr<Value *> broadcastTo(Value *v, const Dims &dims, const std::string &suffix = "");
  StatusOr<Value *> cast(Value *v, DType t, const std::string &suffix = "");
  StatusOr<Value *> slice(Value *v, const Dims &starts, const Dims &limits, const Dims &strides,
                          const std::string &suffix = "");
  StatusOr<Value *> reduceSum(Value *v, const std::vector<int64_t> &axes, bool keepdims,
                              const std::string &suffix = "");
  /// Elementwise op over broadcast operands.
  StatusOr<Value *> elementwise(OpKind k, llvm::ArrayRef<OnnxVal> operands, Attrs attrs = {},
                                const std::string &suffix = "");
  /// a . b with batch axes; transposed operands become flags.
  StatusOr<Value *> matmul(Value *a, Value *b, const std::string &suffix = "");
  /// x gathered at indices; contiguous known indices become a slice.
  StatusOr<Value *> gather(Value *x, const OnnxVal &indices, int64_t axis,
                           const std::string &suffix = "");

  Status result(StatusOr<Value *> v); // sets out[0]
};

using ConvertFn = Status (*)(Converter &);
using EvalFn = StatusOr<std::vector<KnownRef>> (*)(const OnnxNode &, const std::vector<KnownRef> &,
                                                   int outputs);

/// A row of OnnxOps.def.
struct OnnxOpInfo {
  const char *op;
  int since;         // first opset that has the operator
  OpKind direct;     // if convert is null and eval alone does not suffice
  ConvertFn convert; // null: direct, or known inputs only
  EvalFn eval;       // null: never evaluated
  enum Kind { Direct, Custom, KnownOnly, Refused } kind;
  const char *note; // docs; for Refused: what to do instead
};
const std::vector<OnnxOpInfo> &onnxOpTable();
const OnnxOpInfo *onnxOp(std::string_view op);

/// "TRY" for a value: declares x.
#define EMIT(x, expr) TRY_ASSIGN(Value *x, expr)

} // namespace ds
