// SPDX-License-Identifier: Apache-2.0
#include "runtime/Anomaly.h"

#include "runtime/Convert.h"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>

namespace ds {

namespace {

/// What the elements of a float tensor are.
struct Numbers {
  double low = INFINITY, high = -INFINITY; // of the finite ones
  int64_t firstNan = -1, firstInf = -1;    // in row-major order

  explicit Numbers(const DsTensor &t) {
    int64_t n = elems(t), index[kMaxRank] = {};
    auto type = static_cast<DType>(t.dtype);
    for (int64_t i = 0, at = 0; i < n; ++i) {
      add(toDouble(type, t.data, at), i);
      for (int32_t k = t.rank - 1; k >= 0; --k) {
        at += t.strides[k];
        if (++index[k] < t.dims[k])
          break;
        at -= t.dims[k] * t.strides[k];
        index[k] = 0;
      }
    }
  }
  void add(double v, int64_t i) {
    if (std::isnan(v))
      firstNan = firstNan < 0 ? i : firstNan;
    else if (std::isinf(v))
      firstInf = firstInf < 0 ? i : firstInf;
    else
      low = std::min(low, v), high = std::max(high, v);
  }
  std::string range() const {
    std::string s = low <= high ? fmt::format("{:.6g} to {:.6g}", low, high) : "nothing finite";
    return s + (firstInf >= 0 ? ", infinities" : "") + (firstNan >= 0 ? ", NaN" : "");
  }
};

bool isFloatTensor(const DsTensor &t) { return isFloat(static_cast<DType>(t.dtype)); }

// [2,0,5]
std::string indexText(const DsTensor &t, int64_t element) {
  std::vector<int64_t> index(static_cast<size_t>(t.rank));
  for (int32_t k = t.rank - 1; k >= 0; --k) {
    index[static_cast<size_t>(k)] = element % t.dims[k];
    element /= t.dims[k];
  }
  return fmt::format("[{}]", fmt::join(index, ","));
}

// Nothing of forward stands behind what autodiff has made.
bool isBackward(const Schedule &s, const SchedProgram &p, const Instr &instr) {
  for (const Instr &i : p.instrs) {
    if (i.origin >= 0 && s.origins[static_cast<size_t>(i.origin)].pass == "autodiff")
      return true;
    if (&i == &instr)
      return false;
  }
  return false;
}

// A group says what it computes.
std::string opText(const Instr &i) {
  std::string text(info(i.op).text);
  return i.op == OpKind::Pointwise ? text + " " + std::string(i.attrs.s("body")) : text;
}

} // namespace

void AnomalyHook::beginUpdate() {
  micro = -1;
  counted = position = 0;
  text.clear();
}

const char *AnomalyHook::beginProgram(const LoadedProgram &p) {
  micro += p.program->name.starts_with("micro.");
  return nullptr;
}

const char *AnomalyHook::before(const LoadedProgram &, const LoadedInstr &in) {
  ++counted;
  if (!text.empty() || in.instr->kind != InstrKind::Launch)
    return nullptr;
  operandsNan = operandsInf = false;
  operands.clear();
  for (int32_t i = 0; i < in.launch.numIns; ++i) {
    if (!isFloatTensor(in.launch.ins[i]))
      continue;
    Numbers n(in.launch.ins[i]);
    operandsNan |= n.firstNan >= 0;
    operandsInf |= n.firstInf >= 0;
    operands += fmt::format("{}operand {}: {}", operands.empty() ? "" : "; ", i, n.range());
  }
  return nullptr;
}

const char *AnomalyHook::after(const LoadedProgram &p, const LoadedInstr &in) {
  // A fill and its like bring in what they were told to.
  if (!text.empty() || in.instr->kind != InstrKind::Launch || in.launch.numIns == 0)
    return nullptr;
  for (int32_t r = 0; r < in.launch.numOuts && text.empty(); ++r) {
    if (!isFloatTensor(in.launch.outs[r]))
      continue;
    Numbers n(in.launch.outs[r]);
    if (n.firstNan >= 0 && !operandsNan)
      text = describe(p, in, static_cast<size_t>(r), n.firstNan);
    else if (n.firstInf >= 0 && !operandsNan && !operandsInf)
      text = describe(p, in, static_cast<size_t>(r), n.firstInf);
  }
  position = counted;
  return nullptr;
}

std::string AnomalyHook::describe(const LoadedProgram &p, const LoadedInstr &in, size_t result,
                                  int64_t element) const {
  const Instr &i = *in.instr;
  OriginInfo from;
  if (i.origin >= 0)
    from = s.origins[static_cast<size_t>(i.origin)];
  const DsTensor &t = in.launch.outs[result];
  PlaceInfo place = resolve(s, *p.program, i.outs[result]);
  int64_t at = 0, rest = element;
  for (int32_t k = t.rank - 1; k >= 0; --k) {
    at += rest % t.dims[k] * t.strides[k];
    rest /= t.dims[k];
  }
  double value = toDouble(static_cast<DType>(t.dtype), t.data, at);
  bool isMicro = p.program->name.starts_with("micro.");
  std::string where = isMicro ? fmt::format("micro-batch {}, ", micro + 1) : "";
  return fmt::format("rank {}, {}{}: {} ({}{}) has {} at {} of {}; {}", rank.rank, where,
                     !isMicro                       ? "update"
                     : isBackward(s, *p.program, i) ? "backward"
                                                    : "forward",
                     i.label, opText(i), from.node.empty() ? "" : " of " + from.node,
                     std::isnan(value) ? "NaN"
                     : value > 0       ? "infinity"
                                       : "-infinity",
                     indexText(t, element), place.type->str(),
                     operands.empty() ? "no float operands" : operands);
}

} // namespace ds
