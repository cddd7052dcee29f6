// SPDX-License-Identifier: Apache-2.0
//
// Copies between strided layouts, of any element type: what transpose, slice, broadcast, concat, pad, reverse, pack
// and the staging of non-contiguous operands are made of.
#pragma once

#include "kernels/cpu/Cpu.h"
#include "kernels/cpu/Loop.h"

namespace ds::cpu {

class StridedCopy {
public:
  /// dst[index] = src[index] over dims; strides in elements, of any sign, 0 in src repeats.
  const char *init(int rank, const int64_t *dims, const int64_t *dst, const int64_t *src,
                   int64_t elemBytes, int threads);
  /// dst and src point at index 0.
  void run(void *dst, const void *src) const;

private:
  template <class T> void runAs(T *dst, const T *src) const;
  template <class T> void tiles(T *dst, const T *src) const;
  void moveAxis(int from, int to); // from < to
  Loop loop;
  int64_t bytes = 0;
  int threads = 1;
  bool tiled = false; // the source is contiguous along loop axis 0 of the two swapped ones
};

} // namespace ds::cpu
