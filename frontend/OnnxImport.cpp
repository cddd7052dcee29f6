// SPDX-License-Identifier: Apache-2.0
//
// The import from file to module: the steps in order, the checks of the whole model, and what is left to do
// when all nodes are converted (outputs, dead ops, the report).
#include "frontend/OnnxEval.h"

#include "onnx/defs/schema.h"

#include <algorithm>

namespace ds {

constexpr int64_t kMinOpset = 9, kMaxOpset = 25;
constexpr size_t kMaxShownOperators = 50; // ONNX has fewer than 200

Status Importer::checkModel() {
  const onnx::ModelProto &m = file.model;
  if (!m.has_graph() || (m.graph().node_size() == 0 && m.graph().output_size() == 0))
    return Status::error("the model has no graph");
  if (m.graph().output_size() == 0)
    return Status::error("the graph has no outputs");
  report.producer =
      m.producer_name() + (m.producer_version().empty() ? "" : " " + m.producer_version());
  for (const auto &o : m.opset_import())
    if (o.domain().empty() || o.domain() == "ai.onnx")
      report.opset = o.version();
  if (report.opset < kMinOpset)
    return Status::error("opset " + std::to_string(report.opset) + " is too old, expected " +
                         std::to_string(kMinOpset) + " to " + std::to_string(kMaxOpset))
        .note("export again, or convert with onnx.version_converter");
  if (report.opset > kMaxOpset)
    report.warnings.push_back("opset " + std::to_string(report.opset) + " is newer than " +
                              std::to_string(kMaxOpset) +
                              ": operators whose meaning changed since are read as before");
  return {};
}

static bool isExpandable(const OnnxNode &n) {
  const onnx::OpSchema *s = onnx::OpSchemaRegistry::Schema(n.op(), static_cast<int>(n.opset), "");
  return s && (s->HasFunction() || s->HasContextDependentFunction());
}

// All operators that cannot be imported, in one error.
Status Importer::checkOperators() {
  struct Missing {
    int64_t count = 0;
    std::string first, hint;
    bool unknown = false; // no operator that we have heard of
  };
  std::map<std::string, Missing> missing;
  std::map<std::string, int64_t> histogram;
  for (const OnnxNode &n : nodes) {
    const std::string &domain = n.proto->domain();
    bool standard = domain.empty() || domain == "ai.onnx";
    std::string name = standard ? n.op() : domain + "." + n.op();
    ++histogram[name];
    const OnnxOpInfo *info = standard ? onnxOp(n.op()) : nullptr;
    if (info ? info->kind != OnnxOpInfo::Refused : standard && isExpandable(n))
      continue;
    Missing &m = missing[name];
    if (m.count++ == 0) {
      m.first = n.name;
      if (info)
        m.hint = info->note;
      else if (domain == "com.microsoft")
        m.hint = "the model was optimised by ONNX Runtime; use the original export";
      else if (!standard)
        m.hint = "no function of that name is in the model";
      else
        m.unknown = true;
    }
  }
  report.operators.assign(histogram.begin(), histogram.end());
  if (missing.empty())
    return {};
  Status s = Status::error(std::to_string(missing.size()) + " operator" +
                           (missing.size() == 1 ? " is" : "s are") +
                           " not supported; docs/onnx-ops.md lists those that are");
  std::vector<std::string> all;
  for (const OnnxOpInfo &i : onnxOpTable())
    if (i.kind != OnnxOpInfo::Refused)
      all.push_back(i.op);
  size_t shown = 0;
  for (auto &[name, m] : missing) {
    if (shown++ == kMaxShownOperators)
      return std::move(s).note("and " + std::to_string(missing.size() - kMaxShownOperators) +
                               " more");
    if (m.unknown)
      if (std::string near = nearest(name, all); !near.empty())
        m.hint = "the nearest supported operator is " + near;
    s = std::move(s).note(name + ": " + std::to_string(m.count) + " node" +
                          (m.count == 1 ? "" : "s") + ", first " + m.first +
                          (m.hint.empty() ? "" : "; " + m.hint));
  }
  return s;
}

// Nodes that shape a mask on its way to a softmax: backwards from its input through additions, choices and
// movement.
void Importer::findMaskNodes() {
  std::unordered_map<std::string, size_t> maker;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string &o : nodes[i].proto->output())
      maker[o] = i;
  std::vector<std::string> work;
  for (const OnnxNode &n : nodes)
    if ((n.op() == "Softmax" || n.op() == "LogSoftmax") && n.proto->input_size())
      work.push_back(n.proto->input(0));
  static const std::set<std::string> through = {
      "Add",     "Where", "Expand",    "Cast",     "CastLike", "Reshape", "Unsqueeze",
      "Squeeze", "Slice", "Transpose", "Identity", "Trilu",    "Concat",  "Sub"};
  while (!work.empty()) {
    std::string name = std::move(work.back());
    work.pop_back();
    auto it = maker.find(name);
    if (it == maker.end() || !through.count(nodes[it->second].op()) ||
        !maskNodes.insert(it->second).second)
      continue;
    for (const std::string &in : nodes[it->second].proto->input())
      work.push_back(in);
  }
}

