// SPDX-License-Identifier: Apache-2.0
#include "tools/Workspace.h"

#include "kernels/Registry.h"

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

std::function<int64_t(OpKind, const std::vector<Type> &, const std::vector<Type> &, const Attrs &)>
workspaceRule(const std::string &device, int threads, int64_t world) {
  return [=](OpKind op, const std::vector<Type> &ins, const std::vector<Type> &outs,
             const Attrs &attrs) -> int64_t {
    const std::vector<Type> &first = ins.empty() ? outs : ins;
    if (first.empty())
      return 0;
    std::string name(info(op).text);
    const DsKernel *k = kernelFor(device, name.c_str(), first[0].dtype);
    if (!k || !k->work)
      return 0;
    Shapes shapes(op, ins, outs, attrs);
    DsLaunch l = shapes.launch(threads, world);
    return static_cast<int64_t>(k->work(&l));
  };
}

} // namespace ds
