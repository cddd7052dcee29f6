// SPDX-License-Identifier: Apache-2.0
//
// Running statistics: the tensors that BatchNormalization's inputs 3 and 4 name, each with a place of its own per node.
// Exporters merge equal ones (a fresh model's are all 0 or all 1), in place or through Identity.
#include "frontend/OnnxImporter.h"

#include <unordered_map>

namespace ds {

namespace {

class Running {
public:
  explicit Running(Importer &im) : im(im) {
    for (size_t n = 0; n < im.nodes.size(); ++n) {
      const onnx::NodeProto &p = *im.nodes[n].proto;
      for (int i = 0; i < p.input_size(); ++i)
        uses[p.input(i)].push_back(isStored(im.nodes[n], i) ? nullptr : &p);
      if (p.op_type() == "Identity" && p.input_size() == 1 && p.output_size() == 1)
        copies[p.output(0)] = p.input(0);
    }
  }

  Status run() {
    for (size_t n = 0; n < im.nodes.size(); ++n)
      if (im.nodes[n].op() == "BatchNormalization" && im.nodes[n].proto->domain().empty())
        for (size_t slot = 3; slot < 5; ++slot)
          TRY(visit(n, slot));
    return {};
  }

private:
  static bool isStored(const OnnxNode &n, int slot) {
    return n.op() == "BatchNormalization" && n.proto->domain().empty() && slot >= 3;
  }

  // Something but BatchNormalization reads the value as its statistics.
  bool isReadElsewhere(const std::string &name) {
    for (const onnx::NodeProto *user : uses[name])
      if (user && (user->op_type() != "Identity" || isReadElsewhere(user->output(0))))
        return true;
    return false;
  }

  Status visit(size_t n, size_t slot) {
    const OnnxNode &node = im.nodes[n];
    if (static_cast<int>(slot) >= node.proto->input_size())
      return {}; // the converter says so
    const std::string &named = node.proto->input(static_cast<int>(slot));
    std::string name = named;
    for (auto it = copies.find(name); it != copies.end(); it = copies.find(name))
      name = it->second;
    auto found = im.tensorIndex.find(name);
    if (found == im.tensorIndex.end() || !isFloat(im.tensors[found->second].handle.dtype))
      return {};
    size_t tensor = found->second;
    if (name == named && !im.tensors[tensor].isParam && !isReadElsewhere(name)) {
      mark(tensor, node); // the first keeps it
      taken.emplace(name + "|" + node.module, n);
      return {};
    }
    if (auto [other, fresh] = taken.emplace(name + "|" + node.module, n);
        !fresh && !node.module.empty() && name == named)
      return Status::error("BatchNormalization: " + im.nodes[other->second].name + " and " +
                           node.name + " of one module share the running statistics " + name +
                           ", which is not supported; normalise by them with --bn frozen");
    std::string leaf = slot == 3 ? "running_mean" : "running_var";
    std::string own = name != named ? named : node.module.empty() ? name : node.module + "." + leaf;
    OnnxTensor copy = im.tensors[tensor];
    copy.handle.name = own;
    for (int i = 2; im.tensorIndex.count(copy.handle.name); ++i)
      copy.handle.name = own + "." + std::to_string(i);
    im.tensors.push_back(std::move(copy));
    im.tensorIndex[im.tensors.back().handle.name] = im.tensors.size() - 1;
    mark(im.tensors.size() - 1, node);
    im.separatedUse[{n, slot}] = im.tensors.size() - 1;
    return {};
  }

  void mark(size_t tensor, const OnnxNode &node) {
    OnnxTensor &t = im.tensors[tensor];
    t.isParam = t.isRunning = true;
    t.role = TensorRole::Vector;
    t.kind.clear();
    t.module = node.module;
  }

  Importer &im;
  std::unordered_map<std::string, std::vector<const onnx::NodeProto *>> uses; // null: as statistics
  std::unordered_map<std::string, std::string> copies;                        // results of Identity
  std::unordered_map<std::string, size_t> taken; // tensor and module -> node
};

} // namespace

Status Importer::findRunning() {
  return options.batchNorm == ImportOptions::BatchNorm::Batch ? Running(*this).run() : Status();
}

} // namespace ds
