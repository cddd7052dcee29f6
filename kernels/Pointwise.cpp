// SPDX-License-Identifier: Apache-2.0
#include "kernels/Pointwise.h"

namespace ds {

const char *readPointwise(const DsLaunch &l, PointwiseLaunch &out) {
  auto body = parsePointwise(attr(l, "body").s, l.numIns);
  if (!body.ok())
    return "the body does not parse";
  std::vector<Type> in;
  for (int i = 0; i < l.numIns; ++i) {
    const DsTensor &t = l.ins[i];
    in.push_back(Type(static_cast<DType>(t.dtype), std::vector<int64_t>(t.dims, t.dims + t.rank)));
  }
  auto types = pointwiseTypes(*body, in);
  if (!types.ok() || types->back().dtype != static_cast<DType>(l.outs[0].dtype))
    return "the body does not fit the operands' and the result's types";
  out.body = std::move(*body);
  out.types.clear();
  for (const Type &t : in)
    out.types.push_back(t.dtype);
  for (const Type &t : *types)
    out.types.push_back(t.dtype);
  return nullptr;
}

} // namespace ds
