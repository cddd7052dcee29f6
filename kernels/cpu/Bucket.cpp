// SPDX-License-Identifier: Apache-2.0
//
// Filling buckets and accumulators.
#include "kernels/cpu/Copy.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"

#include <cstring>
#include <vector>

namespace ds::cpu {

/// Operands lie row-major from at[i] on; gaps are zero. What its producer already wrote in place stays.
class Pack {
public:
  const char *prepare(const DsLaunch &l) {
    const DsTensor &y = l.outs[0];
    if (!isRowMajor(y))
      return "pack: the bucket is not contiguous";
    const DsAttr &at = attr(l, "at");
    bytes = elemBytes(y);
    parts.resize(static_cast<size_t>(l.numIns));
    int64_t end = 0;
    for (int i = 0; i < l.numIns; ++i) {
      const DsTensor &x = l.ins[i];
      if (x.dtype != y.dtype)
        return "operands and result differ in element type";
      parts[i].at = at.list[i];
      parts[i].gap = parts[i].at - end;
      parts[i].rowMajor = isRowMajor(x);
      end = parts[i].at + elems(x);
      int64_t dense[kMaxRank], n = 1;
      for (int k = x.rank - 1; k >= 0; --k) {
        dense[k] = n;
        n *= x.dims[k];
      }
      if (const char *m = parts[i].copy.init(x.rank, x.dims, dense, x.strides, bytes, l.threads))
        return m;
    }
    tail = elems(y) - end;
    tailAt = end;
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    char *out = ptr<char>(l.outs[0]);
    for (int i = 0; i < l.numIns; ++i) {
      const Part &p = parts[i];
      char *to = out + p.at * bytes;
      std::memset(to - p.gap * bytes, 0, static_cast<size_t>(p.gap * bytes));
      if (to != l.ins[i].data || !p.rowMajor)
        p.copy.run(to, l.ins[i].data);
    }
    std::memset(out + tailAt * bytes, 0, static_cast<size_t>(tail * bytes));
    return nullptr;
  }

private:
  struct Part {
    StridedCopy copy;
    int64_t at = 0, gap = 0;
    bool rowMajor = false;
  };
  std::vector<Part> parts;
  int64_t bytes = 0, tail = 0, tailAt = 0;
};

/// ([acc,] v): acc + v, or v alone.
class Accumulate {
public:
  const char *prepare(const DsLaunch &l) {
    if (const char *message = requireNarrowFloats(l))
      return message;
    if (!is(l.outs[0], DType::F32) || (l.numIns == 2 && !is(l.ins[0], DType::F32)))
      return "the cpu kernel accumulates in f32";
    added = FloatPort(l.ins[l.numIns - 1]);
    threads = l.threads;
    return loop.init(l.outs[0], l.ins, l.numIns);
  }
  const char *run(const DsLaunch &l) {
    float *out = f32(l.outs[0]);
    const int64_t so = loop.inner(0), sa = loop.inner(1);
    const void *v = l.ins[l.numIns - 1].data;
    if (l.numIns == 1) {
      loop.forEach(threads, [&](const Offsets &off, int64_t n) {
        float x[FloatPort::kBlock];
        for (int64_t i = 0; i < n; i += FloatPort::kBlock) {
          int64_t m = std::min(FloatPort::kBlock, n - i);
          added.load(v, off[1] + i * sa, sa, m, so == 1 ? out + off[0] + i : x);
          for (int64_t k = 0; so != 1 && k < m; ++k)
            out[off[0] + (i + k) * so] = x[k];
        }
      });
      return nullptr;
    }
    const int64_t sv = loop.inner(2);
    const bool dense = so == 1 && sa == 1 && sv == 1 && added.isF32();
    loop.forEach(threads, [&](const Offsets &off, int64_t n) {
      float *o = out + off[0];
      const float *a = f32(l.ins[0]) + off[1];
      if (dense) {
        const float *x = static_cast<const float *>(v) + off[2];
        for (int64_t i = 0; i < n; ++i)
          o[i] = a[i] + x[i];
        return;
      }
      float x[FloatPort::kBlock];
      for (int64_t i = 0; i < n; i += FloatPort::kBlock) {
        int64_t m = std::min(FloatPort::kBlock, n - i);
        added.load(v, off[2] + i * sv, sv, m, x);
        for (int64_t k = 0; k < m; ++k)
          o[(i + k) * so] = a[(i + k) * sa] + x[k];
      }
    });
    return nullptr;
  }

private:
  FloatPort added;
  Loop loop;
  int threads = 1;
};

const KernelFns pack = fnsOf<Pack>();
const KernelFns accumulate = fnsOf<Accumulate>();

} // namespace ds::cpu
