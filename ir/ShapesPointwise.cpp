// SPDX-License-Identifier: Apache-2.0
//
// The shape rule of pointwise groups.
#include "ir/ShapesCommon.h"

namespace ds {

// pointwise (x...): all broadcast.
Status shapePointwise(const ShapeArgs &c) {
  Dims dims = c.in[0].dims;
  for (size_t i = 1; i < c.in.size(); ++i) {
    TRY_ASSIGN(dims, broadcastDims(c, dims, c.in[i].dims, "pointwise_1"));
  }
  return addResult(c, c.in[0].dtype, std::move(dims));
}

} // namespace ds
