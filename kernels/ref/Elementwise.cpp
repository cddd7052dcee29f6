// SPDX-License-Identifier: Apache-2.0
//
// Elementwise kernels. Arithmetic is done in the element type (float for the 16-bit types); transcendental
// functions are computed in double and rounded once. Integers wrap.
#include "kernels/ref/Gelu.h"
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

namespace ds::ref {

// ---- helpers ----------------------------------------------------------------------------------------

// f(x) in Compute<T> for every element; the result has T or, for kBool, Bool elements.
template <bool kBool = false, typename F> static auto mapUnary(const DsLaunch &l, F f) {
  return [&l, f](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using R = std::conditional_t<kBool, Bool, T>;
    R *out = dataOf<R>(l.outs[0]);
    const T *x = dataOf<T>(l.ins[0]);
    walk(loopOf(l.outs[0], l.ins[0]),
         [&](int64_t o, int64_t i) { out[o] = store<R>(f(load(x[i]))); });
    return nullptr;
  };
}

template <bool kBool = false, typename F> static auto mapBinary(const DsLaunch &l, F f) {
  return [&l, f](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using R = std::conditional_t<kBool, Bool, T>;
    R *out = dataOf<R>(l.outs[0]);
    const T *a = dataOf<T>(l.ins[0]), *b = dataOf<T>(l.ins[1]);
    walk(loopOf(l.outs[0], l.ins[0], l.ins[1]),
         [&](int64_t o, int64_t i, int64_t j) { out[o] = store<R>(f(load(a[i]), load(b[j]))); });
    return nullptr;
  };
}

// Integers are added, subtracted and multiplied as unsigned 64-bit ones: they wrap.
template <typename V> static uint64_t wide(V v) { return static_cast<uint64_t>(v); }
template <typename V> inline constexpr bool kFloating = std::is_floating_point_v<V>;

// ---- unary ------------------------------------------------------------------------------------------

#define UNARY_NUMBER(name, expr)                                                                   \
  const char *name(const DsLaunch *l, void *) {                                                    \
    return dispatchNumber(l->ins[0].dtype, mapUnary(*l, [](auto x) {                               \
                            using V = decltype(x);                                                 \
                            return static_cast<V>(expr);                                           \
                          }));                                                                     \
  }
#define UNARY_FLOAT(name, expr)                                                                    \
  const char *name(const DsLaunch *l, void *) {                                                    \
    return dispatchFloat(l->ins[0].dtype, mapUnary(*l, [](auto v) {                                \
                           double x = v;                                                           \
                           return expr;                                                            \
                         }));                                                                      \
  }

template <typename V> static V negate(V x) {
  if constexpr (kFloating<V>)
    return -x;
  else
    return static_cast<V>(0 - wide(x));
}
template <typename V> static V absolute(V x) {
  if constexpr (kFloating<V>)
    return std::fabs(x);
  else
    return x < V(0) ? negate(x) : x;
}
template <typename V> static V signOf(V x) {
  return x > V(0) ? V(1) : x < V(0) ? negate(V(1)) : x; // 0 and NaN are themselves
}
// True for NaN only, also where V has none.
template <typename V> static bool isNan(V x) { return x != x; }

UNARY_NUMBER(refNeg, negate(x))
UNARY_NUMBER(refAbs, absolute(x))
UNARY_NUMBER(refSign, signOf(x))
UNARY_NUMBER(refRelu, x > V(0) || isNan(x) ? x : V(0))
UNARY_FLOAT(refExp, std::exp(x))
UNARY_FLOAT(refLog, std::log(x))
UNARY_FLOAT(refSqrt, std::sqrt(x))
UNARY_FLOAT(refReciprocal, 1 / x)
UNARY_FLOAT(refTanh, std::tanh(x))
UNARY_FLOAT(refSigmoid, 1 / (1 + std::exp(-x)))
UNARY_FLOAT(refErf, std::erf(x))
UNARY_FLOAT(refSin, std::sin(x))
UNARY_FLOAT(refCos, std::cos(x))
UNARY_FLOAT(refFloor, std::floor(x))
UNARY_FLOAT(refCeil, std::ceil(x))
UNARY_FLOAT(refRound, std::nearbyint(x))

const char *refNot(const DsLaunch *l, void *) {
  return mapUnary(*l, [](bool x) { return !x; })(Tag<Bool>());
}
const char *refIsNan(const DsLaunch *l, void *) {
  return dispatchFloat(l->ins[0].dtype, mapUnary<true>(*l, [](auto x) { return std::isnan(x); }));
}
const char *refIsInf(const DsLaunch *l, void *) {
  bool positive = flag(*l, "positive"), negative = flag(*l, "negative");
  return dispatchFloat(l->ins[0].dtype, mapUnary<true>(*l, [=](auto x) {
                         return std::isinf(x) && (x > 0 ? positive : negative);
                       }));
}

// ---- gelu -------------------------------------------------------------------------------------------

const char *refGelu(const DsLaunch *l, void *) {
  bool tanhForm = flag(*l, "tanh");
  return dispatchFloat(l->ins[0].dtype, mapUnary(*l, [=](auto x) {
                         return gelu(static_cast<double>(x), tanhForm);
                       }));
}
const char *refGeluGrad(const DsLaunch *l, void *) {
  bool tanhForm = flag(*l, "tanh");
  return dispatchFloat(l->ins[0].dtype, mapBinary(*l, [=](auto dy, auto x) {
                         return static_cast<double>(dy) *
                                geluSlope(static_cast<double>(x), tanhForm);
                       }));
}

// ---- binary -----------------------------------------------------------------------------------------

#define BINARY_NUMBER(name, floatExpr, intExpr)                                                    \
  const char *name(const DsLaunch *l, void *) {                                                    \
    return dispatchNumber(l->ins[0].dtype, mapBinary(*l, [](auto a, auto b) {                      \
                            using V = decltype(a);                                                 \
                            if constexpr (kFloating<V>)                                            \
                              return static_cast<V>(floatExpr);                                    \
                            else                                                                   \
                              return static_cast<V>(intExpr);                                      \
                          }));                                                                     \
  }
#define COMPARE(name, expr)                                                                        \
  const char *name(const DsLaunch *l, void *) {                                                    \
    return dispatchAny(l->ins[0].dtype, mapBinary<true>(*l, [](auto a, auto b) { return expr; })); \
  }
#define LOGICAL(name, expr)                                                                        \
  const char *name(const DsLaunch *l, void *) {                                                    \
    return mapBinary(*l, [](bool a, bool b) { return expr; })(Tag<Bool>());                        \
  }

BINARY_NUMBER(refAdd, a + b, wide(a) + wide(b))
BINARY_NUMBER(refSub, a - b, wide(a) - wide(b))
BINARY_NUMBER(refMul, a *b, wide(a) * wide(b))
BINARY_NUMBER(refMax, isNan(a) ? a : isNan(b) ? b : a < b ? b : a, a < b ? b : a)
BINARY_NUMBER(refMin, isNan(a) ? a : isNan(b) ? b : b < a ? b : a, b < a ? b : a)
COMPARE(refEq, a == b)
COMPARE(refLt, a < b)
COMPARE(refLe, a <= b)
COMPARE(refGt, a > b)
COMPARE(refGe, a >= b)
LOGICAL(refAnd, a &&b)
LOGICAL(refOr, a || b)
LOGICAL(refXor, a != b)

const char *refReluGrad(const DsLaunch *l, void *) {
  return dispatchFloat(l->ins[0].dtype,
                       mapBinary(*l, [](auto dy, auto x) { return x > 0 ? dy : decltype(dy)(0); }));
}
const char *refTanhGrad(const DsLaunch *l, void *) {
  return dispatchFloat(l->ins[0].dtype, mapBinary(*l, [](auto dy, auto v) {
                         double y = v;
                         return static_cast<double>(dy) * (1 - y * y);
                       }));
}

// Division and remainder; an integer divisor of zero is an error, and the lowest value by -1 wraps.
template <typename V> static V quotient(V a, V b, bool &byZero) {
  if constexpr (kFloating<V>) {
    return a / b;
  } else {
    byZero |= b == 0;
    if (b == 0)
      return 0;
    if constexpr (std::is_signed_v<V>)
      if (b == -1)
        return negate(a);
    return static_cast<V>(a / b);
  }
}
template <typename V> static V remainderOf(V a, V b, bool truncated, bool &byZero) {
  V r;
  if constexpr (kFloating<V>) {
    r = std::fmod(a, b);
  } else {
    byZero |= b == 0;
    if (b == 0)
      return 0;
    if constexpr (std::is_signed_v<V>)
      if (b == -1)
        return 0;
    r = static_cast<V>(a % b);
  }
  if (!truncated && r != V(0) && (r < V(0)) != (b < V(0)))
    r = static_cast<V>(r + b);
  return r;
}

const char *refDiv(const DsLaunch *l, void *) {
  bool byZero = false;
  const char *error = dispatchNumber(
      l->ins[0].dtype, mapBinary(*l, [&](auto a, auto b) { return quotient(a, b, byZero); }));
  return byZero ? "integer division by zero" : error;
}
const char *refMod(const DsLaunch *l, void *) {
  bool byZero = false, truncated = flag(*l, "fmod");
  const char *error = dispatchNumber(l->ins[0].dtype, mapBinary(*l, [&](auto a, auto b) {
                                       return remainderOf(a, b, truncated, byZero);
                                     }));
  return byZero ? "integer remainder by zero" : error;
}

// ---- pow --------------------------------------------------------------------------------------------

// Repeated squaring with wrapping; a negative exponent gives 0 except for bases 1 and -1.
template <typename V> static V integerPower(V base, int64_t exponent) {
  if (exponent < 0) {
    if (base == V(1))
      return 1;
    if constexpr (std::is_signed_v<V>)
      if (base == V(-1))
        return exponent % 2 ? V(-1) : V(1);
    return 0;
  }
  uint64_t result = 1, square = wide(base);
  for (uint64_t e = static_cast<uint64_t>(exponent); e; e >>= 1) {
    if (e & 1)
      result *= square;
    square *= square;
  }
  return static_cast<V>(result);
}

template <typename V, typename E> static auto power(V base, E exponent) {
  if constexpr (kFloating<V>)
    return std::pow(static_cast<double>(base), static_cast<double>(exponent));
  else if constexpr (kFloating<E>)
    return truncateTo<V>(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  else if constexpr (std::is_same_v<E, uint64_t>)
    return integerPower(base, static_cast<int64_t>(exponent & ~(uint64_t(1) << 63)));
  else
    return integerPower(base, static_cast<int64_t>(exponent));
}

const char *refPow(const DsLaunch *l, void *) {
  return dispatchNumber(l->ins[0].dtype, [&](auto baseTag) {
    return dispatchNumber(l->ins[1].dtype, [&](auto exponentTag) -> const char * {
      using T = typename decltype(baseTag)::Type;
      using E = typename decltype(exponentTag)::Type;
      T *out = dataOf<T>(l->outs[0]);
      const T *a = dataOf<T>(l->ins[0]);
      const E *b = dataOf<E>(l->ins[1]);
      walk(loopOf(l->outs[0], l->ins[0], l->ins[1]), [&](int64_t o, int64_t i, int64_t j) {
        out[o] = store<T>(power(load(a[i]), load(b[j])));
      });
      return nullptr;
    });
  });
}

// ---- where, cast ------------------------------------------------------------------------------------

const char *refWhere(const DsLaunch *l, void *) {
  return dispatchSize(l->ins[1].dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    T *out = dataOf<T>(l->outs[0]);
    const uint8_t *condition = dataOf<uint8_t>(l->ins[0]);
    const T *a = dataOf<T>(l->ins[1]), *b = dataOf<T>(l->ins[2]);
    walk(loopOf(l->outs[0], l->ins[0], l->ins[1], l->ins[2]),
         [&](int64_t o, int64_t c, int64_t i, int64_t j) { out[o] = condition[c] ? a[i] : b[j]; });
    return nullptr;
  });
}

template <typename To, typename V> static To castTo(V v) {
  if constexpr (kIsFloat<To> || std::is_same_v<To, Bool> || !kFloating<V>)
    return store<To>(v);
  else
    return truncateTo<To>(v);
}

const char *refCast(const DsLaunch *l, void *) {
  return dispatchAny(l->ins[0].dtype, [&](auto fromTag) {
    return dispatchAny(l->outs[0].dtype, [&](auto toTag) -> const char * {
      using From = typename decltype(fromTag)::Type;
      using To = typename decltype(toTag)::Type;
      To *out = dataOf<To>(l->outs[0]);
      const From *x = dataOf<From>(l->ins[0]);
      walk(loopOf(l->outs[0], l->ins[0]),
           [&](int64_t o, int64_t i) { out[o] = castTo<To>(load(x[i])); });
      return nullptr;
    });
  });
}

} // namespace ds::ref
