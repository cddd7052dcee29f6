// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/Half.h"

#include "kernels/Element.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/Half.cpp"
#include "kernels/cpu/Targets.h"

#include <hwy/foreach_target.h>

#include "kernels/cpu/Half-inl.h"

HWY_BEFORE_NAMESPACE();
namespace ds::cpu::HWY_NAMESPACE {

static int64_t widenSome(DType from, const uint16_t *x, float *out, int64_t n) {
  const int64_t N = lanes();
  int64_t i = 0;
  if (from == DType::BF16)
    for (; i + N <= n; i += N) {
      auto bits = hn::PromoteTo(U32(), hn::LoadU(U16(), x + i));
      hn::StoreU(hn::BitCast(F32(), hn::ShiftLeft<16>(bits)), F32(), out + i);
    }
#if DS_HAVE_F16
  else
    for (; i + N <= n; i += N) {
      auto h = hn::BitCast(H16(), hn::LoadU(U16(), x + i));
      hn::StoreU(hn::PromoteTo(F32(), h), F32(), out + i);
    }
#endif
  return i;
}

static int64_t narrowSome(DType to, const float *x, uint16_t *out, int64_t n) {
  const int64_t N = lanes();
  int64_t i = 0;
  if (to == DType::BF16)
    for (; i + N <= n; i += N)
      hn::StoreU(bf16Of(hn::LoadU(F32(), x + i)), U16(), out + i);
#if DS_HAVE_F16
  else
    for (; i + N <= n; i += N)
      hn::StoreU(f16Of(hn::LoadU(F32(), x + i)), U16(), out + i);
#endif
  return i;
}

void widenRange(DType from, const uint16_t *x, float *out, int64_t n) {
  for (int64_t i = widenSome(from, x, out, n); i < n; ++i)
    out[i] = from == DType::BF16 ? elem::BF16{x[i]}.value() : elem::F16{x[i]}.value();
}

void narrowRange(DType to, const float *x, uint16_t *out, int64_t n) {
  for (int64_t i = narrowSome(to, x, out, n); i < n; ++i)
    out[i] = to == DType::BF16 ? elem::BF16::from(static_cast<double>(x[i])).bits
                               : elem::F16::from(static_cast<double>(x[i])).bits;
}

} // namespace ds::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ds::cpu {
HWY_EXPORT(widenRange);
HWY_EXPORT(narrowRange);

void widen(DType from, const uint16_t *x, float *out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(widenRange)(from, x, out, n);
}
void narrow(DType to, const float *x, uint16_t *out, int64_t n) {
  HWY_DYNAMIC_DISPATCH(narrowRange)(to, x, out, n);
}

const char *requireNarrowFloats(const DsLaunch &l) {
  for (int i = 0; i < l.numIns + l.numOuts; ++i)
    if (!isNarrowFloat(i < l.numIns ? l.ins[i] : l.outs[i - l.numIns]))
      return "the cpu kernel needs f32, bf16 or f16";
  return nullptr;
}

// ---- blocks -----------------------------------------------------------------------------------------

void FloatPort::load(const void *data, int64_t at, int64_t stride, int64_t n, float *out) const {
  if (isF32()) {
    const float *x = static_cast<const float *>(data) + at;
    for (int64_t i = 0; i < n; ++i)
      out[i] = x[i * stride];
    return;
  }
  const uint16_t *x = static_cast<const uint16_t *>(data) + at;
  if (stride == 1)
    return widen(type, x, out, n);
  if (stride == 0) {
    widen(type, x, out, 1);
    return std::fill(out + 1, out + n, out[0]);
  }
  uint16_t dense[kBlock];
  for (int64_t i = 0; i < n; ++i)
    dense[i] = x[i * stride];
  widen(type, dense, out, n);
}

void FloatPort::store(const float *x, void *data, int64_t at, int64_t stride, int64_t n) const {
  if (isF32()) {
    float *out = static_cast<float *>(data) + at;
    for (int64_t i = 0; i < n; ++i)
      out[i * stride] = x[i];
    return;
  }
  uint16_t *out = static_cast<uint16_t *>(data) + at;
  if (stride == 1)
    return narrow(type, x, out, n);
  uint16_t dense[kBlock];
  narrow(type, x, dense, n);
  for (int64_t i = 0; i < n; ++i)
    out[i * stride] = dense[i];
}

