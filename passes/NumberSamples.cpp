// SPDX-License-Identifier: Apache-2.0
//
// number-samples: where the batch dimension provably leads, dropout draws its mask by sample, so that one global batch sees
// the same masks on any number of ranks and micro-batches (D7).
//   %d = dropout %h, %rng {key=1, ratio=0.1}   ->   %d = dropout %h, %rng {key=1, ratio=0.1, rows=8}
// A value is laid out by sample if, in row-major order, the samples' elements follow one another. Inputs are, and an op keeps
// it that leaves samples in their places by one of the rules below. Elsewhere rows stays 0: the micro-batch of a rank draws as one, told
// from all others by its first sample, and the summary says so.
#include "ir/Graph.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"

#include <set>

namespace ds {

namespace {

using Dims = std::vector<int64_t>;

class Samples {
public:
  explicit Samples(int64_t batch) : batch(batch) {}

  void addInput(const Value *v) { layout[v] = Layout::BySample; }
  bool bySample(const Value *v) const { return layout.lookup(v) == Layout::BySample; }

  void visit(const Op &op) {
    if (op.results.empty())
      return;
    Layout l = Layout::None;
    for (const Value *v : op.operands)
      l = std::max(l, layout.lookup(v));
    if (l == Layout::BySample && (lead(op.result()->type.dims) < 0 || !keeps(op)))
      l = Layout::Mixed;
    for (const Value *r : op.results) // statistics behind the first are not followed
      layout[r] = l == Layout::BySample && r != op.result() ? Layout::Mixed : l;
  }

private:
  enum class Layout { None, BySample, Mixed }; // None: no sample is in it

  /// The first axes, up to this one, number the samples (and perhaps parts of them); -1: they do not.
  int64_t lead(const Dims &dims) const {
    int64_t n = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      n *= dims[i];
      if (n == 0)
        return -1;
      if (n % batch == 0)
        return static_cast<int64_t>(i);
    }
    return -1;
  }

  // Whether the operands with samples have the result's leading axes, so that nothing is repeated along them.
  bool sameLead(const Op &op) const {
    const Dims &out = op.result()->type.dims;
    for (const Value *v : op.operands) {
      const Dims &in = v->type.dims;
      if (bySample(v) && (in.size() != out.size() ||
                          !std::equal(out.begin(), out.begin() + lead(out) + 1, in.begin())))
        return false;
    }
    return true;
  }

  bool keeps(const Op &op) const {
    const Dims &in = op.operands[0]->type.dims, &out = op.result()->type.dims;
    auto rank = static_cast<int64_t>(in.size());
    int64_t samples = lead(out);
    auto axisBehind = [&](const char *name) {
      int64_t axis = op.attrs.i(name);
      return (axis < 0 ? axis + rank : axis) > samples;
    };
    // Of the first axes, `list` holds nothing but `plain`.
    auto leaves = [&](const char *name, auto plain) {
      Dims list = op.attrs.list(name);
      for (int64_t a = 0; a <= samples; ++a)
        if (list[a] != plain(a))
          return false;
      return true;
    };
    auto behind = [&](const char *name) { // increasing
      Dims axes = op.attrs.list(name);
      return axes.empty() || axes.front() > lead(in);
    };
    auto zero = [](int64_t) { return int64_t{0}; };
    switch (op.kind) {
    case OpKind::Reshape:
    case OpKind::Copy:
    case OpKind::Dropout:
      return true;
    case OpKind::Broadcast:
      return sameLead(op);
    case OpKind::Transpose:
      return leaves("perm", [](int64_t a) { return a; });
    case OpKind::Slice:
      return leaves("starts", zero) && leaves("limits", [&](int64_t a) { return in[a]; }) &&
             leaves("strides", [](int64_t) { return int64_t{1}; });
    case OpKind::Pad:
      return leaves("low", zero) && leaves("high", zero) && leaves("interior", zero);
    case OpKind::Reverse:
    case OpKind::ReduceSum:
    case OpKind::ReduceMax:
    case OpKind::ReduceMin:
      return behind("axes");
    case OpKind::BatchNorm:
    case OpKind::Conv: // elements of the first axis stay in place
    case OpKind::ConvGradInput:
    case OpKind::MaxPool:
    case OpKind::AvgPool:
      return samples == 0 && bySample(op.operands[0]) &&
             (op.operands.size() == 1 || !bySample(op.operands[1]));
    case OpKind::Trilu:
      return samples < rank - 2;
    case OpKind::Softmax:
    case OpKind::LogSoftmax:
    case OpKind::LayerNorm:
    case OpKind::RmsNorm:
      return bySample(op.operands[0]) && axisBehind("axis");
    case OpKind::Attention: // a mask is the same for all samples, or has one part for each
      return samples == 0 && bySample(op.operands[0]) && bySample(op.operands[1]) &&
             bySample(op.operands[2]) &&
             (op.operands.size() == 3 || !bySample(op.operands[3]) ||
              op.operands[3]->type.rank() == 4);
    case OpKind::Concat:
      return axisBehind("axis");
    case OpKind::Gather: // from a table by the samples' indices, or within samples
      return bySample(op.operands[1]) ? !bySample(op.operands[0]) && op.attrs.i("axis") == 0
                                      : axisBehind("axis");
    case OpKind::Linear: // rows stay rows
      return samples < rank - 1 && !bySample(op.operands[1]) && !bySample(op.operands[2]);
    case OpKind::Matmul: {
      int64_t lastRows = static_cast<int64_t>(out.size()) - 2; // the axis of a's rows
      bool inRows = samples == lastRows && !bySample(op.operands[1]) && !op.attrs.flag("trans_a");
      return sameLead(op) && (samples < lastRows || inRows);
    }
    default:
      return op.info().trait == Trait::Elementwise && sameLead(op);
    }
  }

  int64_t batch; // samples in a micro-batch
  llvm::DenseMap<const Value *, Layout> layout;
};

// The leading dimension that all data inputs share, or 0.
int64_t batchOf(const Program &p) {
  int64_t batch = 0;
  for (const Value *in : p.inputs) {
    if (!in->input.fromData())
      continue;
    if (in->type.rank() == 0 || (batch && in->type.dims[0] != batch))
      return 0;
    batch = in->type.dims[0];
  }
  return batch;
}

} // namespace

Status numberSamples(Module &m, const PlanConfig &) {
  Program *p = m.program("micro");
  int64_t batch = p ? batchOf(*p) : 0;
  if (batch == 0)
    return {};
  Samples samples(batch);
  for (const Value *in : p->inputs)
    if (in->input.fromData())
      samples.addInput(in);
  std::set<int64_t> proven; // by key: a mask that is drawn of ones has no samples of its own
  for (const Op &op : p->ops) {
    samples.visit(op);
    if (op.kind == OpKind::Dropout && samples.bySample(op.operands[0]))
      proven.insert(op.attrs.i("key"));
  }
  for (Op &op : p->ops)
    if (op.kind == OpKind::Dropout && op.attrs.i("rows") == 0 && proven.count(op.attrs.i("key")))
      op.attrs.set("rows", batch);
  return {};
}

} // namespace ds
