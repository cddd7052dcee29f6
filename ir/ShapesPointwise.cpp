// SPDX-License-Identifier: Apache-2.0
//
// The shape rule of pointwise groups: every step's own rule, in turn.
#include "ir/PointwiseBody.h"
#include "ir/ShapesCommon.h"

namespace ds {

// pointwise (x...): what the last step of the body gives; operands and steps broadcast to it.
Status shapePointwise(const ShapeArgs &c) {
  auto body = parsePointwise(c.attrs.s("body"), static_cast<int>(c.in.size()));
  if (!body.ok())
    return c.error(body.status().entries()[0].text, "pointwise_1");
  auto types = pointwiseTypes(*body, c.in);
  if (!types.ok())
    return c.error(types.status().entries()[0].text, "pointwise_2");
  return addResult(c, types->back().dtype, types->back().dims);
}

} // namespace ds
