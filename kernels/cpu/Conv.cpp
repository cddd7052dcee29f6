// SPDX-License-Identifier: Apache-2.0
//
// conv and its gradients: a oneDNN primitive in the layouts that it prefers, with reorders from and to the plan's
// through the workspace; in the plan's own layouts where the workspace is too small for that; and loops of our own
// where oneDNN is absent or has only its reference loops. The choice depends on shapes, strides, threads and machine.
#include "kernels/ConvLoops.h"
#include "kernels/cpu/Dnnl.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"
#include "kernels/cpu/Parallel.h"

#include <cstdint>
#include <optional>

namespace ds::cpu {

#ifdef DS_HAVE_DNNL
namespace {

using Dims = dnnl::memory::dims;
using Desc = dnnl::memory::desc;

constexpr auto kF32 = dnnl::memory::data_type::f32;

Desc descOf(const DsTensor &t) {
  return Desc(Dims(t.dims, t.dims + t.rank), kF32, Dims(t.strides, t.strides + t.rank));
}

/// Weights with the groups as an axis of their own, where there is more than one.
Desc weightsOf(const ConvShape &s) {
  const DsTensor &w = s.w;
  if (s.groups == 1)
    return descOf(w);
  Dims dims = {s.groups, s.groupOutputs()},
       strides = {s.groupOutputs() * w.strides[0], w.strides[0]};
  dims.insert(dims.end(), w.dims + 1, w.dims + w.rank);
  strides.insert(strides.end(), w.strides + 1, w.strides + w.rank);
  return Desc(dims, kF32, strides);
}

Desc anyLayout(const Desc &d) { return Desc(d.dims(), kF32, dnnl::memory::format_tag::any); }

/// One of the three tensors: as it lies in the plan, as the primitive wants it, and the reorder between the two.
struct Operand {
  int arg = 0;
  Desc plain, wanted;
  dnnl::reorder::primitive_desc reorder; // empty: used as it lies
  size_t at = 0;                         // of the copy in the workspace
};

struct Plan {
  dnnl::primitive primitive;
  Desc scratchpad;
  Operand operands[3]; // in launch order: two read, one written
  size_t bytes = 0;
};

struct Geometry {
  Dims strides, dilations, low, high;

