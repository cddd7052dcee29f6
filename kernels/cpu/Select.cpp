// SPDX-License-Identifier: Apache-2.0
//
// where and cast, for every element type.
#include "kernels/Element.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Select.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

/// out[i] = c[i] ? a[i] : b[i] on 32-bit elements; steps 0 (repeat) or 1.
void select32(const uint8_t *c, int stepC, const float *a, int stepA, const float *b, int stepB,
              float *out, int64_t n) {
  F32 d;
  using U32 = hn::RebindToUnsigned<F32>;
  using U8 = hn::Rebind<uint8_t, U32>;
  const int64_t N = lanes();
  const VF va = hn::Set(d, *a), vb = hn::Set(d, *b);
  int64_t i = 0;
  if (stepC)
    for (; i + N <= n; i += N) {
      auto flags = hn::PromoteTo(U32(), hn::LoadU(U8(), c + i));
      auto mask = hn::RebindMask(d, hn::Ne(flags, hn::Zero(U32())));
      VF x = stepA ? hn::LoadU(d, a + i) : va, y = stepB ? hn::LoadU(d, b + i) : vb;
      hn::StoreU(hn::IfThenElse(mask, x, y), d, out + i);
    }
  for (; i < n; ++i) // bits, not values: a signalling NaN or an integer passes through
    std::memcpy(out + i, c[i * stepC] ? a + i * stepA : b + i * stepB, sizeof(float));
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(select32);

class Where {
public:
  const char *prepare(const DsLaunch &l) {
    bytes = elemBytes(l.outs[0]);
    if (!is(l.ins[0], DType::Bool) || elemBytes(l.ins[1]) != bytes || elemBytes(l.ins[2]) != bytes)
      return "where needs a bool and two operands of the result's element type";
    threads = l.threads;
    return loop.init(l.outs[0], l.ins, 3);
  }
  const char *run(const DsLaunch &l) {
    auto simple = [&](int k) { return loop.inner(k) == 0 || loop.inner(k) == 1; };
    if (bytes == 4 && loop.inner(0) == 1 && simple(1) && simple(2) && simple(3)) {
      auto select = HWY_DYNAMIC_DISPATCH(select32);
      loop.forEach(threads, [&](const Offsets &off, int64_t n) {
        select(ptr<uint8_t>(l.ins[0]) + off[1], static_cast<int>(loop.inner(1)),
               f32(l.ins[1]) + off[2], static_cast<int>(loop.inner(2)), f32(l.ins[2]) + off[3],
               static_cast<int>(loop.inner(3)), f32(l.outs[0]) + off[0], n);
      });
      return nullptr;
    }
    switch (bytes) {
    case 1:
      return any<uint8_t>(l);
    case 2:
      return any<uint16_t>(l);
    case 4:
      return any<uint32_t>(l);
    default:
      return any<uint64_t>(l);
    }
  }

private:
  template <class T> const char *any(const DsLaunch &l) const {
    const int64_t so = loop.inner(0), sc = loop.inner(1), sa = loop.inner(2), sb = loop.inner(3);
    loop.forEach(threads, [&](const Offsets &off, int64_t n) {
      T *out = ptr<T>(l.outs[0]) + off[0];
      const uint8_t *c = ptr<uint8_t>(l.ins[0]) + off[1];
      const T *a = ptr<T>(l.ins[1]) + off[2], *b = ptr<T>(l.ins[2]) + off[3];
      for (int64_t i = 0; i < n; ++i)
        out[i * so] = c[i * sc] ? a[i * sa] : b[i * sb];
    });
    return nullptr;
  }
  Loop loop;
  int64_t bytes = 0;
  int threads = 1;
};

const KernelFns where = fnsOf<Where>();

// Floats to integers truncate, NaN to 0, values outside to the nearer end: as in ref.
template <class To, class From> static To castTo(From v) {
  auto x = elem::load(v);
  if constexpr (elem::kIsFloat<To> || std::is_same_v<To, elem::Bool> || !elem::kIsFloat<From>)
    return elem::store<To>(x);
  else
    return elem::truncateTo<To>(static_cast<double>(x));
}

template <class To, class From>
static void castRange(const void *from, int64_t si, void *to, int64_t so, int64_t n) {
  const From *x = static_cast<const From *>(from);
  To *out = static_cast<To *>(to);
  if (si == 1 && so == 1)
    for (int64_t i = 0; i < n; ++i)
      out[i] = castTo<To>(x[i]);
  else
    for (int64_t i = 0; i < n; ++i)
      out[i * so] = castTo<To>(x[i * si]);
}

class Cast {
public:
  const char *prepare(const DsLaunch &l) {
    const char *message = elem::dispatchAny(l.ins[0].dtype, [&](auto from) {
      return elem::dispatchAny(l.outs[0].dtype, [&](auto to) -> const char * {
        range = castRange<typename decltype(to)::Type, typename decltype(from)::Type>;
        return nullptr;
      });
    });
    if (message)
      return message;
    in = FloatPort(l.ins[0]);
    result = FloatPort(l.outs[0]);
    ports = isNarrowFloat(l.ins[0]) && isNarrowFloat(l.outs[0]);
    threads = l.threads;
    return loop.init(l.outs[0], l.ins, 1);
  }
  const char *run(const DsLaunch &l) {
    if (ports)
      return throughPorts(l);
    const int64_t from = elemBytes(l.ins[0]), to = elemBytes(l.outs[0]);
    loop.forEach(threads, [&](const Offsets &off, int64_t n) {
      range(ptr<char>(l.ins[0]) + off[1] * from, loop.inner(1), ptr<char>(l.outs[0]) + off[0] * to,
            loop.inner(0), n);
    });
    return nullptr;
  }

private:
  const char *throughPorts(const DsLaunch &l) const {
    const int64_t so = loop.inner(0), si = loop.inner(1);
    loop.forEach(threads, [&](const Offsets &off, int64_t n) {
      float x[FloatPort::kBlock];
      for (int64_t i = 0; i < n; i += FloatPort::kBlock) {
        int64_t m = std::min(FloatPort::kBlock, n - i);
        in.load(l.ins[0].data, off[1] + i * si, si, m, x);
        result.store(x, l.outs[0].data, off[0] + i * so, so, m);
      }
    });
    return nullptr;
  }
  FloatPort in, result;
  bool ports = false;
  Loop loop;
  void (*range)(const void *, int64_t, void *, int64_t, int64_t) = nullptr;
  int threads = 1;
};

const KernelFns cast = fnsOf<Cast>();

} // namespace ds::cpu
#endif
