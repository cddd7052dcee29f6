// SPDX-License-Identifier: Apache-2.0
//
// From the graph's nodes to a flat list without function calls. Calls of model-local functions are replaced
// by their bodies (nested, with attribute references), with fresh names; a body's nodes keep the module path
// of the call unless they have their own. Then nodes that no output depends on are dropped.
#include "frontend/OnnxImporter.h"

namespace ds {

static void rewriteGraph(onnx::GraphProto &g, OnnxNames names, const OnnxAttrs &attrs,
                         const std::string &prefix);

static std::string renamed(OnnxNames &names, const std::string &name, const std::string &prefix) {
  if (name.empty())
    return name;
  auto [it, fresh] = names.try_emplace(name, prefix + name);
  return it->second;
}

void rewriteNode(onnx::NodeProto &n, OnnxNames &names, const OnnxAttrs &attrs,
                 const std::string &prefix) {
  for (int i = 0; i < n.input_size(); ++i)
    n.set_input(i, renamed(names, n.input(i), prefix));
  for (int i = 0; i < n.output_size(); ++i)
    n.set_output(i, renamed(names, n.output(i), prefix));
  for (int i = n.attribute_size() - 1; i >= 0; --i) {
    onnx::AttributeProto &a = *n.mutable_attribute(i);
    if (!a.ref_attr_name().empty()) {
      auto it = attrs.find(a.ref_attr_name());
      if (it == attrs.end()) { // not given at the call: the operator's default
        n.mutable_attribute()->DeleteSubrange(i, 1);
        continue;
      }
      std::string own = a.name();
      a = *it->second;
      a.set_name(own);
    }
    if (a.has_g())
      rewriteGraph(*a.mutable_g(), names, attrs, prefix);
    for (int g = 0; g < a.graphs_size(); ++g)
      rewriteGraph(*a.mutable_graphs(g), names, attrs, prefix);
  }
}

static void rewriteGraph(onnx::GraphProto &g, OnnxNames names, const OnnxAttrs &attrs,
                         const std::string &prefix) {
  for (int i = 0; i < g.initializer_size(); ++i)
    g.mutable_initializer(i)->set_name(renamed(names, g.initializer(i).name(), prefix));
  for (int i = 0; i < g.input_size(); ++i)
    g.mutable_input(i)->set_name(renamed(names, g.input(i).name(), prefix));
  for (int i = 0; i < g.node_size(); ++i)
    rewriteNode(*g.mutable_node(i), names, attrs, prefix);
  for (int i = 0; i < g.output_size(); ++i)
    g.mutable_output(i)->set_name(renamed(names, g.output(i).name(), prefix));
}

namespace {

std::string domainOf(const std::string &d) { return d == "ai.onnx" ? "" : d; }

class Inliner {
public:
  explicit Inliner(Importer &im) : im(im) {
    for (const onnx::FunctionProto &f : im.file.model.functions())
      functions[key(f.domain(), f.name(), f.overload())] = &f;
    for (const auto &o : im.file.model.opset_import())
      modelOpsets[domainOf(o.domain())] = o.version();
  }

  Status run() {
    for (const onnx::NodeProto &n : im.file.model.graph().node())
      TRY(node(n, "", modelOpsets, 0));
    return {};
  }

private:
  using Opsets = std::unordered_map<std::string, int64_t>;

  static std::string key(const std::string &domain, const std::string &name,
                         const std::string &overload) {
    return domainOf(domain) + "\n" + name + "\n" + overload;
  }

  Status node(const onnx::NodeProto &n, const std::string &module, const Opsets &opsets,
              int depth) {
    auto f = functions.find(key(n.domain(), n.op_type(), n.overload()));
    std::string own = modulePath(n);
    if (own.empty())
      own = module.empty() && !hasScope(n) ? producerModule(n) : module;
    for (const std::string &o : n.output())
      moduleOf[o] = own;
    if (f != functions.end())
      return call(*f->second, n, own, depth);
    if (im.nodes.size() >= kMaxNodes)
      return Status::error("more than " + std::to_string(kMaxNodes) +
                           " nodes after inlining functions");
    OnnxNode out;
    out.proto = &n;
    out.module = own;
    out.name = !n.name().empty() ? n.name()
               : n.output_size() ? n.op_type() + " " + n.output(0)
                                 : n.op_type();
    auto v = opsets.find(domainOf(n.domain()));
    out.opset = v == opsets.end() ? 0 : v->second;
    im.nodes.push_back(out);
    return {};
  }