  explicit Geometry(const ConvShape &s) {
    for (int i = 5 - s.x.rank; i < 3; ++i) {
      const WindowAxis &a = s.windows.axis[i];
      strides.push_back(a.stride);
      dilations.push_back(a.dilation - 1);
      low.push_back(a.low);
      // What the last window needs, which is less than the op's where windows do not end flush.
      high.push_back(a.at(a.out - 1, a.window - 1) + 1 - a.in);
    }
  }
};

/// The primitive's description, and `plan` but for its reorders; false if oneDNN has nothing fast.
bool describePrimitive(const ConvShape &s, const Desc &x, const Desc &w, const Desc &y,
                       Plan &plan) {
  const Geometry g(s);
  const dnnl::primitive_attr attributes = userScratchpad();
  constexpr auto direct = dnnl::algorithm::convolution_direct;
  auto finish = [&](const auto &pd, auto primitive, int a, int b, int out) {
    if (isSlow(pd))
      return false;
    plan.primitive = primitive(pd);
    plan.scratchpad = pd.scratchpad_desc();
    int args[3] = {a, b, out};
    for (int i = 0; i < 3; ++i) {
      plan.operands[i].arg = args[i];
      plan.operands[i].wanted = pd.query_md(dnnl::query::exec_arg_md, args[i]);
    }
    return true;
  };
  dnnl::convolution_forward::primitive_desc forward(
      {dnnl::prop_kind::forward_training, direct, x, w, y, g.strides, g.dilations, g.low, g.high},
      attributes, cpuEngine(), /*allow_empty=*/true);
  if (!forward)
    return false;
  switch (s.kind) {
  case ConvKind::Forward:
    return finish(
        forward, [](const auto &pd) { return dnnl::convolution_forward(pd); }, DNNL_ARG_SRC,
        DNNL_ARG_WEIGHTS, DNNL_ARG_DST);
  case ConvKind::GradInput:
    return finish(
        dnnl::convolution_backward_data::primitive_desc(
            {direct, x, w, y, g.strides, g.dilations, g.low, g.high}, attributes, cpuEngine(),
            forward, true),
        [](const auto &pd) { return dnnl::convolution_backward_data(pd); }, DNNL_ARG_DIFF_DST,
        DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC);
  case ConvKind::GradWeight:
    return finish(
        dnnl::convolution_backward_weights::primitive_desc(
            {direct, x, w, y, g.strides, g.dilations, g.low, g.high}, attributes, cpuEngine(),
            forward, true),
        [](const auto &pd) { return dnnl::convolution_backward_weights(pd); }, DNNL_ARG_DIFF_DST,
        DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS);
  }
  return false;
}

std::optional<Plan> describe(const ConvShape &s, bool free) {
  if (s.planes() == 0 || elems(s.x) == 0 || elems(s.y) == 0 || elems(s.w) == 0)
    return std::nullopt;
  try {
    Plan plan;
    const Desc x = descOf(s.x), w = weightsOf(s), y = descOf(s.y);
    auto layout = [&](const Desc &d) { return free ? anyLayout(d) : d; };
    if (!describePrimitive(s, layout(x), layout(w), layout(y), plan))
      return std::nullopt;
    const Desc *plain[3] = {&x, &w, &y};
    if (s.kind != ConvKind::Forward)
      plain[0] = &y;
    if (s.kind == ConvKind::GradInput)
      plain[2] = &x;
    if (s.kind == ConvKind::GradWeight)
      plain[1] = &x, plain[2] = &w;
    size_t scratch = plan.scratchpad.get_size();
    for (int i = 0; i < 3; ++i) {
      Operand &o = plan.operands[i];
      o.plain = *plain[i];
      if (o.plain == o.wanted)
        continue;
      bool reads = i < 2;
      o.reorder =
          dnnl::reorder::primitive_desc(cpuEngine(), reads ? o.plain : o.wanted, cpuEngine(),
                                        reads ? o.wanted : o.plain, userScratchpad(), true);
      if (!o.reorder)
        return std::nullopt;
      scratch = std::max(scratch, o.reorder.scratchpad_desc().get_size());
    }
    plan.bytes = scratch;
    for (Operand &o : plan.operands)
      if (o.reorder) {
        o.at = alignUp(plan.bytes);
        plan.bytes = o.at + o.wanted.get_size();
      }
    return plan;
  } catch (const dnnl::error &) {
    return std::nullopt;
  }
}

/// The plan for the workspace that there is.
std::optional<Plan> choose(const ConvShape &s, size_t workBytes) {
  for (bool free : {true, false}) {
    auto plan = describe(s, free);
    if (plan && plan->bytes <= workBytes)
      return plan;
  }
  return std::nullopt;
}

class Primitive {
public:
  /// False: use our own loops.
  bool prepare(const ConvShape &s, const DsLaunch &l) {
    ThreadScope threads(l.threads);
    auto plan = choose(s, l.workBytes);
    if (!plan)
      return false;
    try {
      stream = dnnl::stream(cpuEngine());
      const Operand *o = plan->operands;
      convolution.init(plan->primitive, {{o[0].arg, o[0].wanted},
                                         {o[1].arg, o[1].wanted},
                                         {o[2].arg, o[2].wanted},
                                         {DNNL_ARG_SCRATCHPAD, plan->scratchpad}});
      for (int i = 0; i < 3; ++i) {
        copies[i] = static_cast<bool>(o[i].reorder);
        at[i] = o[i].at;
        if (copies[i])
          reorders[i].initReorder(o[i].reorder);
      }
    } catch (const dnnl::error &) {
      return false;
    }
    return true;
  }
  const char *run(const DsLaunch &l) const {
    ThreadScope threads(l.threads);
    const void *plain[3] = {l.ins[0].data, l.ins[1].data, l.outs[0].data}, *used[3];
    bool ok = true;
    for (int i = 0; i < 3; ++i)
      used[i] = copies[i] ? workAt<float>(l, at[i]) : plain[i];
    for (int i = 0; i < 2; ++i)
      ok = ok && (!copies[i] || reorders[i].run(stream.get(), {plain[i], used[i], l.work}));
    ok = ok && convolution.run(stream.get(), {used[0], used[1], used[2], l.work});
    ok = ok && (!copies[2] || reorders[2].run(stream.get(), {used[2], plain[2], l.work}));
    return ok && dnnl_stream_wait(stream.get()) == dnnl_success
               ? nullptr
               : "oneDNN refused to run a convolution it had accepted";
  }

private:
  dnnl::stream stream;
  DnnlCall convolution, reorders[3];
  bool copies[3] = {};
  size_t at[3] = {};
};

} // namespace
#endif

template <ConvKind kind> class Conv {
public:
  static size_t work(const DsLaunch &l) {
#ifdef DS_HAVE_DNNL
    ThreadScope threads(l.threads);
    if (auto plan = choose(ConvShape(l, kind), SIZE_MAX))
      return plan->bytes;
#else
    (void)l;
#endif
    return 0;
  }
  const char *prepare(const DsLaunch &l) {
    if (const char *message = requireF32(l))
      return message;
#ifdef DS_HAVE_DNNL
    usesPrimitive = primitive.prepare(ConvShape(l, kind), l);
#endif
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
#ifdef DS_HAVE_DNNL
    if (usesPrimitive)
      return primitive.run(l);
#endif
    const ConvShape s(l, kind);
    parallelFor(l.threads, s.planes(), kForkElems,
                [&](int64_t begin, int64_t end) { convPlanes<float>(s, begin, end); });
    return nullptr;
  }

private:
#ifdef DS_HAVE_DNNL
  Primitive primitive;
  bool usesPrimitive = false;
#endif
};

const KernelFns conv = fnsOf<Widen<Conv<ConvKind::Forward>>>();
const KernelFns convGradInput = fnsOf<Widen<Conv<ConvKind::GradInput>>>();
const KernelFns convGradWeight = fnsOf<Widen<Conv<ConvKind::GradWeight>>>();

} // namespace ds::cpu
