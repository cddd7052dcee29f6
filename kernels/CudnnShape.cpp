// SPDX-License-Identifier: Apache-2.0
#include "kernels/CudnnShape.h"

#include <algorithm>
#include <climits>

namespace ds {

// The batch and the channels, then the last axes of the window.
static void setDims(std::array<int, 5> &out, int rank, const DsTensor &t, int64_t WindowAxis::*n,
                    const Windows &v) {
  out[0] = static_cast<int>(t.dims[0]);
  out[1] = static_cast<int>(t.dims[1]);
  for (int i = 2; i < rank; ++i)
    out[static_cast<size_t>(i)] = static_cast<int>(v.axis[i + 3 - rank].*n);
}

const char *cudnnShape(const ConvShape &s, CudnnShape &out) {
  for (const DsTensor *t : {&s.x, &s.w, &s.y}) {
    if (elems(*t) == 0)
      return "there are no elements";
    if (elems(*t) > INT_MAX)
      return "a tensor has more than 2^31 - 1 elements";
    if (!isRowMajor(*t))
      return "a tensor is not row-major";
  }
  out.rank = std::max(s.x.rank, 4);
  for (int i = 0; i < out.rank - 2; ++i) {
    const WindowAxis &a = s.windows.axis[i + 5 - out.rank];
    // What lies behind the last window does not matter: the padding there may be less than in front.
    int64_t room = a.in + 2 * a.low - (a.window - 1) * a.dilation - 1;
    if (a.low < 0 || a.low >= INT_MAX / 2 || room < 0 || room / a.stride + 1 != a.out)
      return "padding is not the same in front and behind";
    if (a.stride > INT_MAX || a.dilation > INT_MAX)
      return "a stride or dilation is above 2^31 - 1";
    auto k = static_cast<size_t>(i);
    out.pad[k] = static_cast<int>(a.low);
    out.stride[k] = static_cast<int>(a.stride);
    out.dilation[k] = static_cast<int>(a.dilation);
  }
  setDims(out.x, out.rank, s.x, &WindowAxis::in, s.windows);
  setDims(out.w, out.rank, s.w, &WindowAxis::window, s.windows);
  setDims(out.y, out.rank, s.y, &WindowAxis::out, s.windows);
  out.groups = static_cast<int>(s.groups);
  return nullptr;
}

} // namespace ds
