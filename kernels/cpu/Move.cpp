// SPDX-License-Identifier: Apache-2.0
//
// Movement: each op is one or more strided copies, for every element type.
#include "kernels/Element.h"
#include "kernels/cpu/Copy.h"
#include "kernels/cpu/Kernels.h"

#include <array>
#include <cstring>
#include <vector>

namespace ds::cpu {

using Strides = std::array<int64_t, kMaxRank>;

/// One copy from operand 0 to the result, with offsets in elements.
class MoveKernel {
public:
  const char *run(const DsLaunch &l) {
    copy.run(ptr<char>(l.outs[0]) + to * bytes, ptr<char>(l.ins[0]) + from * bytes);
    return nullptr;
  }

protected:
  const char *init(const DsLaunch &l, const int64_t *dims, const int64_t *dst, const int64_t *src) {
    bytes = elemBytes(l.outs[0]);
    if (bytes != elemBytes(l.ins[0]))
      return "operand and result differ in element type";
    return copy.init(l.outs[0].rank, dims, dst, src, bytes, l.threads);
  }
  StridedCopy copy;
  int64_t bytes = 0, from = 0, to = 0;
};

struct Copy : MoveKernel {
  const char *prepare(const DsLaunch &l) {
    return init(l, l.outs[0].dims, l.outs[0].strides, l.ins[0].strides);
  }
};

struct Transpose : MoveKernel {
  const char *prepare(const DsLaunch &l) {
    const DsAttr &perm = attr(l, "perm");
    Strides src;
    for (int i = 0; i < l.outs[0].rank; ++i)
      src[i] = l.ins[0].strides[perm.list[i]];
    return init(l, l.outs[0].dims, l.outs[0].strides, src.data());
  }
};

struct BroadcastTo : MoveKernel {
  const char *prepare(const DsLaunch &l) {
    const DsTensor &x = l.ins[0];
    int lead = l.outs[0].rank - x.rank;
    Strides src;
    for (int i = 0; i < l.outs[0].rank; ++i)
      src[i] = i < lead || x.dims[i - lead] == 1 ? 0 : x.strides[i - lead];
    return init(l, l.outs[0].dims, l.outs[0].strides, src.data());
  }
};

struct Slice : MoveKernel {
  const char *prepare(const DsLaunch &l) {
    const DsAttr &starts = attr(l, "starts"), &steps = attr(l, "strides");
    Strides src;
    for (int i = 0; i < l.outs[0].rank; ++i) {
      src[i] = l.ins[0].strides[i] * steps.list[i];
      from += l.ins[0].strides[i] * starts.list[i];
    }
    return init(l, l.outs[0].dims, l.outs[0].strides, src.data());
  }
  const char *run(const DsLaunch &l) { // an empty slice may start outside its operand
    return elems(l.outs[0]) == 0 ? nullptr : MoveKernel::run(l);
  }
};

struct Reverse : MoveKernel {
  const char *prepare(const DsLaunch &l) {
    const DsAttr &axes = attr(l, "axes");
    Strides src;
    std::copy(l.ins[0].strides, l.ins[0].strides + l.ins[0].rank, src.begin());
    for (int64_t i = 0; i < axes.count; ++i) {
      int64_t axis = axes.list[i];
      from += (l.ins[0].dims[axis] - 1) * src[axis];
      src[axis] = -src[axis];
    }
    return init(l, l.outs[0].dims, l.outs[0].strides, src.data());
  }
  const char *run(const DsLaunch &l) {
    return elems(l.outs[0]) == 0 ? nullptr : MoveKernel::run(l);
  }
};

/// Fills with `value`, then copies the part of the operand that stays.
struct Pad : MoveKernel {
  const char *prepare(const DsLaunch &l) {
    const DsAttr &low = attr(l, "low"), &inside = attr(l, "interior");
    const DsTensor &x = l.ins[0], &y = l.outs[0];
    Strides dims, dst;
    bool covers = true;
    for (int i = 0; i < x.rank; ++i) {
      // Operand element k goes to low + k * step; [first, end) of them lie inside the result.
      int64_t step = inside.list[i] + 1, lo = low.list[i];
      int64_t first = lo < 0 ? (-lo + step - 1) / step : 0;
      int64_t end = y.dims[i] <= lo ? 0 : (y.dims[i] - lo + step - 1) / step;
      end = std::min(end, x.dims[i]);
      dims[i] = std::max<int64_t>(end - first, 0);
      dst[i] = y.strides[i] * step;
      from += first * x.strides[i];
      to += (lo + first * step) * y.strides[i];
      covers &= dims[i] == y.dims[i];
    }
    some = product(dims.data(), 0, x.rank) > 0;
    double v = attr(l, "value").f;
    switch (static_cast<DType>(y.dtype)) {
    case DType::F32:
      put(static_cast<float>(v));
      break;
    case DType::F64:
      put(v);
      break;
    case DType::BF16:
      put(elem::BF16::from(v).bits);
      break;
    case DType::F16:
      put(elem::F16::from(v).bits);
      break;
    case DType::I64:
      put(static_cast<int64_t>(v));
      break;
    case DType::I32:
      put(static_cast<int32_t>(v));
      break;
    case DType::Bool:
      put(static_cast<uint8_t>(v != 0));
      break;
    default:
      return "the cpu kernel pads floats, i64, i32 and bool";
    }
    fills = !covers;
    Strides none{};
    if (const char *m = fill.init(y.rank, y.dims, y.strides, none.data(), elemBytes(y), l.threads))
      return m;
    return init(l, dims.data(), dst.data(), x.strides);
  }
  const char *run(const DsLaunch &l) {
    if (fills)
      fill.run(l.outs[0].data, &value);
    return some ? MoveKernel::run(l) : nullptr;
  }

private:
  template <class T> void put(T v) { std::memcpy(&value, &v, sizeof(v)); }
  StridedCopy fill;
  uint64_t value = 0;
  bool fills = false, some = false;
};

class Concat {
public:
  const char *prepare(const DsLaunch &l) {
    const DsTensor &y = l.outs[0];
    int axis = normAxis(attr(l, "axis").i, y.rank);
    parts.resize(static_cast<size_t>(l.numIns));
    int64_t at = 0;
    for (int i = 0; i < l.numIns; ++i) {
      const DsTensor &x = l.ins[i];
      if (x.dtype != y.dtype)
        return "operands and result differ in element type";
      parts[i].to = at * y.strides[axis] * elemBytes(y);
      at += x.dims[axis];
      if (const char *m =
              parts[i].copy.init(x.rank, x.dims, y.strides, x.strides, elemBytes(y), l.threads))
        return m;
    }
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    for (int i = 0; i < l.numIns; ++i)
      parts[i].copy.run(ptr<char>(l.outs[0]) + parts[i].to, l.ins[i].data);
    return nullptr;
  }

private:
  struct Part {
    StridedCopy copy;
    int64_t to = 0;
  };
  std::vector<Part> parts;
};

const KernelFns copy = fnsOf<Copy>();
const KernelFns transpose = fnsOf<Transpose>();
const KernelFns broadcast = fnsOf<BroadcastTo>();
const KernelFns slice = fnsOf<Slice>();
const KernelFns reverse = fnsOf<Reverse>();
const KernelFns pad = fnsOf<Pad>();
const KernelFns concat = fnsOf<Concat>();

} // namespace ds::cpu
