// SPDX-License-Identifier: Apache-2.0
//
// convert-float: gives every float value of @micro the element type that --dtype asks for (f64 for checks against
// f64 references). Weights keep their stored type in the file and are converted on load.
//   %h = matmul %x, @w : f32[8,5]   ->   %h = matmul %x, @w : f64[8,5]
#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

#include <cstring>

namespace ds {

namespace {

// Inline bytes are in the declared type, so they are rewritten.
Status convertHex(Source &s, DType from, DType to) {
  if (s.kind != Source::Kind::Hex)
    return {};
  if (from != DType::F32 || to != DType::F64)
    return Status::error("convert-float: inline data of type " + std::string(text(from)) +
                         " cannot become " + std::string(text(to)));
  std::string out(s.bytes.size() * 2, '\0');
  for (size_t i = 0; i * sizeof(float) < s.bytes.size(); ++i) {
    float f;
    std::memcpy(&f, s.bytes.data() + i * sizeof f, sizeof f);
    double d = f;
    std::memcpy(out.data() + i * sizeof d, &d, sizeof d);
  }
  s.bytes = out;
  return {};
}

} // namespace

Status convertFloat(Module &m, const PlanConfig &c) {
  if (c.dtype.empty())
    return {};
  std::optional<DType> to = dtypeFromText(c.dtype);
  if (to != DType::F32 && to != DType::F64)
    return Status::error("--dtype " + c.dtype + " is not supported; expected f32 or f64");
  std::string name(text(*to));
  for (Symbol *s : m.symbols())
    if (isFloat(s->type.dtype) && s->type.dtype != *to) {
      TRY(convertHex(s->source, s->type.dtype, *to));
      s->type.dtype = *to;
    }
  for (Program *p : m.programs()) {
    for (Value *in : p->inputs)
      if (isFloat(in->type.dtype))
        in->type.dtype = *to;
    for (Op &op : p->ops)
      for (const char *attr : {"to", "dtype"})
        if (const AttrValue *v = op.attrs.find(attr))
          if (auto d = dtypeFromText(std::get<std::string>(*v)); d && isFloat(*d))
            op.attrs.set(attr, name);
    TRY(reinferTypes(m, *p));
  }
  return {};
}

} // namespace ds
