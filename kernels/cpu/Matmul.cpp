// SPDX-License-Identifier: Apache-2.0
//
// matmul: a oneDNN primitive that is created in prepare with the stream's thread count and a workspace of the
// plan's, or our own kernel where oneDNN is absent, has only its reference loops for the layout, or would
// need more workspace than the plan has. The choice depends on shapes, strides, threads and machine only.
#include "kernels/cpu/Matmul.h"

#include "kernels/cpu/Dnnl.h"
#include "kernels/cpu/Half.h"
#include "kernels/cpu/Kernels.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace ds::cpu {

// ---- oneDNN -----------------------------------------------------------------------------------------

#ifdef DS_HAVE_DNNL
namespace {

using Dims = dnnl::memory::dims;

using DataType = dnnl::memory::data_type;

dnnl::memory::desc descOf(const MatmulShape &s, DataType type,
                          const std::array<int64_t, kMaxRank> &batch, int64_t rows, int64_t cols,
                          int64_t rowStride, int64_t colStride) {
  Dims dims, strides;
  for (int i = 0; i < s.batchRank; ++i) {
    dims.push_back(batch[i] == 0 ? 1 : s.batch[i]);
    // A broadcast axis has extent 1 here; its stride is free, and the matrix's extent is a tidy one.
    strides.push_back(batch[i] == 0 ? std::max(rows * rowStride, cols * colStride) : batch[i]);
  }
  dims.insert(dims.end(), {rows, cols});
  strides.insert(strides.end(), {rowStride, colStride});
  return dnnl::memory::desc(dims, type, strides);
}

/// A primitive's description and what it needs of the workspace.
struct Plan {
  dnnl::matmul::primitive_desc matmul;
  dnnl::reorder::primitive_desc pack; // empty: B is used as it lies
  size_t scratch = 0;                 // at 0; for pack and matmul in turn
  size_t packedAt = 0, bytes = 0;
};

/// Rows of B that are a multiple of 4096 bytes apart fall on the same few cache sets: twice the time. Such a
/// B is first copied into oneDNN's own layout, where enough rows of A use it and it is at most 64 MiB.
bool wantsPacking(const MatmulShape &s, DataType type) {
  const int64_t page = type == DataType::f32 ? 1024 : 2048; // elements
  return s.batchRank == 0 && s.bn == 1 && s.bk % page == 0 && s.m >= 128 && s.k >= 64 &&
         s.n >= 64 && s.k * s.n <= int64_t{1} << 24;
}

/// None if only our own kernel will do.
std::optional<Plan> describe(const MatmulShape &s, DataType type, bool packs) {
  if (s.m == 0 || s.n == 0 || s.k == 0 || s.batches() == 0 || s.batchRank > 8)
    return std::nullopt;
  auto plain = [](int64_t rows, int64_t cols, int64_t rowStride, int64_t colStride) {
    return colStride == 1 ? rowStride >= cols : rowStride == 1 && colStride >= rows;
  };
  if (!plain(s.m, s.k, s.am, s.ak) || !plain(s.k, s.n, s.bk, s.bn) ||
      !plain(s.m, s.n, s.cm, s.cn) || s.cn != 1)
    return std::nullopt;
  try {
    auto b = descOf(s, type, s.batchB, s.k, s.n, s.bk, s.bn);
    auto any = dnnl::memory::desc({s.k, s.n}, type, dnnl::memory::format_tag::any);
    dnnl::matmul::desc desc(descOf(s, type, s.batchA, s.m, s.k, s.am, s.ak), packs ? any : b,
                            descOf(s, type, s.batchC, s.m, s.n, s.cm, s.cn));
    dnnl::primitive_attr attributes = userScratchpad();
    Plan plan;
    plan.matmul = dnnl::matmul::primitive_desc(desc, attributes, cpuEngine(), /*allow_empty=*/true);
    if (isSlow(plan.matmul))
      return std::nullopt;
    plan.scratch = plan.matmul.scratchpad_desc().get_size();
    plan.bytes = plan.scratch;
    if (packs && plan.matmul.weights_desc() != b) {
      plan.pack = dnnl::reorder::primitive_desc(cpuEngine(), b, cpuEngine(),
                                                plan.matmul.weights_desc(), attributes, true);
      if (!plan.pack)
        return std::nullopt;
      plan.scratch = std::max(plan.scratch, plan.pack.scratchpad_desc().get_size());
      plan.packedAt = alignUp(plan.scratch);
      plan.bytes = plan.packedAt + plan.matmul.weights_desc().get_size();
    }
    return plan;
  } catch (const dnnl::error &) {
    return std::nullopt;
  }
}

/// The plan for the workspace that there is.
std::optional<Plan> choose(const MatmulShape &s, DataType type, size_t workBytes) {
  for (bool packs : {true, false}) {
    if (packs && !wantsPacking(s, type))
      continue;
    auto plan = describe(s, type, packs);
    if (plan && plan->bytes <= workBytes)
      return plan;
  }
  return std::nullopt;
}

class Primitive {
public:
  /// False: use our own kernel.
  bool prepare(const MatmulShape &s, DataType type, const DsLaunch &l) {
    ThreadScope threads(l.threads);
    auto plan = choose(s, type, l.workBytes);
    if (!plan)
      return false;
    try {
      stream = dnnl::stream(cpuEngine());
      const auto &pd = plan->matmul;
      product.init(dnnl::matmul(pd), {{DNNL_ARG_SRC, pd.src_desc()},
                                      {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                      {DNNL_ARG_DST, pd.dst_desc()},
                                      {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
      packs = static_cast<bool>(plan->pack);
      packedAt = plan->packedAt;
      if (packs)
        pack.initReorder(plan->pack);
    } catch (const dnnl::error &) {
      return false;
    }
    return true;
  }
  const char *run(const void *a, const void *b, void *c, const DsLaunch &l) const {
    ThreadScope threads(l.threads);
    const void *packed = packs ? workAt<void>(l, packedAt) : b;
    if ((packs && !pack.run(stream.get(), {b, packed, l.work})) ||
        !product.run(stream.get(), {a, packed, c, l.work}) ||
        dnnl_stream_wait(stream.get()) != dnnl_success)
      return "oneDNN refused to run a matmul it had accepted";
    return nullptr;
  }

private:
  dnnl::stream stream;
  DnnlCall product, pack;
  bool packs = false;
  size_t packedAt = 0;
};

} // namespace
#endif

// ---- kernel -----------------------------------------------------------------------------------------

class Matmul {
public:
  static size_t work(const DsLaunch &l) {
#ifdef DS_HAVE_DNNL
    MatmulShape s;
    if (!matmulShape(l, s)) {
      ThreadScope threads(l.threads);
      if (auto plan = choose(s, DataType::f32, SIZE_MAX))
        return plan->bytes;
    }
#else
    (void)l;
#endif
    return 0;
  }
  const char *prepare(const DsLaunch &l) {
    if (const char *message = requireF32(l))
      return message;
    if (const char *message = matmulShape(l, shape))
      return message;
#ifdef DS_HAVE_DNNL
    usesPrimitive = primitive.prepare(shape, DataType::f32, l);
#endif
    return nullptr;
  }
  const char *run(const DsLaunch &l) {
    const float *a = f32(l.ins[shape.swapped ? 1 : 0]), *b = f32(l.ins[shape.swapped ? 0 : 1]);
#ifdef DS_HAVE_DNNL
    if (usesPrimitive)
      return primitive.run(a, b, f32(l.outs[0]), l);
#endif
    ownMatmul(shape, a, b, f32(l.outs[0]), l.threads);
    return nullptr;
  }

private:
  MatmulShape shape;
#ifdef DS_HAVE_DNNL
  Primitive primitive;
  bool usesPrimitive = false;
#endif
};

/// bf16 by oneDNN where the processor has dot products of it, else, as f16, through f32.
class AnyMatmul {
public:
  static size_t work(const DsLaunch &l) {
#ifdef DS_HAVE_DNNL
    if (auto plan = bf16Plan(l, SIZE_MAX))
      return plan->bytes;
#endif
    return Widen<Matmul>::work(l);
  }
  const char *prepare(const DsLaunch &l) {
#ifdef DS_HAVE_DNNL
    if (bf16Plan(l, l.workBytes)) {
      matmulShape(l, shape);
      usesPrimitive = primitive.prepare(shape, DataType::bf16, l);
    }
    if (usesPrimitive)
      return nullptr;
#endif
    return widened.prepare(l);
  }
  const char *run(const DsLaunch &l) {
#ifdef DS_HAVE_DNNL
    if (usesPrimitive)
      return primitive.run(l.ins[shape.swapped ? 1 : 0].data, l.ins[shape.swapped ? 0 : 1].data,
                           l.outs[0].data, l);
#endif
    return widened.run(l);
  }

private:
#ifdef DS_HAVE_DNNL
  static std::optional<Plan> bf16Plan(const DsLaunch &l, size_t workBytes) {
    MatmulShape s;
    bool all = is(l.ins[0], DType::BF16) && is(l.ins[1], DType::BF16) && is(l.outs[0], DType::BF16);
    if (!all || matmulShape(l, s))
      return std::nullopt;
    ThreadScope threads(l.threads);
    return choose(s, DataType::bf16, workBytes);
  }
  MatmulShape shape;
  Primitive primitive;
  bool usesPrimitive = false;
#endif
  Widen<Matmul> widened;
};

const KernelFns matmul = fnsOf<AnyMatmul>();

} // namespace ds::cpu
