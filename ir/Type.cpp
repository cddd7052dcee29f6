// SPDX-License-Identifier: Apache-2.0
#include "ir/Type.h"

namespace ds {

int64_t Type::elems() const {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

Type Type::withDims(std::vector<int64_t> d) const {
  Type t = *this;
  t.dims = std::move(d);
  return t;
}
Type Type::withDType(DType d) const {
  Type t = *this;
  t.dtype = d;
  return t;
}
Type Type::withPlacement(Placement p, std::string a) const {
  Type t = *this;
  t.placement = p;
  t.axes = std::move(a);
  return t;
}

std::string dimsText(const std::vector<int64_t> &dims) {
  std::string s = "[";
  for (size_t i = 0; i < dims.size(); ++i)
    s += (i ? "," : "") + std::to_string(dims[i]);
  return s + "]";
}

std::string_view text(Placement p) {
  constexpr std::string_view names[] = {"local", "repl", "shard", "partial"};
  return names[static_cast<int>(p)];
}
std::string_view text(Space s) {
  constexpr std::string_view names[] = {"device", "host", "nvme"};
  return names[static_cast<int>(s)];
}

std::string Type::str() const {
  std::string s = std::string(text(dtype)) + dimsText(dims);
  if (placement != Placement::Local)
    s += " " + std::string(text(placement));
  if (placement == Placement::Shard || placement == Placement::Partial)
    s += "(" + axes + ")";
  if (space != Space::Device)
    s += " " + std::string(text(space));
  return s;
}

} // namespace ds
