// SPDX-License-Identifier: Apache-2.0
//
// Elementwise launches of a functor over its operands' values, by accesses of 16 bytes wherever the tensors lie so.
#pragma once

#include "kernels/cuda/Pack.cuh"
#include "kernels/cuda/Strided.cuh"

#include <cmath>

namespace ds::cuda {

/// f(Tag<T>) for the types that the plugin's elementwise kernels take; f returns null or a message.
struct Floats {
  template <typename F> static const char *dispatch(uint8_t t, F f) {
    return elem::dispatchFloat(t, f);
  }
};
struct Numbers {
  template <typename F> static const char *dispatch(uint8_t t, F f) {
    switch (static_cast<DType>(t)) {
    case DType::I64:
      return f(elem::Tag<int64_t>());
    case DType::I32:
      return f(elem::Tag<int32_t>());
    default:
      return elem::dispatchFloat(t, f);
    }
  }
};
struct Bools {
  template <typename F> static const char *dispatch(uint8_t, F f) { return f(elem::Tag<Bool>()); }
};
struct Everything { // for comparisons
  template <typename F> static const char *dispatch(uint8_t t, F f) {
    return static_cast<DType>(t) == DType::Bool ? f(elem::Tag<Bool>()) : Numbers::dispatch(t, f);
  }
};

template <int kSize, typename T>
__device__ Pack<T, kSize> operandAt(const T *x, int64_t at, bool repeats) {
  if (!repeats)
    return packAt<kSize>(x, at, true);
  Pack<T, kSize> p;
  DS_UNROLL
  for (int k = 0; k < kSize; ++k)
    p.of[k] = x[at];
  return p;
}

template <int kSize, typename R, typename F, typename... Ts, size_t... kNumber>
__device__ void mapAt(const F &f, R *out, const int64_t (&at)[1 + sizeof...(Ts)], uint32_t repeated,
                      std::index_sequence<kNumber...>, const Ts *...xs) {
  auto each = [&](const auto &...packs) {
    Pack<R, kSize> r;
    DS_UNROLL
    for (int k = 0; k < kSize; ++k)
      r.of[k] = rounded<R>(f(value(packs.of[k])...));
    return r;
  };
  putPack(out, at[0], true,
          each(operandAt<kSize>(xs, at[1 + kNumber], (repeated >> kNumber & 1) != 0)...));
}

/// s counts packs of kSize elements. `repeated`: a bit for each operand.
template <int kSize, typename R, typename F, typename... Ts>
__global__ void mapKernel(F f, R *out, Strided<1 + sizeof...(Ts)> s, bool flat, uint32_t repeated,
                          const Ts *...xs) {
  for (int64_t i = firstIndex(); i < s.count; i += indexStep()) {
    int64_t at[1 + sizeof...(Ts)];
    if (flat)
      for (int64_t &offset : at)
        offset = i * kSize;
    else
      s.offsets(i, at);
    mapAt<kSize>(f, out, at, repeated, std::index_sequence_for<Ts...>(), xs...);
  }
}

/// out = f(values of xs...), rounded, over s: the result's index.
template <typename R, typename F, typename... Ts>
const char *mapInto(const DsLaunch &l, F f, const Strided<1 + sizeof...(Ts)> &s, R *out,
                    const Ts *...xs) {
  if (s.count == 0)
    return nullptr;
  constexpr int kSize = static_cast<int>(16 / std::max({sizeof(R), sizeof(Ts)...}));
  auto go = [&](auto kernel, const Strided<1 + sizeof...(Ts)> &packs, int64_t size) {
    uint32_t repeated = 0;
    for (int k = 0; size > 1 && k < static_cast<int>(sizeof...(Ts)); ++k)
      repeated |= s.repeats(1 + k) ? 1u << k : 0u;
    return launch(kernel, gridFor(packs.count), dim3(kBlock), 0, streamOf(l), f, out, packs,
                  packs.isFlat(size), repeated, xs...);
  };
  if constexpr (kSize >= 4) { // larger elements are wide by themselves
    bool wide = s.liesInPacks(kSize) && isPacked<kSize>(out);
    int k = 0;
    ((wide = wide && (s.repeats(++k) || isPacked<kSize>(xs))), ...);
    if (wide)
      return go(mapKernel<kSize, R, F, Ts...>, s.inPacks(kSize), kSize);
  }
  return go(mapKernel<1, R, F, Ts...>, s, 1);
}

/// Copies.
struct SameFn {
  template <typename V> __device__ V operator()(V v) const { return v; }
};

template <typename T, bool kToBool> using ResultOf = std::conditional_t<kToBool, Bool, T>;

template <typename Types, bool kToBool = false, typename F>
const char *mapUnary(const DsLaunch &l, F f) {
  return Types::dispatch(l.ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using R = ResultOf<T, kToBool>;
    return mapInto(l, f, stridedOf(l.outs[0], l.ins[0]), elem::dataOf<R>(l.outs[0]),
                   static_cast<const T *>(elem::dataOf<T>(l.ins[0])));
  });
}
template <typename Types, bool kToBool = false, typename F>
const char *mapBinary(const DsLaunch &l, F f) {
  return Types::dispatch(l.ins[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    using R = ResultOf<T, kToBool>;
    return mapInto(l, f, stridedOf(l.outs[0], l.ins[0], l.ins[1]), elem::dataOf<R>(l.outs[0]),
                   static_cast<const T *>(elem::dataOf<T>(l.ins[0])),
                   static_cast<const T *>(elem::dataOf<T>(l.ins[1])));
  });
}

} // namespace ds::cuda
