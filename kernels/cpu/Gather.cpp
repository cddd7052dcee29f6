// SPDX-License-Identifier: Apache-2.0
//
// gather copies blocks of any element type; gather_grad adds f32 blocks in index order, each thread on its own
// columns, so that the sums are those of one thread. Negative indices count from the end.
#include "kernels/cpu/Dense.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"

#include <atomic>
#include <cstring>

namespace ds::cpu {

static const char *const kBadIndex = "an index is out of range of the gathered axis";

class Indices {
protected:
  void init(const DsTensor &x, const DsTensor &indices, int axis) {
    outer = product(x.dims, 0, axis);
    extent = x.dims[axis];
    inner = product(x.dims, axis + 1, x.rank);
    count = elems(indices);
    wide = is(indices, DType::I64);
  }
  /// Row of the gathered axis, or -1.
  int64_t at(const DsTensor &indices, int64_t i) const {
    int64_t v = wide ? ptr<int64_t>(indices)[i] : ptr<int32_t>(indices)[i];
    v = v < 0 ? v + extent : v;
    return v >= 0 && v < extent ? v : -1;
  }
  int64_t outer = 0, extent = 0, inner = 0, count = 0;
  bool wide = false;
};

class Gather : Indices {
public:
  const char *prepare(const DsLaunch &l) {
    init(l.ins[0], l.ins[1], normAxis(attr(l, "axis").i, l.ins[0].rank));
    bytes = elemBytes(l.ins[0]) * inner;
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    const char *x = ptr<char>(l.ins[0]);
    char *out = ptr<char>(l.outs[0]);
    std::atomic<bool> bad{false};
    parallelFor(l.threads, outer * count, outer * count * inner, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t row = at(l.ins[1], i % count);
        if (row < 0) {
          bad.store(true, std::memory_order_relaxed);
          continue;
        }
        const char *from = x + (i / count * extent + row) * bytes;
        if (bytes == 4)
          std::memcpy(out + i * 4, from, 4);
        else
          std::memcpy(out + i * bytes, from, static_cast<size_t>(bytes));
      }
    });
    return bad.load() ? kBadIndex : nullptr;
  }

private:
  int64_t bytes = 0;
};

class GatherGrad : Indices {
public:
  const char *prepare(const DsLaunch &l) {
    init(l.outs[0], l.ins[1], normAxis(attr(l, "axis").i, l.outs[0].rank));
    return is(l.ins[0], DType::F32) && is(l.outs[0], DType::F32) ? nullptr
                                                                 : "gather_grad needs f32";
  }
  const char *run(const DsLaunch &l) {
    const float *dy = f32(l.ins[0]);
    float *dx = f32(l.outs[0]);
    const int64_t all = outer * extent * inner;
    parallelFor(l.threads, all, all, [&](int64_t begin, int64_t end) {
      std::memset(dx + begin, 0, static_cast<size_t>(end - begin) * sizeof(float));
    });
    std::atomic<bool> bad{false};
    // Units of 64 columns: threads do not share cache lines of wide rows.
    const int64_t units = (inner + 63) / 64;
    parallelFor(l.threads, units, outer * count * inner, [&](int64_t begin, int64_t end) {
      const int64_t c0 = begin * 64, c1 = std::min(inner, end * 64);
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < count; ++i) {
          int64_t row = at(l.ins[1], i);
          if (row < 0) {
            bad.store(true, std::memory_order_relaxed);
            continue;
          }
          float *to = dx + (o * extent + row) * inner;
          const float *from = dy + (o * count + i) * inner;
          for (int64_t c = c0; c < c1; ++c)
            to[c] += from[c];
        }
    });
    return bad.load() ? kBadIndex : nullptr;
  }
};

const KernelFns gather = fnsOf<Dense<Gather>>();
const KernelFns gatherGrad = fnsOf<Widen<Dense<GatherGrad>>>();

/// Keeps the upper or lower triangle of the last two axes; the rest is zero.
class Trilu {
public:
  const char *prepare(const DsLaunch &l) {
    const DsTensor &x = l.ins[0];
    rows = x.dims[x.rank - 2];
    cols = x.dims[x.rank - 1];
    bytes = elemBytes(x);
    upper = flag(l, "upper");
    k = std::clamp(attr(l, "k").i, -rows - 1, cols + 1); // nothing changes beyond
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    const int64_t all = elems(l.ins[0]);
    if (all == 0)
      return nullptr;
    parallelFor(l.threads, all / cols, all, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const char *from = ptr<char>(l.ins[0]) + i * cols * bytes;
        char *to = ptr<char>(l.outs[0]) + i * cols * bytes;
        // Kept columns: [cut, cols) of an upper triangle, [0, cut) of a lower one.
        int64_t cut = std::clamp<int64_t>(i % rows + k + (upper ? 0 : 1), 0, cols);
        auto part = [&](int64_t a, int64_t b, bool kept) {
          size_t n = static_cast<size_t>((b - a) * bytes);
          if (kept)
            std::memcpy(to + a * bytes, from + a * bytes, n);
          else
            std::memset(to + a * bytes, 0, n);
        };
        part(0, cut, !upper);
        part(cut, cols, upper);
      }
    });
    return nullptr;
  }

private:
  int64_t rows = 0, cols = 0, bytes = 0, k = 0;
  bool upper = false;
};

const KernelFns trilu = fnsOf<Dense<Trilu>>();

} // namespace ds::cpu