Status Importer::setOutputs(Builder &b) {
  std::unordered_set<std::string> done;
  for (const onnx::ValueInfoProto &o : file.model.graph().output()) {
    if (!done.insert(o.name()).second)
      return Status::error("output " + o.name() + " occurs twice");
    std::string name = sanitized(o.name());
    TRY_ASSIGN(OnnxVal val, lookup(o.name(), b));
    if (val.sequence)
      return Status::error("output " + o.name() + " is a sequence, expected a tensor");
    b.origin = {"output " + o.name(), "", ""};
    Value *v = val.value;
    if (!v) {
      TRY_ASSIGN(v, emitKnown(val.known, name, b));
    }
    bool taken =
        std::find(program->returns.begin(), program->returns.end(), v) != program->returns.end();
    if (v->kind != ValueKind::Result || taken) {
      TRY_ASSIGN(Op * copy, create(b, OpKind::Copy, {v}, {name}));
      v = copy->result();
    }
    if (Value *other = program->find(name); other && other != v) {
      if (other->kind == ValueKind::Input)
        return Status::error("output " + o.name() + " has the name of an input");
      module->rename(*program, other, program->uniqueName(name));
    }
    if (v->name != name)
      module->rename(*program, v, name);
    program->returns.push_back(v);
  }
  return {};
}

Status Importer::dropDeadOps() {
  std::unordered_set<const Value *> returned(program->returns.begin(), program->returns.end());
  std::vector<Op *> ops;
  for (Op &op : program->ops)
    ops.push_back(&op);
  report.ops = 0;
  auto isUsed = [&](Value &v) { return !v.users.empty() || returned.count(&v); };
  for (size_t i = ops.size(); i-- > 0;) {
    bool live = false;
    for (Value *r : ops[i]->results)
      live |= isUsed(*r);
    if (!ops[i]->bound.empty()) // statistics of a normalisation that is used
      live = isUsed(*ops[i]->operands[0]->def->operands[1]->def->result());
    if (live)
      ++report.ops;
    else
      module->eraseOp(ops[i]);
  }
  for (size_t i = program->inputs.size(); i-- > 0;)
    if (Value *in = program->inputs[i]; in->input.role == InputMeta::Role::Rng && in->users.empty())
      module->eraseInput(*program, in);
  std::vector<Symbol *> symbols = module->symbols();
  for (Symbol *s : symbols)
    if (s->users.empty() && !returned.count(s)) {
      if (s->symbolKind == SymbolKind::Param)
        report.unused.push_back(s->exportName);
      module->eraseSymbol(s);
    }
  return {};
}

// Dead ops leave gaps in the numbers of equal names: gives all names out again, in order.
void Importer::renumber() {
  std::unordered_set<const Value *> returned(program->returns.begin(), program->returns.end());
  std::vector<Value *> values;
  for (Op &op : program->ops)
    for (Value *v : op.results)
      if (!returned.count(v) && baseNames.count(v))
        values.push_back(v);
  for (size_t i = 0; i < values.size(); ++i)
    module->rename(*program, values[i], program->uniqueName("renumber." + std::to_string(i)));
  for (Value *v : values)
    module->rename(*program, v, program->uniqueName(baseNames[v]));
}

// Tensors without the exporter's label, in a model that has labels, or with the names that constant folding gives.
static void warnOfOptimisation(const std::vector<OnnxTensor> &tensors, ImportReport &report) {
  bool labelled = false, optimised = false;
  for (const OnnxTensor &t : tensors)
    labelled |= t.kind == "PARAMETER";
  std::vector<std::string> renamed, fixed;
  for (const OnnxTensor &t : tensors) {
    const TensorHandle &h = t.handle;
    bool folded = h.name.rfind("onnx::", 0) == 0, used = t.isParam || t.tiedTo >= 0;
    if (!t.kind.empty() || t.isRunning || !(labelled || folded) || !isFloat(h.dtype))
      continue;
    optimised |= used;
    bool named = h.name.find('.') != std::string::npos;
    if (used ? !named : t.symbol != nullptr)
      (used ? renamed : fixed)
          .push_back(h.name + " " + std::string(text(h.dtype)) + dimsText(h.dims));
  }
  auto list = [](const char *what, const std::vector<std::string> &v) {
    return v.empty() ? "" : std::string(what) + std::to_string(v.size()) + ", the first is " + v[0];
  };
  if (optimised)
    report.warnings.push_back(
        "the model was exported with optimisation; for training, export it without "
        "(docs/exporting.md): biases that were zero are missing" +
        list("; parameters without names, perhaps transposed: ", renamed) +
        list("; constants that may be folded parameters, and are not trained: ", fixed));
}

