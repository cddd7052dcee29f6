// SPDX-License-Identifier: Apache-2.0
//
// Which tensors are parameters. Evidence in this order: --trainable and --freeze; the exporter's label; the
// role in the graph, seen through operators that only move elements: a table of Gather, an operand of a
// matrix product, a scale or bias of a norm, a vector added or multiplied along the last axis. Everything
// else is constant. Constant nodes count like initializers.
#include "frontend/OnnxImporter.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Regex.h"

#include <algorithm>
#include <cstring>

namespace ds {
namespace {

bool contains(std::initializer_list<const char *> list, const std::string &s) {
  return std::any_of(list.begin(), list.end(), [&](const char *x) { return s == x; });
}

bool movesOnly(const std::string &op) {
  return contains({"Identity", "Transpose", "Reshape", "Cast", "CastLike", "Unsqueeze", "Squeeze",
                   "Flatten", "Slice"},
                  op);
}

// A vector along the last axis: [C], [1,1,C], but not a scalar.
bool isChannelVector(const Dims &d) {
  if (d.empty())
    return false;
  for (size_t i = 0; i + 1 < d.size(); ++i)
    if (d[i] != 1)
      return false;
  return d.back() > 1;
}

TensorRole roleOf(const std::string &op, size_t slot, const Dims &d) {
  if (op == "Gather")
    return slot == 0 && d.size() >= 2 ? TensorRole::Table : TensorRole::None;
  if (contains({"MatMul", "Gemm", "Einsum"}, op))
    return d.size() >= 2        ? TensorRole::Matrix
           : isChannelVector(d) ? TensorRole::Vector
                                : TensorRole::None;
  if (contains({"Conv", "ConvTranspose", "RNN", "LSTM", "GRU"}, op))
    return slot == 0 ? TensorRole::None : slot == 1 ? TensorRole::Matrix : TensorRole::Vector;
  if (contains({"LayerNormalization", "RMSNormalization", "GroupNormalization",
                "InstanceNormalization", "BatchNormalization", "PRelu"},
               op))
    return slot == 1 || slot == 2 ? TensorRole::Vector : TensorRole::None;
  if (contains({"Add", "Sub", "Mul"}, op))
    return isChannelVector(d) ? TensorRole::Vector : TensorRole::None;
  return TensorRole::None;
}

using Uses = std::unordered_map<std::string, std::vector<std::pair<size_t, size_t>>>;

class Roles {
public:
  // The graph's nodes keep their indices; those of branches follow.
  Roles(const std::vector<OnnxNode> &graph) : nodes(graph) {
    for (size_t n = 0; n < graph.size(); ++n)
      addBranches(graph[n]);
    for (size_t n = 0; n < nodes.size(); ++n)
      for (int i = 0; i < nodes[n].proto->input_size(); ++i)
        uses[nodes[n].proto->input(i)].emplace_back(n, i);
  }

  const OnnxNode &node(size_t n) const { return nodes[n]; }

  // The first role that the value has; dims are those of the tensor, whatever moved since.
  TensorRole find(const std::string &name, const Dims &d, int depth = 0) const {
    auto it = uses.find(name);
    if (it == uses.end() || depth > 8)
      return TensorRole::None;
    TensorRole best = TensorRole::None;
    for (auto [n, slot] : it->second) {
      TensorRole r = roleOf(nodes[n].op(), slot, d);
      if (r != TensorRole::None && d.size() <= 1 && feedsTrig(n, 0))
        r = TensorRole::None; // frequencies of rotary or sine positions
      if (r == TensorRole::None && slot == 0 && movesOnly(nodes[n].op()) &&
          nodes[n].proto->output_size() > 0)
        r = find(nodes[n].proto->output(0), d, depth + 1);
      if (r == TensorRole::Table || best == TensorRole::None)
        best = r;
    }
    return best;
  }

  const std::vector<std::pair<size_t, size_t>> &of(const std::string &name) const {
    static const std::vector<std::pair<size_t, size_t>> none;
    auto it = uses.find(name);
    return it == uses.end() ? none : it->second;
  }

  bool feedsTrig(const std::string &name) const {
    return llvm::any_of(of(name), [&](auto use) { return feedsTrig(use.first, 0); });
  }

