// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/Product.h"

#include "kernels/cpu/Cpu.h"

#include <algorithm>

namespace ds::cpu {

#ifdef DS_HAVE_DNNL

namespace {

using Dims = dnnl::memory::dims;

using DataType = dnnl::memory::data_type;

DataType dataType(DType t) { return t == DType::BF16 ? DataType::bf16 : DataType::f32; }

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

dnnl::memory::desc biasOf(const ProductSpec &spec) {
  Dims dims(static_cast<size_t>(spec.shape.batchRank + 1), 1);
  dims.push_back(spec.shape.n);
  Dims strides(dims.size(), spec.shape.n);
  strides.back() = 1;
  return dnnl::memory::desc(dims, dataType(spec.in), strides);
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
std::optional<Plan> describe(const ProductSpec &spec, bool packs) {
  const MatmulShape &s = spec.shape;
  const DataType type = dataType(spec.in);
  if (s.m == 0 || s.n == 0 || s.k == 0 || s.batches() == 0 || s.batchRank > 8)
    return std::nullopt;
  auto plain = [](int64_t rows, int64_t cols, int64_t rowStride, int64_t colStride) {
    return colStride == 1 ? rowStride >= cols : rowStride == 1 && colStride >= rows;
  };
  if (!plain(s.m, s.k, s.am, s.ak) || !plain(s.k, s.n, s.bk, s.bn) ||
      !plain(s.m, s.n, s.cm, s.cn) || s.cn != 1)
    return std::nullopt;
  try {
    auto a = descOf(s, type, s.batchA, s.m, s.k, s.am, s.ak);
    auto b = descOf(s, type, s.batchB, s.k, s.n, s.bk, s.bn);
    auto c = descOf(s, dataType(spec.out), s.batchC, s.m, s.n, s.cm, s.cn);
    auto any = dnnl::memory::desc({s.k, s.n}, type, dnnl::memory::format_tag::any);
    dnnl::matmul::desc desc = spec.bias ? dnnl::matmul::desc(a, packs ? any : b, biasOf(spec), c)
                                        : dnnl::matmul::desc(a, packs ? any : b, c);
    dnnl::primitive_attr attributes = userScratchpad();
    if (spec.adds) {
      dnnl::post_ops add;
      add.append_sum(1.0f);
      attributes.set_post_ops(add);
    }
    Plan plan;
    plan.matmul = dnnl::matmul::primitive_desc(desc, attributes, cpuEngine(), /*allow_empty=*/true);
    if (isSlow(plan.matmul))
      return std::nullopt;
    plan.scratch = plan.matmul.scratchpad_desc().get_size();
    plan.bytes = plan.scratch;
    if (packs && plan.matmul.weights_desc() != b) {
      plan.pack =
          dnnl::reorder::primitive_desc(cpuEngine(), b, cpuEngine(), plan.matmul.weights_desc(),
                                        userScratchpad(), /*allow_empty=*/true);
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
std::optional<Plan> choose(const ProductSpec &spec, size_t workBytes) {
  for (bool packs : {true, false}) {
    if (packs && !wantsPacking(spec.shape, dataType(spec.in)))
      continue;
    auto plan = describe(spec, packs);
    if (plan && plan->bytes <= workBytes)
      return plan;
  }
  return std::nullopt;
}

} // namespace

std::optional<size_t> Product::work(const ProductSpec &spec, int threads, size_t limit) {
  ThreadScope scope(threads);
  auto plan = choose(spec, limit);
  return plan ? std::optional(plan->bytes) : std::nullopt;
}

bool Product::prepare(const ProductSpec &spec, int threads, size_t workBytes) {
  ThreadScope scope(threads);
  auto plan = choose(spec, workBytes);
  if (!plan)
    return false;
  try {
    stream = dnnl::stream(cpuEngine());
    const auto &pd = plan->matmul;
    bias = spec.bias;
    if (bias)
      product.init(dnnl::matmul(pd), {{DNNL_ARG_SRC, pd.src_desc()},
                                      {DNNL_ARG_WEIGHTS, pd.weights_desc()},
                                      {DNNL_ARG_DST, pd.dst_desc()},
                                      {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()},
                                      {DNNL_ARG_BIAS, pd.bias_desc()}});
    else
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

const char *Product::run(const void *a, const void *b, void *c, void *work, int threads,
                         const void *row) const {
  ThreadScope scope(threads);
  const void *packed = packs ? static_cast<char *>(work) + packedAt : b;
  if ((packs && !pack.run(stream.get(), {b, packed, work})) ||
      !(bias ? product.run(stream.get(), {a, packed, c, work, row})
             : product.run(stream.get(), {a, packed, c, work})) ||
      dnnl_stream_wait(stream.get()) != dnnl_success)
    return "oneDNN refused to run a matmul it had accepted";
  return nullptr;
}

#else

std::optional<size_t> Product::work(const ProductSpec &, int, size_t) { return std::nullopt; }
bool Product::prepare(const ProductSpec &, int, size_t) { return false; }
const char *Product::run(const void *, const void *, void *, void *, int, const void *) const {
  return "this build is without oneDNN";
}

#endif

} // namespace ds::cpu
