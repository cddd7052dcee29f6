// SPDX-License-Identifier: Apache-2.0
#include "passes/Grad.h"

namespace ds {

Value *unbroadcast(Builder &b, Value *g, llvm::ArrayRef<int64_t> dims, const std::string &name) {
  const std::vector<int64_t> &from = g->type.dims;
  if (llvm::ArrayRef<int64_t>(from) == dims)
    return g;
  size_t lead = from.size() - dims.size();
  std::vector<int64_t> axes;
  for (size_t i = 0; i < from.size(); ++i)
    if (i < lead || (dims[i - lead] == 1 && from[i] != 1))
      axes.push_back(static_cast<int64_t>(i));
  if (!axes.empty())
    g = b.op(OpKind::ReduceSum, {g}, name, {{"axes", axes}});
  if (llvm::ArrayRef<int64_t>(g->type.dims) != dims)
    g = b.op(OpKind::Reshape, {g}, name, {{"dims", dims.vec()}});
  return g;
}

std::optional<double> splatValue(const Value *v) {
  if (v->isSymbol()) {
    auto *s = static_cast<const Symbol *>(v);
    if (s->symbolKind == SymbolKind::Const && s->source.kind == Source::Kind::Splat)
      return s->source.value;
    return std::nullopt;
  }
  if (!v->def)
    return std::nullopt;
  switch (v->def->kind) {
  case OpKind::Fill:
    return v->def->attrs.f("value");
  case OpKind::Reshape:
  case OpKind::Broadcast:
    return splatValue(v->def->operands[0]);
  case OpKind::Cast: {
    std::optional<double> c = splatValue(v->def->operands[0]);
    if (c && v->type.dtype == DType::F32)
      c = static_cast<float>(*c);
    bool exact = isFloat(v->type.dtype) && byteSize(v->type.dtype) >= 4;
    return exact ? c : std::nullopt;
  }
  default:
    return std::nullopt;
  }
}

void GradCtx::set(int i, Value *g) { grads[i] = unbroadcast(b, g, x(i)->type.dims, name(i)); }

Value *GradCtx::scalar(double v, const Value *like) const {
  return b.op(OpKind::Fill, {}, "c",
              {{"dims", std::vector<int64_t>{}},
               {"dtype", std::string(text(like->type.dtype))},
               {"value", v}});
}

bool GradCtx::seedIsOne() const { return splatValue(dy) == 1.0; }

// Results without a gradient: integers, booleans, and gradients themselves (no second derivatives).
Status gradNone(GradCtx &c) {
  return Status::error(std::string(c.op.info().text) + " has no gradient")
      .at(c.op.origin.node.empty() ? "%" + c.y()->name : "onnx(" + c.op.origin.node + ")");
}
// Piecewise constant: the gradient is zero wherever it exists.
Status gradZero(GradCtx &) { return {}; }

} // namespace ds
