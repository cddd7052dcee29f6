// SPDX-License-Identifier: Apache-2.0
//
// Pointwise groups: elements are copied to short vectors, on which each step's own kernel runs.
#include "kernels/Pointwise.h"

#include "kernels/Registry.h"
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace ds::ref {

static constexpr int64_t kBlock = 256; // elements

namespace {

// A step's kernel and the launch of it on the vectors.
struct Step {
  const DsKernel *kernel;
  std::vector<DsAttr> attrs;
  std::vector<DsTensor> ins;
  DsTensor out;
};

class Steps {
public:
  const char *init(const DsLaunch &l) {
    if (const char *message = readPointwise(l, group))
      return message;
    buffer.resize(group.types.size() * kBlock * sizeof(double));
    for (size_t i = 0; i < group.body.steps.size(); ++i) {
      const PointwiseStep &s = group.body.steps[i];
      Step step;
      for (int k = 0; k < s.numArgs; ++k)
        step.ins.push_back(vectorOf(s.args[static_cast<size_t>(k)]));
      step.out = vectorOf(group.body.operands + static_cast<int>(i));
      step.kernel = findKernel(refKernels(), info(s.kind).text.data(), // of a literal: ends in 0
                               static_cast<DType>(step.ins[0].dtype));
      if (!step.kernel)
        return "a step has no kernel for its element type";
      for (const AttrSpec &spec : info(s.kind).attrs) { // of kind b or s
        const AttrValue *v = s.attrs.find(spec.name);
        const bool *b = std::get_if<bool>(v);
        const std::string *word = std::get_if<std::string>(v);
        step.attrs.push_back(
            {spec.name.c_str(), spec.kind, b && *b, 0, word ? word->c_str() : "", nullptr, 0});
      }
      steps.push_back(std::move(step));
    }
    return nullptr;
  }
  char *data(int value) {
    return buffer.data() + static_cast<size_t>(value) * kBlock * sizeof(double);
  }
  char *result() { return data(static_cast<int>(group.types.size()) - 1); }

  /// On the first n elements of the vectors.
  const char *run(int64_t n) {
    size = n;
    for (Step &s : steps) {
      DsLaunch l{};
      l.ins = s.ins.data();
      l.outs = &s.out;
      l.numIns = static_cast<int32_t>(s.ins.size());
      l.numOuts = l.threads = 1;
      l.attrs = s.attrs.data();
      l.numAttrs = static_cast<int32_t>(s.attrs.size());
      if (const char *message = s.kernel->run(&l, nullptr))
        return message;
    }
    return nullptr;
  }

private:
  DsTensor vectorOf(int value) {
    return {data(value), &size, &one, 1, static_cast<uint8_t>(group.typeOf(value))};
  }
  PointwiseLaunch group;
  std::vector<char> buffer;
  std::vector<Step> steps;
  int64_t size = 0, one = 1;
};

// The offset of element `index` of the result in t.
int64_t offsetOf(const DsTensor &t, const DsTensor &out, int64_t index) {
  int64_t at = 0;
  for (int axis = out.rank - 1; axis >= 0; --axis) {
    at += index % out.dims[axis] * broadcastStride(t, axis, out.rank);
    index /= out.dims[axis];
  }
  return at;
}

} // namespace

const char *refPointwisePrepare(const DsLaunch *l, void **state) {
  auto steps = std::make_unique<Steps>();
  if (const char *message = steps->init(*l))
    return message;
  *state = steps.release();
  return nullptr;
}
void refPointwiseDestroy(void *state) { delete static_cast<Steps *>(state); }

const char *refPointwise(const DsLaunch *l, void *state) {
  Steps &steps = *static_cast<Steps *>(state);
  const DsTensor &out = l->outs[0];
  auto bytes = [](const DsTensor &t) { return byteSize(static_cast<DType>(t.dtype)); };
  for (int64_t from = 0, all = elems(out); from < all; from += kBlock) {
    int64_t n = std::min(kBlock, all - from);
    for (int k = 0; k < l->numIns; ++k)
      for (int64_t i = 0, size = bytes(l->ins[k]); i < n; ++i)
        std::memcpy(steps.data(k) + i * size,
                    static_cast<char *>(l->ins[k].data) + offsetOf(l->ins[k], out, from + i) * size,
                    static_cast<size_t>(size));
    if (const char *message = steps.run(n))
      return message;
    for (int64_t i = 0, size = bytes(out); i < n; ++i)
      std::memcpy(static_cast<char *>(out.data) + offsetOf(out, out, from + i) * size,
                  steps.result() + i * size, static_cast<size_t>(size));
  }
  return nullptr;
}

} // namespace ds::ref
