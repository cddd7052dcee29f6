// SPDX-License-Identifier: Apache-2.0
//
// The only place where kernels fork: a static split of [0, n) over the stream's OpenMP threads.
// Whether to fork depends on shapes only, so that a launch gives the same bits wherever its buffers lie.
#pragma once

#include <cstdint>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace ds::cpu {

/// Elements of simple arithmetic below which one thread is faster than a fork.
inline constexpr int64_t kForkElems = 1 << 15;

/// body(begin, end) on consecutive parts of [0, n). elems: elements touched in all.
template <class F> void parallelFor(int threads, int64_t n, int64_t elems, const F &body) {
  if (n <= 0)
    return;
#ifdef _OPENMP
  if (threads > 1 && n > 1 && elems >= kForkElems) {
#pragma omp parallel num_threads(threads)
    {
      int64_t t = omp_get_thread_num(), all = omp_get_num_threads();
      int64_t begin = n * t / all, end = n * (t + 1) / all;
      if (begin < end)
        body(begin, end);
    }
    return;
  }
#else
  (void)threads;
  (void)elems;
#endif
  body(int64_t{0}, n);
}

} // namespace ds::cpu
