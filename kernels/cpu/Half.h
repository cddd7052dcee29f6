// SPDX-License-Identifier: Apache-2.0
//
// Kernels compute in f32. Operands of 16 bits are widened on their way in, and results rounded to the nearest (ties to
// even) on their way out: block by block with FloatPort where a kernel goes through elements in order, or whole with
// Widen<K> around a kernel that needs its operands in one piece.
#pragma once

#include "kernels/cpu/Cpu.h"
#include "kernels/cpu/Loop.h"

#include <deque>
#include <vector>

namespace ds::cpu {

inline bool isHalf(const DsTensor &t) { return is(t, DType::BF16) || is(t, DType::F16); }
inline bool isNarrowFloat(const DsTensor &t) { return is(t, DType::F32) || isHalf(t); }

/// Contiguous elements; from and to do not overlap.
void widen(DType from, const uint16_t *x, float *out, int64_t n);
void narrow(DType to, const float *x, uint16_t *out, int64_t n);

/// Null if all operands and results are f32, bf16 or f16, else the message that prepare returns.
const char *requireNarrowFloats(const DsLaunch &l);

/// Elements of a tensor of f32, bf16 or f16 as f32.
class FloatPort {
public:
  FloatPort() = default;
  explicit FloatPort(const DsTensor &t) : type(static_cast<DType>(t.dtype)) {}
  bool isF32() const { return type == DType::F32; }
  /// n <= kBlock elements from element `at` of data on, `stride` apart; 0 repeats one.
  void load(const void *data, int64_t at, int64_t stride, int64_t n, float *out) const;
  void store(const float *x, void *data, int64_t at, int64_t stride, int64_t n) const;
  static constexpr int64_t kBlock = 512;

private:
  DType type = DType::F32;
};

/// The widened operands and results of a launch.
class Widening {
public:
  static bool applies(const DsLaunch &l);
  /// Bytes of workspace for the widened tensors alone.
  static size_t bytes(const DsLaunch &l);
  /// The launch with f32 operands in place of narrow ones, data still missing; workspace: what lies before `at`.
  const DsLaunch &init(const DsLaunch &l, size_t at);
  const DsLaunch &begin(const DsLaunch &l);
  void end(const DsLaunch &l) const;
  const DsLaunch &launch() const { return wide; }

private:
  struct Part {
    int index = 0;
    size_t at = 0;
    Loop loop; // operand 0: the row-major f32 copy, 1: the tensor
  };
  void add(const DsTensor &t, int i, bool isOut, size_t &at);
  std::vector<DsTensor> ins, outs;
  std::vector<Part> partIns, partOuts;
  std::deque<std::vector<int64_t>> strides;
  DsLaunch wide{};
};

/// A kernel K for f32 operands that takes 16-bit ones, too.
template <class K> class Widen {
public:
  static size_t work(const DsLaunch &l) {
    if (!Widening::applies(l))
      return own(l);
    Widening w;
    return alignUp(own(w.init(l, 0))) + Widening::bytes(l);
  }
  const char *prepare(const DsLaunch &l) {
    applies = Widening::applies(l);
    if (!applies)
      return kernel.prepare(l);
    Widening probe;
    size_t before = alignUp(own(probe.init(l, 0)));
    if (l.workBytes < before + Widening::bytes(l))
      return "the plan's workspace is smaller than this kernel needs";
    return kernel.prepare(widening.init(l, before));
  }
  const char *run(const DsLaunch &l) {
    if (!applies)
      return kernel.run(l);
    const char *message = kernel.run(widening.begin(l));
    if (!message)
      widening.end(l);
    return message;
  }

private:
  static size_t own(const DsLaunch &l) {
    if constexpr (requires { K::work(l); })
      return K::work(l);
    else
      return 0;
  }
  bool applies = false;
  Widening widening;
  K kernel;
};

/// Kernel A for the launches that it takes, which shapes, types and strides decide, and B for the others.
template <class A, class B> class Either {
public:
  static size_t work(const DsLaunch &l) { return A::takes(l) ? A::work(l) : B::work(l); }
  const char *prepare(const DsLaunch &l) {
    first = A::takes(l);
    return first ? a.prepare(l) : b.prepare(l);
  }
  const char *run(const DsLaunch &l) { return first ? a.run(l) : b.run(l); }

private:
  bool first = false;
  A a;
  B b;
};

} // namespace ds::cpu
