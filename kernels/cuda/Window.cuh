// SPDX-License-Identifier: Apache-2.0
//
// What convolution and pooling kernels share: the element of a result [N,C,..] that a thread works on.
#pragma once

#include "kernels/Window.h"
#include "kernels/cuda/Half.cuh"

namespace ds::cuda {

/// A box of n x c x three axes, of which leading ones may have one element.
struct Box {
  int64_t n, c, axis[3];
  DS_HOST_DEVICE int64_t count() const { return n * c * axis[0] * axis[1] * axis[2]; }
  __device__ void split(int64_t i, int64_t &at, int64_t &channel, Place &p) const {
    for (int a = 2; a >= 0; --a) {
      p[a] = i % axis[a];
      i /= axis[a];
    }
    channel = i % c;
    at = i / c;
  }
};
inline Box boxOf(const DsTensor &t) {
  Box b = {t.dims[0], t.dims[1], {1, 1, 1}};
  for (int i = 2; i < t.rank; ++i)
    b.axis[i + 3 - t.rank] = t.dims[i];
  return b;
}

/// f(batch element, channel, place) in a grid-stride loop.
template <typename F> __device__ void forBox(const Box &b, F f) {
  for (int64_t i = firstIndex(); i < b.count(); i += indexStep()) {
    int64_t n, c;
    Place p;
    b.split(i, n, c, p);
    f(n, c, p);
  }
}

} // namespace ds::cuda
