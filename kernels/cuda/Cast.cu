// SPDX-License-Identifier: Apache-2.0
//
// cast, where, fill, iota.
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Map.cuh"
#include "kernels/cuda/Pack.cuh"

#include <limits>

#define ALL_TYPES(CASE)                                                                            \
  CASE(F64, double)                                                                                \
  CASE(F32, float)                                                                                 \
  CASE(BF16, BF16)                                                                                 \
  CASE(F16, F16)                                                                                   \
  CASE(I64, int64_t)                                                                               \
  CASE(I32, int32_t)                                                                               \
  CASE(I16, int16_t)                                                                               \
  CASE(I8, int8_t)                                                                                 \
  CASE(U64, uint64_t)                                                                              \
  CASE(U32, uint32_t)                                                                              \
  CASE(U16, uint16_t)                                                                              \
  CASE(U8, uint8_t)                                                                                \
  CASE(Bool, Bool)

namespace ds::cuda {

// Constants of the host's functions, which device code may use.
template <typename T> struct Ends {
  static constexpr T least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
};

/// As elem::truncateTo, on the device.
template <typename To, typename V> __device__ To castTo(V v) {
  constexpr bool fromFloat = std::is_floating_point_v<V>, toInt = std::is_integral_v<To>;
  if constexpr (!fromFloat || !toInt) {
    return rounded<To>(v);
  } else {
    if (v != v)
      return 0;
    constexpr To kMost = Ends<To>::most, kLeast = Ends<To>::least;
    if (v >= static_cast<V>(kMost / 2 + 1) * V(2))
      return kMost;
    if (v <= static_cast<V>(kLeast))
      return kLeast;
    return static_cast<To>(v);
  }
}

template <typename To, typename From> struct CastBody {
  To *out;
  const From *x;
  __device__ void operator()(const int64_t (&at)[2]) const {
    out[at[0]] = castTo<To>(value(x[at[1]]));
  }
};

// Any types, looked at per element: for pairs that are too rare for kernels of their own. Integers go through 64 bits, which keeps
// what a conversion between them keeps.
struct AnyCastBody {
  void *out;
  const void *x;
  uint8_t to, from;

  template <typename V> __device__ void put(int64_t at, V v) const {
    switch (static_cast<DType>(to)) {
#define CASE(kind, type)                                                                           \
  case DType::kind:                                                                                \
    static_cast<type *>(out)[at] = castTo<type>(v);                                                \
    return;
      ALL_TYPES(CASE)
#undef CASE
    }
  }
  __device__ void operator()(const int64_t (&at)[2]) const {
    switch (static_cast<DType>(from)) {
#define CASE(kind, type)                                                                           \
  case DType::kind:                                                                                \
    put(at[0], value(static_cast<const type *>(x)[at[1]]));                                        \
    return;
      ALL_TYPES(CASE)
#undef CASE
    }
  }
};

// What mixed precision casts most.
template <typename T>
constexpr bool kIsShort =
    std::is_same_v<T, float> || std::is_same_v<T, BF16> || std::is_same_v<T, F16>;
template <typename To, typename From>
__global__ void castKernel(To *out, const From *x, int64_t n) {
  roundAll(out, x, n);
}

static bool hasOwnKernels(uint8_t t) {
  auto d = static_cast<DType>(t);
  return isFloat(d) || d == DType::I64 || d == DType::I32 || d == DType::Bool;
}

const char *cast(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0], &x = l->ins[0];
  if (!hasOwnKernels(out.dtype) || !hasOwnKernels(x.dtype))
    return launchElements(*l, AnyCastBody{out.data, x.data, out.dtype, x.dtype}, stridedOf(out, x));
  return Everything::dispatch(l->ins[0].dtype, [&](auto fromTag) {
    return Everything::dispatch(l->outs[0].dtype, [&](auto toTag) {
      using From = typename decltype(fromTag)::Type;
      using To = typename decltype(toTag)::Type;
      To *to = elem::dataOf<To>(l->outs[0]);
      const From *from = elem::dataOf<From>(l->ins[0]);
      const auto strided = stridedOf(l->outs[0], l->ins[0]);
      if constexpr (kIsShort<From> && kIsShort<To> && !std::is_same_v<From, To>)
        if (strided.isFlat() && strided.count > 0)
          return launch(castKernel<To, From>, gridFor(strided.count, 8 * kBlock), dim3(kBlock), 0,
                        streamOf(*l), to, from, strided.count);
      return launchElements(*l, CastBody<To, From>{to, from}, strided);
    });
  });
}

struct WhereFn {
  template <typename V> __device__ V operator()(bool condition, V a, V b) const {
    return condition ? a : b;
  }
};
const char *where(const DsLaunch *l, void *) {
  return elem::dispatchSize(l->ins[1].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Bool *condition = elem::dataOf<Bool>(l->ins[0]);
    const T *a = elem::dataOf<T>(l->ins[1]), *b = elem::dataOf<T>(l->ins[2]);
    return mapInto(*l, WhereFn(), stridedOf(l->outs[0], l->ins[0], l->ins[1], l->ins[2]),
                   elem::dataOf<T>(l->outs[0]), condition, a, b);
  });
}

template <typename T> struct FillBody {
  T *out, value;
  __device__ void operator()(const int64_t (&at)[1]) const { out[at[0]] = value; }
};
template <typename T> static T hostNumber(double v) {
  if constexpr (elem::kIsFloat<T> || std::is_same_v<T, Bool>)
    return elem::store<T>(v);
  else
    return elem::truncateTo<T>(v);
}
const char *fill(const DsLaunch *l, void *) {
  return elem::dispatchAny(l->outs[0].dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launchElements(
        *l, FillBody<T>{elem::dataOf<T>(l->outs[0]), hostNumber<T>(attr(*l, "value").f)},
        stridedOf(l->outs[0]));
  });
}

template <typename T> struct IotaBody {
  T *out;
  int64_t start, step;
  __device__ void operator()(const int64_t (&at)[2]) const {
    out[at[0]] = rounded<T>(start + step * at[1]);
  }
};
const char *iota(const DsLaunch *l, void *) {
  const DsTensor &out = l->outs[0];
  int64_t axis = attr(*l, "axis").i;
  Strided<2> s; // tensor 1 counts along the axis
  for (int i = 0; i < out.rank; ++i)
    s.add(out.dims[i], {out.strides[i], i == (axis < 0 ? axis + out.rank : axis) ? 1 : 0});
  return Numbers::dispatch(out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    return launchElements(
        *l, IotaBody<T>{elem::dataOf<T>(out), attr(*l, "start").i, attr(*l, "step").i}, s);
  });
}

} // namespace ds::cuda