  // Nodes that an exporter's optimiser made have no scope; they belong where their first input was made.
  static bool hasScope(const onnx::NodeProto &n) {
    for (const auto &p : n.metadata_props())
      if (p.key() == "pkg.torch.onnx.name_scopes")
        return true;
    return n.name().rfind('/', 0) == 0;
  }
  std::string producerModule(const onnx::NodeProto &n) const {
    auto it = n.input_size() ? moduleOf.find(n.input(0)) : moduleOf.end();
    return it == moduleOf.end() ? "" : it->second;
  }

  Status call(const onnx::FunctionProto &f, const onnx::NodeProto &n, const std::string &module,
              int depth) {
    if (depth >= kMaxCallDepth)
      return Status::error("function " + f.domain() + "." + f.name() + " calls itself");
    if (n.input_size() > f.input_size() || n.output_size() > f.output_size())
      return Status::error("call of " + f.domain() + "." + f.name() + " has " +
                           std::to_string(n.input_size()) + " inputs and " +
                           std::to_string(n.output_size()) + " outputs, the function " +
                           std::to_string(f.input_size()) + " and " +
                           std::to_string(f.output_size()))
          .at(im.file.path + "(" + n.name() + ")");
    if (++calls > kMaxCalls)
      return Status::error("more than " + std::to_string(kMaxCalls) + " function calls");
    std::string prefix = "call" + std::to_string(calls) + "/";
    OnnxNames names;
    for (int i = 0; i < f.input_size(); ++i)
      names[f.input(i)] = i < n.input_size() ? n.input(i) : "";
    OnnxAttrs attrs;
    for (const onnx::AttributeProto &a : f.attribute_proto())
      attrs[a.name()] = &a;
    for (const onnx::AttributeProto &a : n.attribute())
      attrs[a.name()] = &a;
    // An output that is an input of the function keeps the input's name in the body: forward it.
    std::vector<std::pair<std::string, std::string>> forwards;
    for (int i = 0; i < n.output_size(); ++i) {
      if (n.output(i).empty())
        continue;
      auto known = names.find(f.output(i));
      if (known != names.end())
        forwards.emplace_back(known->second, n.output(i));
      else
        names[f.output(i)] = n.output(i);
    }
    Opsets opsets = modelOpsets;
    for (const auto &o : f.opset_import())
      opsets[domainOf(o.domain())] = o.version();
    for (const onnx::NodeProto &inner : f.node()) {
      onnx::NodeProto &copy = im.nodeStore.emplace_back(inner);
      rewriteNode(copy, names, attrs, prefix);
      if (!n.name().empty())
        copy.set_name(n.name() + "/" + (inner.name().empty() ? inner.op_type() : inner.name()));
      TRY(node(copy, module, opsets, depth + 1));
    }
    for (auto &[from, to] : forwards) {
      onnx::NodeProto &copy = im.nodeStore.emplace_back();
      copy.set_op_type("Identity");
      copy.add_input(from);
      copy.add_output(to);
      TRY(node(copy, module, opsets, depth + 1));
    }
    return {};
  }

  Importer &im;
  std::unordered_map<std::string, const onnx::FunctionProto *> functions;
  std::unordered_map<std::string, std::string> moduleOf; // by value name
  Opsets modelOpsets;
  int64_t calls = 0;
};

// Names that a node reads, with those that its branches read from outside.
void readNames(const onnx::NodeProto &n, std::vector<std::string> &out) {
  for (const std::string &s : n.input())
    out.push_back(s);
  for (const onnx::AttributeProto &a : n.attribute()) {
    auto graph = [&](const onnx::GraphProto &g) {
      for (const onnx::NodeProto &inner : g.node())
        readNames(inner, out);
      for (const auto &o : g.output())
        out.push_back(o.name());
    };
    if (a.has_g())
      graph(a.g());
    for (const onnx::GraphProto &g : a.graphs())
      graph(g);
  }
}

} // namespace

Status Importer::flatten() { return Inliner(*this).run(); }

Status Importer::dropDeadNodes() {
  std::unordered_set<std::string> live;
  for (const auto &o : file.model.graph().output())
    live.insert(o.name());
  std::vector<OnnxNode> kept;
  std::vector<std::string> reads;
  for (size_t i = nodes.size(); i-- > 0;) {
    bool isLive = false;
    for (const std::string &o : nodes[i].proto->output())
      isLive |= !o.empty() && live.count(o);
    if (!isLive)
      continue;
    reads.clear();
    readNames(*nodes[i].proto, reads);
    live.insert(reads.begin(), reads.end());
    kept.push_back(nodes[i]);
  }
  nodes.assign(kept.rbegin(), kept.rend());
  return {};
}

} // namespace ds