  // Running mean or variance of a normalisation.
  bool isStatistic(const std::string &name) const {
    return llvm::any_of(of(name), [&](auto use) {
      return nodes[use.first].op() == "BatchNormalization" && use.second >= 3;
    });
  }

private:
  // The node's result goes into Sin or Cos, through movement, products and concatenation.
  bool feedsTrig(size_t n, int depth) const {
    budget = depth == 0 ? 4096 : budget - 1; // paths meet again: do not follow all of them
    if (depth > 6 || budget < 0 || nodes[n].proto->output_size() == 0)
      return false;
    for (auto [user, slot] : of(nodes[n].proto->output(0))) {
      const std::string &op = nodes[user].op();
      if (op == "Sin" || op == "Cos" ||
          ((movesOnly(op) || op == "Concat" || op == "Mul") && feedsTrig(user, depth + 1)))
        return true;
    }
    return false;
  }

  void addBranches(const OnnxNode &n) {
    for (const onnx::AttributeProto &a : n.proto->attribute())
      for (const onnx::NodeProto &inner : a.g().node()) {
        OnnxNode node;
        node.proto = &inner;
        node.module = n.module;
        nodes.push_back(node);
        addBranches(node);
      }
  }

  std::vector<OnnxNode> nodes;
  Uses uses;
  mutable int budget = 0;
};

constexpr const char *kKind = "pkg.torch.export.graph_signature.InputSpec.kind";

StatusOr<llvm::Regex> regex(const std::string &flag, const std::string &text) {
  llvm::Regex r(text);
  std::string error;
  if (!r.isValid(error))
    return Status::error(flag + " '" + text + "': " + error);
  return r;
}

// Names that an exporter gives to values it made itself.
bool isAnonymous(const std::string &name) {
  return name.rfind("onnx::", 0) == 0 || name.rfind("val_", 0) == 0 ||
         name.find('.') == std::string::npos;
}

// Without labels, a tensor named like a parameter may be one although nothing in the graph tells.
void warnOfUnused(const Roles &roles, const std::vector<OnnxTensor> &tensors,
                  ImportReport &report) {
  std::vector<std::string> names;
  for (const OnnxTensor &t : tensors) {
    const TensorHandle &h = t.handle;
    if (isFloat(h.dtype) && h.elems() > 1 && !t.isParam && !isAnonymous(h.name) &&
        !roles.feedsTrig(h.name) && !roles.isStatistic(h.name))
      names.push_back(h.name);
  }
  if (names.empty())
    return;
  size_t shown = std::min<size_t>(names.size(), 4);
  std::string more = names.size() > shown ? " and " + std::to_string(names.size() - shown) + " more"
                                          : std::string();
  names.resize(shown);
  report.warnings.push_back("nothing says whether these are trained, so they stay constant: " +
                            llvm::join(names, ", ") + more +
                            " (export with labels, or name what is trained with "
                            "--trainable REGEX)");
}

} // namespace

Status Importer::collectTensors() {
  auto add = [&](const onnx::TensorProto &t, const std::string &name) -> Status {
    TRY_ASSIGN(TensorHandle h, file.locate(t));
    h.name = name;
    OnnxTensor tensor;
    tensor.handle = std::move(h);
    for (const auto &p : t.metadata_props())
      if (p.key() == kKind)
        tensor.kind = p.value();
    if (!tensorIndex.emplace(name, tensors.size()).second)
      return Status::error("initializer " + name + " occurs twice");
    tensors.push_back(std::move(tensor));
    return {};
  };
  const onnx::GraphProto &g = file.model.graph();
  if (g.sparse_initializer_size())
    return Status::error("sparse initializers are not supported (the first is " +
                         g.sparse_initializer(0).values().name() + ")");
  std::unordered_set<std::string> read;
  for (const OnnxNode &n : nodes)
    for (const std::string &i : n.proto->input())
      read.insert(i);
  bool branches =
      std::any_of(nodes.begin(), nodes.end(), [](const OnnxNode &n) { return n.op() == "If"; });
  Status all;
  for (const onnx::TensorProto &t : g.initializer()) {
    bool used = branches || read.count(t.name());
    for (const auto &o : g.output())
      used |= o.name() == t.name();
    if (!used)
      report.unused.push_back(t.name());
    else
      all.merge(add(t, t.name()));
  }
  for (const OnnxNode &n : nodes)
    if (n.op() == "Constant" && n.proto->domain().empty())
      if (const auto *a = n.attr("value"); a && a->has_t())
        all.merge(add(a->t(), n.proto->output(0)));
  for (const onnx::ValueInfoProto &v : g.value_info())
    if (auto it = tensorIndex.find(v.name()); it != tensorIndex.end())
      for (const auto &p : v.metadata_props())
        if (p.key() == kKind)
          tensors[it->second].kind = p.value();
  return all;
}

Status Importer::classify() {
  Roles roles(nodes);
  bool labelled = false;
  for (const OnnxTensor &t : tensors)
    labelled |= t.kind == "PARAMETER";
  for (OnnxTensor &t : tensors) {
    const TensorHandle &h = t.handle;
    t.role = roles.find(h.name, h.dims);
    if (!roles.of(h.name).empty())
      t.module = roles.node(roles.of(h.name)[0].first).module;
    if (!isFloat(h.dtype))
      continue;
    if (!t.kind.empty())
      t.isParam = t.kind == "PARAMETER";
    else
      t.isParam = h.elems() > 1 && t.role != TensorRole::None &&
                  (!labelled || t.role == TensorRole::Matrix || t.role == TensorRole::Table ||
                   !isAnonymous(h.name));
    // "transformer.h.0.ln_1.weight" names its module better than the first node that reads it.
    if (t.isParam && !isAnonymous(h.name))
      t.module = moduleOf(h.name);
  }
  if (!labelled)
    warnOfUnused(roles, tensors, report);
  return {};
}

// Vectors that an exporter merged because they were equal: in place (one initializer in several slots), or
// with an Identity per lost name. Each use becomes a parameter of its own again.
static Status splitMerged(Importer &im) {
  Roles roles(im.nodes);
  size_t count = im.tensors.size();
  int separated = 0;
  auto clone = [&](size_t from, const std::string &name, const std::string &module) -> size_t {
    OnnxTensor t = im.tensors[from];
    std::string unique = name;
    for (int i = 2; im.tensorIndex.count(unique); ++i)
      unique = name + "." + std::to_string(i);
    t.handle.name = unique;
    t.module = module;
    t.kind.clear();
    im.tensors.push_back(std::move(t));
    im.tensorIndex[unique] = im.tensors.size() - 1;
    im.report.separated.push_back(unique);
    ++separated;
    return im.tensors.size() - 1;
  };
  for (size_t i = 0; i < count; ++i) {
    if (!im.tensors[i].isParam || im.tensors[i].handle.dims.size() > 1 ||
        im.tensors[i].role != TensorRole::Vector)
      continue;
    std::string name = im.tensors[i].handle.name;
    std::string ownModule = im.tensors[i].module;
    std::map<std::string, size_t> byModule = {{ownModule, i}};
    bool first = true;
    for (auto [n, slot] : roles.of(name)) {
      if (n >= im.nodes.size()) // in a branch
        continue;
      const OnnxNode &node = im.nodes[n];
      if (node.op() == "Identity") {
        const std::string &out = node.proto->output(0);
        if (roles.find(out, im.tensors[i].handle.dims) == TensorRole::None)
          continue;
        im.separatedUse[{n, slot}] =
            clone(i, out, out.find('.') == std::string::npos ? node.module : moduleOf(out));
        continue;
      }
      // In place only where the exporter records modules, and only what it merges: up to 1024 elements.
      if (node.module.empty() || im.tensors[i].handle.elems() > 1024) {
        first = false;
        continue;
      }
      if (first && !ownModule.empty() && isAnonymous(name))
        byModule = {{node.module, i}};
      first = false;
      auto [it, fresh] = byModule.try_emplace(node.module, 0);
      if (fresh) {
        size_t dot = name.rfind('.');
        std::string leaf = dot == std::string::npos ? "weight" : name.substr(dot + 1);
        it->second = clone(i, wrapperOf(name) + node.module + "." + leaf, node.module);
      }
      if (it->second != i)
        im.separatedUse[{n, slot}] = it->second;
    }
  }
  if (separated)
    im.report.warnings.push_back(
        "the exporter merged equal vectors; " + std::to_string(separated) +
        " parameters were separated again (keep them merged with --tie-policy keep)");
  return {};
}

namespace {

// Equal contents of a[n,m] and b, which is a or its transpose. Large tensors are compared at 64 Ki places.
bool sameContent(std::string_view a, std::string_view b, const Dims &d, int64_t size,
                 bool transposed) {
  int64_t n = d[0], m = d[1], total = n * m;
  int64_t samples = std::min<int64_t>(total, total <= (1 << 22) ? total : 1 << 16);
  int64_t step = samples == total ? 1 : total / samples | 1;
  bool varied = false;
  for (int64_t i = 0, at = 0; i < samples; ++i, at = (at + step) % total) {
    int64_t other = transposed ? at % m * n + at / m : at;
    if (std::memcmp(a.data() + at * size, b.data() + other * size, size) != 0)
      return false;
    varied |= std::memcmp(a.data(), a.data() + at * size, size) != 0;
  }
  return varied;
}

} // namespace

// An embedding table and the copy of it, usually transposed, that constant folding made of a tied head.
static Status retieHead(Importer &im) {
  for (size_t i = 0; i < im.tensors.size(); ++i) {
    OnnxTensor &table = im.tensors[i];
    if (!table.isParam || table.role != TensorRole::Table || table.handle.dims.size() != 2)
      continue;
    for (size_t j = 0; j < im.tensors.size(); ++j) {
      OnnxTensor &head = im.tensors[j];
      const Dims &a = table.handle.dims, &b = head.handle.dims;
      if (i == j || !head.isParam || !head.kind.empty() || head.role != TensorRole::Matrix ||
          b.size() != 2 || head.handle.dtype != table.handle.dtype ||
          !isAnonymous(head.handle.name))
        continue;
      bool same = a == b, flipped = a[0] == b[1] && a[1] == b[0];
      if (!same && !flipped)
        continue;
      StatusOr<std::string_view> x = im.file.data(table.handle), y = im.file.data(head.handle);
      if (!x.ok() || !y.ok()) // no data: nothing to compare
        continue;
      bool transposed = !(same && sameContent(*x, *y, a, byteSize(table.handle.dtype), false));
      if (transposed && !(flipped && sameContent(*x, *y, a, byteSize(table.handle.dtype), true)))
        continue;
      im.report.ties.push_back(head.handle.name + " = " + (transposed ? "transposed " : "") +
                               table.handle.name);
      head.isParam = false;
      head.tiedTo = static_cast<int>(i);
      head.tiedTransposed = transposed;
    }
  }
  return {};
}

Status Importer::restoreTies() {
  if (options.splitSmallTies)
    TRY(splitMerged(*this));
  if (options.retie)
    TRY(retieHead(*this));
  return {};
}

Status Importer::createSymbols() {
  Status all;
  std::vector<std::pair<std::string, std::vector<OnnxTensor *>>> matched;
  auto match = [&](const std::string &flag, const std::string &text) -> Status {
    TRY_ASSIGN(llvm::Regex r, regex(flag, text));
    matched.emplace_back(flag, std::vector<OnnxTensor *>());
    for (OnnxTensor &t : tensors)
      if (isFloat(t.handle.dtype) && t.tiedTo < 0 && !t.isRunning &&
          (r.match(t.handle.name) || (t.isParam && !t.module.empty() && r.match(t.module))))
        matched.back().second.push_back(&t);
    if (matched.back().second.empty())
      return Status::error(flag + " '" + text + "' matches no initializer or module path");
    return {};
  };
  auto isIn = [&](const char *flag, OnnxTensor *t) {
    for (auto &[f, list] : matched)
      if (f == flag && std::find(list.begin(), list.end(), t) != list.end())
        return true;
    return false;
  };
  if (!options.trainable.empty())
    all.merge(match("--trainable", options.trainable));
  if (!options.freeze.empty())
    all.merge(match("--freeze", options.freeze));
  TRY(std::move(all));
  for (OnnxTensor &t : tensors)
    t.isParam = t.isParam || isIn("--trainable", &t);
  for (size_t i : paramOrder()) {
    OnnxTensor &t = tensors[i];
    const TensorHandle &h = t.handle;
    t.symbol = module->addSymbol(SymbolKind::Param, module->uniqueSymbolName(symbolName(h.name)),
                                 Type(h.dtype, h.dims));
    t.symbol->source = h.source;
    t.symbol->exportName = h.name;
    t.symbol->module = t.module;
    t.symbol->running = t.isRunning;
    t.symbol->trainable = !t.isRunning && (options.trainable.empty() || isIn("--trainable", &t)) &&
                          !isIn("--freeze", &t);
  }
  return {};
}

// The order of first use is the same for all exporters; Identity alone is no use.
std::vector<size_t> Importer::paramOrder() const {
  std::unordered_map<std::string, size_t> named = tensorIndex;
  std::vector<size_t> order;
  std::unordered_set<size_t> seen;
  auto use = [&](size_t i) {
    i = tensors[i].tiedTo < 0 ? i : static_cast<size_t>(tensors[i].tiedTo);
    if (tensors[i].isParam && seen.insert(i).second)
      order.push_back(i);
  };
  for (size_t n = 0; n < nodes.size(); ++n)
    for (int slot = 0; slot < nodes[n].proto->input_size(); ++slot) {
      auto sep = separatedUse.find({n, static_cast<size_t>(slot)});
      auto it = named.find(nodes[n].proto->input(slot));
      if (sep == separatedUse.end() && it == named.end())
        continue;
      size_t tensor = sep != separatedUse.end() ? sep->second : it->second;
      if (nodes[n].op() == "Identity")
        named[nodes[n].proto->output(0)] = tensor;
      else
        use(tensor);
    }
  for (size_t i = 0; i < tensors.size(); ++i)
    use(i);
  return order;
}

} // namespace ds
