// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/Copy.h"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace ds::cpu {

const char *StridedCopy::init(int rank, const int64_t *dims, const int64_t *dst, const int64_t *src,
                              int64_t elemBytes, int numThreads) {
  bytes = elemBytes;
  threads = numThreads;
  const int64_t *strides[] = {dst, src};
  if (const char *message = loop.init(rank, dims, 2, strides))
    return message;
  const int inner = loop.rank - 1;
  const int64_t *from = loop.strides[1];
  if (loop.rank < 2 || loop.strides[0][inner] != 1 || from[inner] == 0)
    return nullptr;
  if (from[inner] == 1) {
    // Rows are whole in both. Either side may have its rows in order; the other is then touched in as
    // many places in turn as the axis above the rows is long: take the shorter axis there.
    int nearest = inner - 1;
    for (int i = 0; i < inner; ++i)
      if (std::abs(from[i]) < std::abs(from[nearest]))
        nearest = i;
    if (loop.dims[nearest] < loop.dims[inner - 1])
      moveAxis(nearest, inner - 1);
    return nullptr;
  }
  // If the source runs along another axis than the destination, bring that axis next to the innermost
  // and copy square tiles: every cache line that is touched is used whole.
  for (int i = inner - 1; i >= 0; --i)
    if (from[i] == 1 && loop.dims[i] >= 4) {
      moveAxis(i, inner - 1);
      tiled = true;
      break;
    }
  return nullptr;
}

void StridedCopy::moveAxis(int from, int to) {
  for (int k = from; k < to; ++k) {
    std::swap(loop.dims[k], loop.dims[k + 1]);
    std::swap(loop.strides[0][k], loop.strides[0][k + 1]);
    std::swap(loop.strides[1][k], loop.strides[1][k + 1]);
  }
}

// Rows r of the destination are contiguous, columns c of it are contiguous in the source.
template <class T> void StridedCopy::tiles(T *dst, const T *src) const {
  constexpr int64_t kTile = 16;
  const int a = loop.rank - 2, b = loop.rank - 1;
  const int64_t rows = loop.dims[a], cols = loop.dims[b];
  const int64_t sd = loop.strides[0][a], ss = loop.strides[1][b];
  const int64_t bands = (rows + kTile - 1) / kTile;
  parallelFor(threads, loop.elems() / (rows * cols) * bands, loop.elems(),
              [&](int64_t begin, int64_t end) {
                Loop::Cursor c = loop.at(begin / bands, 2);
                int64_t band = begin % bands;
                for (int64_t i = begin; i < end; ++i) {
                  const int64_t r0 = band * kTile, r1 = std::min(rows, r0 + kTile);
                  T *d = dst + c.off[0];
                  const T *s = src + c.off[1];
                  for (int64_t c0 = 0; c0 < cols; c0 += kTile) {
                    const int64_t c1 = std::min(cols, c0 + kTile);
                    if (r1 - r0 == kTile && c1 - c0 == kTile) {
                      T tile[kTile][kTile];
                      for (int64_t x = 0; x < kTile; ++x)
                        std::memcpy(tile[x], s + (c0 + x) * ss + r0, sizeof(tile[x]));
                      for (int64_t r = 0; r < kTile; ++r)
                        for (int64_t x = 0; x < kTile; ++x)
                          d[(r0 + r) * sd + c0 + x] = tile[x][r];
                      continue;
                    }
                    for (int64_t r = r0; r < r1; ++r)
                      for (int64_t x = c0; x < c1; ++x)
                        d[r * sd + x] = s[x * ss + r];
                  }
                  if (++band == bands) {
                    band = 0;
                    loop.next(c, 2);
                  }
                }
              });
}

template <class T> void StridedCopy::runAs(T *dst, const T *src) const {
  if (tiled)
    return tiles(dst, src);
  const int64_t sd = loop.inner(0), ss = loop.inner(1);
  loop.forEach(threads, [&](const Offsets &off, int64_t n) {
    T *d = dst + off[0];
    const T *s = src + off[1];
    if (sd == 1 && ss == 1)
      std::memcpy(d, s, static_cast<size_t>(n) * sizeof(T));
    else if (sd == 1 && ss == 0)
      std::fill(d, d + n, *s);
    else
      for (int64_t i = 0; i < n; ++i)
        d[i * sd] = s[i * ss];
  });
}

void StridedCopy::run(void *dst, const void *src) const {
  if (loop.elems() == 0)
    return;
  switch (bytes) {
  case 1:
    return runAs(static_cast<uint8_t *>(dst), static_cast<const uint8_t *>(src));
  case 2:
    return runAs(static_cast<uint16_t *>(dst), static_cast<const uint16_t *>(src));
  case 4:
    return runAs(static_cast<uint32_t *>(dst), static_cast<const uint32_t *>(src));
  default:
    return runAs(static_cast<uint64_t *>(dst), static_cast<const uint64_t *>(src));
  }
}

} // namespace ds::cpu
