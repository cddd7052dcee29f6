// SPDX-License-Identifier: Apache-2.0
#include "passes/Cost.h"

#include "passes/Report.h"

#include <algorithm>
#include <cmath>

namespace ds {

namespace {

const Type &typeOf(const Schedule &s, const SchedProgram &p, PlaceRef place) {
  return *resolve(s, p, place).type;
}

double bytesOf(const Schedule &s, const SchedProgram &p, const std::vector<PlaceRef> &places) {
  double bytes = 0;
  for (PlaceRef place : places)
    bytes += static_cast<double>(typeOf(s, p, place).bytes());
  return bytes;
}

// Operands of a pack that were computed in their place are not copied.
double packedBytes(const Schedule &s, const SchedProgram &p, const Instr &i) {
  PlaceInfo to = resolve(s, p, i.outs[0]);
  std::vector<int64_t> at = i.attrs.list("at");
  double bytes = 0;
  for (size_t k = 0; k < i.ins.size() && k < at.size(); ++k) {
    PlaceInfo from = resolve(s, p, i.ins[k]);
    bool inPlace = from.bufferIndex == to.bufferIndex &&
                   from.begin == to.begin + at[k] * byteSize(to.type->dtype);
    bytes += inPlace ? 0 : 2 * static_cast<double>(from.type->bytes());
  }
  return bytes;
}

// Between measured sizes rates lie on straight lines of logarithms; below the smallest the time stays level, above the
// largest the rate.
double curveSeconds(const RateCurve &c, double amount) {
  auto above = std::find_if(c.begin(), c.end(), [&](RatePoint p) { return p.amount >= amount; });
  if (above == c.end())
    return amount / c.back().perSecond;
  if (above == c.begin())
    return above->amount / above->perSecond;
  RatePoint a = *(above - 1), b = *above;
  double along = std::log(amount / a.amount) / std::log(b.amount / a.amount);
  return amount / (a.perSecond * std::pow(b.perSecond / a.perSecond, along));
}

const RateCurve *curveOf(const Rates &r, std::string_view op, DType t) {
  if (r.curves.empty())
    return nullptr;
  auto it = r.curves.find(std::string(op) + " " + std::string(text(t)));
  return it == r.curves.end() ? nullptr : &it->second;
}

bool isLinear(OpKind k) {
  return k == OpKind::Linear || k == OpKind::LinearGrad || k == OpKind::LinearGeluGrad;
}

double launchSeconds(const Schedule &s, const SchedProgram &p, const Instr &i, const Rates &r) {
  double flops = productFlops(s, p, i), bytes = movedBytes(s, p, i);
  const Type *first = !i.ins.empty()    ? &typeOf(s, p, i.ins[0])
                      : !i.outs.empty() ? &typeOf(s, p, i.outs[0])
                                        : nullptr;
  bool host = first && first->space == Space::Host;
  double amount = flops > 0 ? flops : bytes;
  const RateCurve *c = first && !host ? curveOf(r, info(i.op).text, first->dtype) : nullptr;
  if (!c && first && !host && isLinear(i.op)) // products, first of all
    c = curveOf(r, "matmul", first->dtype);
  if (c)
    return r.launch + curveSeconds(*c, amount);
  double products = first && byteSize(first->dtype) == 2 ? r.flops16 : r.flopsF32;
  double work = bytes / (host ? r.hostMemory : r.memory);
  return r.launch + (flops > 0 ? std::max(work, flops / products) : work);
}

// Between two spaces: the disk's rate where one of them is a disk, else the link's.
double copySeconds(Space from, Space to, double bytes, const Rates &r) {
  double rate = from == Space::Nvme                        ? r.nvmeRead
                : to == Space::Nvme                        ? r.nvmeWrite
                : from == Space::Host && to == Space::Host ? r.hostMemory
                : from == Space::Device && to == from      ? r.memory
                                                           : r.hostLink;
  return r.launch + bytes / rate;
}

double collectiveSeconds(const Schedule &s, const SchedProgram &p, const Instr &i, const Rates &r) {
  int64_t world = s.world();
  double bytes = static_cast<double>(sentBytes(s, p, i));
  if (const RateCurve *c = curveOf(r, text(i.kind), typeOf(s, p, i.ins[0]).dtype))
    return r.launch + curveSeconds(*c, bytes);
  auto steps = static_cast<double>((i.kind == InstrKind::AllReduce ? 2 : 1) * (world - 1));
  return r.collective + steps * r.hop + (bytes > 0 ? bytes / r.link : 0);
}

} // namespace

bool Rates::complete(int64_t world) const {
  return memory > 0 && flopsF32 > 0 && flops16 > 0 && (link > 0 || world == 1);
}

Rates ratesOf(const Target &target, int64_t world, std::vector<std::string> *missing) {
  Target t = target.withDefaults(missing);
  // The machine's own memory is shared by the ranks, and so is everything else it has.
  double part = target.deviceMemory == 0 ? 1.0 / static_cast<double>(world) : 1;
  // A ring enters and leaves every machine once, over all of its adapters; one step in a machine's turn goes that way.
  auto perMachine = static_cast<double>(t.perMachine(world));
  bool across = t.perMachine(world) < world;
  Rates r;
  r.memory = part * t.memoryRate * t.memoryFraction;
  r.flopsF32 = part * t.flopsF32 * t.productFraction;
  r.flops16 = part * t.flops16Bit * t.productFraction;
  r.link = part * t.linkFraction *
           (across ? std::min(t.linkRate, perMachine * t.networkRate) : t.linkRate);
  r.hostLink = part * t.hostLinkRate * t.linkFraction;
  r.hostMemory = part * t.hostMemoryRate * t.memoryFraction;
  r.nvmeRead = part * t.nvmeReadRate;
  r.nvmeWrite = part * t.nvmeWriteRate;
  r.launch = t.launchSeconds;
  r.collective = t.collectiveSeconds;
  r.hop =
      across ? ((perMachine - 1) * t.hopSeconds + t.networkHopSeconds) / perMachine : t.hopSeconds;
  r.curves = t.curves;
  return r;
}

double productFlops(const Schedule &s, const SchedProgram &p, const Instr &i) {
  if (i.kind != InstrKind::Launch)
    return 0;
  auto type = [&](PlaceRef place) -> const Type & { return typeOf(s, p, place); };
  // Every element of y and its share of w: one product.
  auto convolution = [&](PlaceRef y, PlaceRef w) {
    auto channels = static_cast<double>(std::max<int64_t>(1, type(w).dims[0]));
    return 2 * static_cast<double>(type(y).elems()) * static_cast<double>(type(w).elems()) /
           channels;
  };
  // Products over q's and over v's elements, of every query with the keys that it sees.
  auto attention = [&](const Instr &op, int q, int overDepth, int overWidth) {
    const Type &queries = type(op.ins[q]), &keys = type(op.ins[q + 1]),
               &values = type(op.ins[q + 2]);
    int row = op.attrs.flag("rows_first") ? 1 : 2;
    auto t = static_cast<double>(queries.dims[row]), s = static_cast<double>(keys.dims[row]);
    double seen = op.attrs.flag("causal") ? std::min(s, (std::min(t, s) + 1) / 2) : s;
    double rows = static_cast<double>(queries.dims[0]) * static_cast<double>(queries.dims[1]) *
                  static_cast<double>(queries.dims[2]);
    return 2 * rows * seen *
           (overDepth * static_cast<double>(queries.dims[3]) +
            overWidth * static_cast<double>(values.dims[3]));
  };
  switch (i.op) {
  case OpKind::Matmul: {
    const Type &a = type(i.ins[0]);
    auto inner = static_cast<double>(a.dims[a.dims.size() - (i.attrs.flag("trans_a") ? 2 : 1)]);
    return 2 * inner * static_cast<double>(type(i.outs[0]).elems());
  }
  case OpKind::Linear:
  case OpKind::LinearGrad:
  case OpKind::LinearGeluGrad: {
    // Elements of the rows, each with every column: of w, or of dy.
    const Type &rows = type(i.ins[0]), &y = type(i.op == OpKind::LinearGrad ? i.ins[1] : i.outs[0]);
    return 2 * static_cast<double>(rows.elems()) * static_cast<double>(y.dims.back());
  }
  case OpKind::Attention: // q k^T, p v
    return attention(i, 0, 1, 1);
  case OpKind::AttentionGrad: // q k^T, ds k, ds^T q; do v^T, p^T do
    return attention(i, 1, 3, 2);
  case OpKind::LinearCrossEntropy:
  case OpKind::LinearCrossEntropyGrad: {
    const Type &x = type(i.ins[0]), &w = type(i.ins[1]);
    auto rows = static_cast<double>(x.elems() / std::max<int64_t>(1, x.dims.back()));
    return (i.op == OpKind::LinearCrossEntropy ? 2 : 6) * rows * static_cast<double>(w.elems());
  }
  case OpKind::Conv:
    return convolution(i.outs[0], i.ins[1]);
  case OpKind::ConvGradInput:
    return convolution(i.ins[0], i.ins[1]);
  case OpKind::ConvGradWeight:
    return convolution(i.ins[0], i.outs[0]);
  default:
    return 0;
  }
}

double movedBytes(const Schedule &s, const SchedProgram &p, const Instr &i) {
  switch (i.op) {
  case OpKind::Gather: // of the table, as much as comes out
    return bytesOf(s, p, {i.ins[1]}) + 2 * bytesOf(s, p, i.outs);
  case OpKind::Slice:
    return 2 * bytesOf(s, p, i.outs);
  case OpKind::Pack:
    return packedBytes(s, p, i);
  default:
    return bytesOf(s, p, i.ins) + bytesOf(s, p, i.outs);
  }
}

double seconds(const Schedule &s, const SchedProgram &p, const Instr &i, const Rates &r) {
  if (i.kind == InstrKind::Launch)
    return launchSeconds(s, p, i, r);
  if (isCollective(i.kind))
    return collectiveSeconds(s, p, i, r);
  const Type &to = typeOf(s, p, i.outs[0]);
  // Inputs come from the loader's ring in main memory.
  Space from = i.ins.empty() ? Space::Host : typeOf(s, p, i.ins[0]).space;
  return copySeconds(from, to.space, static_cast<double>(to.bytes()), r);
}

InstrTimes instrTimes(const Schedule &s, const Rates &r) {
  InstrTimes times;
  for (const SchedProgram &p : s.programs) {
    times.emplace_back();
    for (const Instr &i : p.instrs)
      times.back().push_back(std::llround(1e9 * seconds(s, p, i, r)));
  }
  return times;
}

double computeSeconds(const Schedule &s, const Rates &r) {
  double total = 0;
  for (const SchedProgram &p : s.programs) {
    double once = 0;
    for (const Instr &i : p.instrs)
      if (i.kind == InstrKind::Launch)
        once += seconds(s, p, i, r);
    total += once * static_cast<double>(runsPerUpdate(p.name, s.step.gradAccum));
  }
  return total;
}

} // namespace ds