// ---- whole tensors ----------------------------------------------------------------------------------

bool Widening::applies(const DsLaunch &l) {
  return std::any_of(l.ins, l.ins + l.numIns, isHalf) ||
         std::any_of(l.outs, l.outs + l.numOuts, isHalf);
}

static size_t widenedBytes(const DsTensor &t) {
  return isHalf(t) ? alignUp(static_cast<size_t>(elems(t)) * sizeof(float)) : 0;
}

size_t Widening::bytes(const DsLaunch &l) {
  size_t n = 0;
  for (int i = 0; i < l.numIns; ++i)
    n += widenedBytes(l.ins[i]);
  for (int i = 0; i < l.numOuts; ++i)
    n += widenedBytes(l.outs[i]);
  return n;
}

void Widening::add(const DsTensor &t, int i, bool isOut, size_t &at) {
  if (!isHalf(t))
    return;
  Part p;
  p.index = i;
  p.at = at;
  std::vector<int64_t> dense(static_cast<size_t>(std::max(t.rank, 1)), 1);
  for (int k = t.rank - 2; k >= 0; --k)
    dense[k] = dense[k + 1] * t.dims[k + 1];
  const int64_t *both[] = {strides.emplace_back(std::move(dense)).data(), t.strides};
  p.loop.init(t.rank, t.dims, 2, both); // at most 16 axes: the shape rules see to it
  DsTensor &wideTensor = (isOut ? outs : ins)[i];
  wideTensor.strides = strides.back().data();
  wideTensor.dtype = static_cast<uint8_t>(DType::F32);
  (isOut ? partOuts : partIns).push_back(std::move(p));
  at += widenedBytes(t);
}

const DsLaunch &Widening::init(const DsLaunch &l, size_t at) {
  ins.assign(l.ins, l.ins + l.numIns);
  outs.assign(l.outs, l.outs + l.numOuts);
  wide = l;
  wide.workBytes = at;
  for (int i = 0; i < l.numIns; ++i)
    add(l.ins[i], i, false, at);
  for (int i = 0; i < l.numOuts; ++i)
    add(l.outs[i], i, true, at);
  wide.ins = ins.data();
  wide.outs = outs.data();
  return wide;
}

const DsLaunch &Widening::begin(const DsLaunch &l) {
  wide.work = l.work;
  for (int i = 0; i < l.numIns; ++i)
    ins[i].data = l.ins[i].data;
  for (int i = 0; i < l.numOuts; ++i)
    outs[i].data = l.outs[i].data;
  for (const Part &p : partOuts)
    outs[p.index].data = workAt<char>(l, p.at);
  for (const Part &p : partIns) {
    float *out = workAt<float>(l, p.at);
    const void *from = l.ins[p.index].data;
    ins[p.index].data = out;
    FloatPort port(l.ins[p.index]);
    p.loop.forEach(l.threads, [&](const Offsets &off, int64_t n) {
      for (int64_t i = 0; i < n; i += FloatPort::kBlock)
        port.load(from, off[1] + i * p.loop.inner(1), p.loop.inner(1),
                  std::min(FloatPort::kBlock, n - i), out + off[0] + i);
    });
  }
  return wide;
}

void Widening::end(const DsLaunch &l) const {
  for (const Part &p : partOuts) {
    const float *x = workAt<float>(l, p.at);
    void *to = l.outs[p.index].data;
    FloatPort port(l.outs[p.index]);
    p.loop.forEach(l.threads, [&](const Offsets &off, int64_t n) {
      for (int64_t i = 0; i < n; i += FloatPort::kBlock)
        port.store(x + off[0] + i, to, off[1] + i * p.loop.inner(1), p.loop.inner(1),
                   std::min(FloatPort::kBlock, n - i));
    });
  }
}

} // namespace ds::cpu
#endif