void Importer::fillReport() {
  report.nodes = static_cast<int64_t>(nodes.size());
  for (Symbol *s : module->symbols()) {
    int64_t n = s->type.elems();
    if (s->symbolKind != SymbolKind::Param)
      ++report.constants, report.constantElems += n;
    else if (s->running)
      ++report.running, report.runningElems += n;
    else if (s->trainable)
      ++report.params, report.paramElems += n;
    else
      ++report.frozen, report.frozenElems += n;
  }
  for (const OnnxTensor &t : tensors) {
    const OnnxTensor &held = t.tiedTo < 0 ? t : tensors[static_cast<size_t>(t.tiedTo)];
    const auto &apart = report.separated;
    if (held.isParam && held.symbol &&
        std::find(apart.begin(), apart.end(), t.handle.name) == apart.end())
      report.uses.push_back(
          {t.handle.name, held.symbol->exportName, t.tiedTo >= 0 && t.tiedTransposed});
  }
  std::unordered_map<std::string, std::string> maker;
  for (const OnnxNode &n : nodes)
    if (n.proto->output_size())
      maker[n.proto->output(0)] = n.op();
  for (const auto &o : file.model.graph().output()) {
    const std::string &op = maker[o.name()];
    if (op == "SoftmaxCrossEntropyLoss" || op == "NegativeLogLikelihoodLoss")
      report.losses.push_back(o.name());
  }
  warnOfOptimisation(tensors, report);
  if (report.params == 0)
    report.warnings.push_back(
        "no trainable parameters were found; name them with --trainable REGEX");
}

void Importer::needsKnown(const Value *v) {
  std::unordered_set<const Value *> seen{v};
  for (std::vector<const Value *> work{v}; !work.empty();) {
    const Value *x = work.back();
    work.pop_back();
    auto &all = report.unknown;
    if (x->kind == ValueKind::Input && std::find(all.begin(), all.end(), x->name) == all.end())
      all.push_back(x->name);
    if (x->def)
      for (const Value *operand : x->def->operands)
        if (seen.insert(operand).second)
          work.push_back(operand);
  }
}

void Importer::needsKnown(const OnnxNode &n) {
  bool told = !report.unknown.empty();
  for (const std::string &name : n.proto->input())
    if (auto it = values.find(name);
        !told && it != values.end() && it->second.value && !isFloat(it->second.value->type.dtype))
      needsKnown(it->second.value);
}

StatusOr<std::unique_ptr<Module>> Importer::run() {
  module = std::make_unique<Module>();
  module->name = sanitized(file.fileName.substr(0, file.fileName.rfind('.')));
  module->directory = file.directory;
  program = module->addProgram("micro");
  program->isFunc = true;
  Builder b(*module, *program);
  TRY(checkModel());
  TRY(flatten());
  TRY(dropDeadNodes());
  TRY(checkOperators());
  TRY(bindInputs());
  TRY(collectTensors());
  TRY(classify());
  TRY(restoreTies());
  TRY(findRunning());
  TRY(createSymbols());
  findMaskNodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    Status s = convertNode(nodes[i], i, b, 0);
    if (!s.ok()) {
      needsKnown(nodes[i]);
      std::string where = file.path + "(" + nodes[i].name + ")";
      s = std::move(s).at(where);
      if (!nodes[i].module.empty())
        s = std::move(s).note("in module " + nodes[i].module);
      return s;
    }
  }
  if (options.dropout == ImportOptions::Dropout::On && report.activeDropout == 0)
    return Status::error(
        "--dropout on: the model has no Dropout with a ratio above 0; exporting in eval "
        "mode takes it out, export in training mode");
  TRY(setOutputs(b));
  TRY(dropDeadOps());
  renumber();
  fillReport();
  return std::move(module);
}

StatusOr<std::unique_ptr<Module>> importOnnx(const std::string &path, const ImportOptions &options,
                                             ImportReport *report) {
  ImportReport local;
  TRY_ASSIGN(std::unique_ptr<OnnxFile> file, OnnxFile::read(path, options.allowMissingData));
  Importer importer(*file, options, report ? *report : local);
  StatusOr<std::unique_ptr<Module>> m = importer.run();
  if (!m.ok())
    return std::move(m).status().at(path);
  return m;
}

} // namespace ds
