// SPDX-License-Identifier: Apache-2.0
#include "tools/Workspace.h"

#include "kernels/CudaWork.h"
#include "kernels/Registry.h"
#include "runtime/CommSteps.h"
#include "tools/Fit.h"

#include <memory>
#include <unordered_map>

namespace ds {

namespace {

// A launch description without data, as DsWorkFn takes it.
class Shapes {
public:
  Shapes(OpKind op, const std::vector<Type> &ins, const std::vector<Type> &outs,
         const Attrs &attrs) {
    for (const auto *list : {&ins, &outs})
      for (const Type &t : *list)
        strides.push_back(rowMajor(t.dims));
    size_t k = 0;
    for (const Type &t : ins)
      inTensors.push_back(tensor(t, strides[k++]));
    for (const Type &t : outs)
      outTensors.push_back(tensor(t, strides[k++]));
    for (const AttrSpec &spec : info(op).attrs)
      addAttr(spec, attrs);
  }

  DsLaunch launch(int threads, int64_t world) const {
    DsLaunch l = {};
    l.ins = inTensors.data();
    l.outs = outTensors.data();
    l.numIns = static_cast<int32_t>(inTensors.size());
    l.numOuts = static_cast<int32_t>(outTensors.size());
    l.attrs = attrList.data();
    l.numAttrs = static_cast<int32_t>(attrList.size());
    l.threads = threads;
    l.world = static_cast<int32_t>(world);
    return l;
  }

private:
  static std::vector<int64_t> rowMajor(const std::vector<int64_t> &dims) {
    std::vector<int64_t> s(dims.size(), 1);
    for (size_t i = dims.size(); i-- > 1;)
      s[i - 1] = s[i] * dims[i];
    return s;
  }
  static DsTensor tensor(const Type &t, const std::vector<int64_t> &strides) {
    return {nullptr, t.dims.data(), strides.data(), static_cast<int32_t>(t.dims.size()),
            static_cast<uint8_t>(t.dtype)};
  }
  void addAttr(const AttrSpec &spec, const Attrs &attrs) {
    const AttrValue *v = attrs.find(spec.name);
    DsAttr a = {};
    a.name = spec.name.c_str();
    a.kind = spec.kind;
    if (v && spec.kind == 'b')
      a.i = std::get<bool>(*v);
    if (v && spec.kind == 'i')
      a.i = std::get<int64_t>(*v);
    if (v && spec.kind == 'f')
      a.f = std::get<double>(*v);
    if (v && spec.kind == 's')
      a.s = std::get<std::string>(*v).c_str();
    if (v && spec.kind == 'l') {
      const auto &list = std::get<std::vector<int64_t>>(*v);
      a.list = list.data();
      a.count = static_cast<int64_t>(list.size());
    }
    attrList.push_back(a);
  }

  std::vector<std::vector<int64_t>> strides;
  std::vector<DsTensor> inTensors, outTensors;
  std::vector<DsAttr> attrList;
};

void append(std::string &key, const void *data, size_t bytes) {
  key.append(static_cast<const char *>(data), bytes);
}

// Everything that Shapes takes, as bytes: layers are alike, and kernels take long to choose among their ways.
std::string keyOf(OpKind op, const std::vector<Type> &ins, const std::vector<Type> &outs,
                  const Attrs &attrs) {
  std::string key;
  append(key, &op, sizeof op);
  for (const auto *list : {&ins, &outs})
    for (const Type &t : *list) {
      auto rank = static_cast<char>(t.dims.size());
      key += {static_cast<char>(t.dtype), rank};
      append(key, t.dims.data(), t.dims.size() * sizeof(int64_t));
    }
  for (const AttrSpec &spec : info(op).attrs)
    if (const AttrValue *v = attrs.find(spec.name))
      std::visit(
          [&](const auto &value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_arithmetic_v<T>)
              append(key, &value, sizeof value);
            else
              append(key, value.data(), value.size() * sizeof value[0]);
            key += '\n';
          },
          *v);
  return key;
}

const DsKernel *kernelFor(const std::string &device, const char *op, DType first) {
#ifdef DS_HAVE_CPU_DEVICE
  if (device == "cpu")
    if (const DsKernel *k = findKernel(cpuKernels(), op, first))
      return k;
#endif
  (void)device;
  return findKernel(refKernels(), op, first);
}

} // namespace

WorkspaceRule workspaceRule(const std::string &device, int threads, int64_t world) {
  auto known = std::make_shared<std::unordered_map<std::string, int64_t>>();
  return [=](OpKind op, const std::vector<Type> &ins, const std::vector<Type> &outs,
             const Attrs &attrs) -> int64_t {
    const std::vector<Type> &first = ins.empty() ? outs : ins;
    if (first.empty())
      return 0;
    std::string name(info(op).text);
    bool cuda = device == "cuda";
    const DsKernel *k = cuda ? nullptr : kernelFor(device, name.c_str(), first[0].dtype);
    if (!cuda && (!k || !k->work))
      return 0;
    auto [at, isNew] = known->try_emplace(keyOf(op, ins, outs, attrs));
    if (isNew) {
      Shapes shapes(op, ins, outs, attrs);
      DsLaunch l = shapes.launch(threads, world);
      at->second = static_cast<int64_t>(cuda ? cudaWork(name, l) : k->work(&l));
    }
    return at->second;
  };
}

static std::string &executingDevice() {
  static std::string name;
  return name;
}
void planForDevice(const std::string &name) { executingDevice() = name; }

StatusOr<WorkspaceRule> workspaceRule(const PlanConfig &c, int threads) {
  std::string device = executingDevice();
  if (device.empty()) {
    TRY_ASSIGN(std::optional<Target> target, targetOf(c));
    device = target ? target->device : "cpu";
  }
  if (device != "cuda")
    return workspaceRule("cpu", threads, c.world);
  WorkspaceRule launches = workspaceRule(device, threads, c.world);
  bool exact = c.reduction == "exact";
  auto world = static_cast<int>(c.world);
  return WorkspaceRule([=](OpKind op, const std::vector<Type> &ins, const std::vector<Type> &outs,
                           const Attrs &attrs) -> int64_t {
    if (op != OpKind::ReduceScatter && op != OpKind::AllReduce)
      return launches(op, ins, outs, attrs);
    CommOp sum;
    sum.kind = op == OpKind::AllReduce ? InstrKind::AllReduce : InstrKind::ReduceScatter;
    sum.dtype = ins[0].dtype;
    sum.elems = ins[0].elems();
    return stagingBytes(sum, world, exact);
  });
}

} // namespace ds
