// SPDX-License-Identifier: Apache-2.0
//
// One node: its inputs are looked up; if all are known and the operator has an evaluator, the result is
// known; otherwise its converter emits core ops. Branches of a constant If and operators that ONNX defines
// as functions are converted node by node the same way.
#include "frontend/OnnxEval.h"

#include "onnx/defs/function.h"
#include "onnx/defs/schema.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>

namespace ds {

StatusOr<OnnxVal> Importer::tensorValue(size_t index, Builder &b) {
  auto cached = tensorValues.find(index);
  if (cached != tensorValues.end())
    return cached->second;
  OnnxTensor &t = tensors[index];
  OnnxVal v;
  if (t.tiedTo >= 0) {
    TRY_ASSIGN(v, tensorValue(static_cast<size_t>(t.tiedTo), b));
    if (t.tiedTransposed) {
      TRY_ASSIGN(Op * op, create(b, OpKind::Transpose, {v.value}, {v.value->name + ".t"},
                                 {{"perm", std::vector<int64_t>{1, 0}}}));
      v = OnnxVal(op->result());
    }
  } else if (t.symbol) {
    v = OnnxVal(static_cast<Value *>(t.symbol));
  } else {
    const TensorHandle &h = t.handle;
    int64_t limit = isFloat(h.dtype) ? kMaxFloatRead : kMaxKnown;
    StatusOr<std::string_view> data = Status::error("not read");
    if (h.elems() <= limit && knownElems + h.elems() <= kMaxKnownTotal)
      data = file.data(h);
    if (data.ok()) {
      KnownRef k = compressed(*makeFromBytes(h.dtype, h.dims, *data));
      knownElems += k->storedElems();
      if (h.elems() > 16) // small ones are clearer inline
        tensorOf[k.get()] = index;
      knownNames[k.get()] = symbolName(h.name);
      v = OnnxVal(k);
    } else {
      t.symbol = module->addSymbol(SymbolKind::Const, module->uniqueSymbolName(symbolName(h.name)),
                                   Type(h.dtype, h.dims));
      t.symbol->trainable = false;
      t.symbol->source = h.source;
      t.symbol->exportName = h.name;
      v = OnnxVal(static_cast<Value *>(t.symbol));
    }
  }
  tensorValues[index] = v;
  return v;
}

StatusOr<OnnxVal> Importer::lookup(const std::string &name, Builder &b) {
  auto it = values.find(name);
  if (it != values.end())
    return it->second;
  auto t = tensorIndex.find(name);
  if (t != tensorIndex.end())
    return tensorValue(t->second, b);
  return Status::error("value '" + name +
                       "' is used but not defined before (is the graph sorted?)");
}

// -inf in what is added to the input of a softmax becomes the lowest finite number: a row that is masked
// everywhere then gives equal weights instead of NaN.
static OnnxVal finite(const OnnxVal &v) {
  if (!v.known || !v.known->floating())
    return v;
  double inf = std::numeric_limits<double>::infinity();
  bool any = false;
  for (double x : v.known->floats)
    any |= x == -inf;
  if (!any)
    return v;
  Known k = *v.known;
  for (double &x : k.floats)
    if (x == -inf)
      x = k.dtype == DType::F64 ? std::numeric_limits<double>::lowest()
                                : static_cast<double>(std::numeric_limits<float>::lowest());
  if (!isEmbeddable(k))
    return v;
  return OnnxVal(KnownRef(std::make_shared<Known>(std::move(k))));
}

Status Importer::bindOutputs(const OnnxNode &n, std::vector<OnnxVal> out) {
  for (int i = 0; i < n.proto->output_size(); ++i) {
    const std::string &name = n.proto->output(i);
    if (name.empty())
      continue;
    if (i >= static_cast<int>(out.size()) || !out[i])
      return Status::error(n.op() + ": output " + std::to_string(i) + " (" + name +
                           ") is not supported");
    if (out[i].known) {
      knownNames.try_emplace(out[i].known.get(), shortName(n, static_cast<size_t>(i)));
    }
    if (!values.emplace(name, std::move(out[i])).second)
      return Status::error(n.op() + ": value '" + name + "' is defined twice");
  }
  return {};
}

Status Importer::convertWith(const OnnxOpInfo &info, Converter &c) {
  if (info.kind == OnnxOpInfo::KnownOnly)
    return c.error(
        "needs inputs known at plan time; a model input can be fixed with --const NAME=VALUE "
        "or --bind NAME=@FILE.pb");
  if (info.convert)
    return info.convert(c);
  TRY(c.wantTensors(1, 3));
  return c.result(c.elementwise(info.direct, c.in));
}

// Elements that an evaluator looks at: those that are stored, or all if it expands repeated axes (it declines above
// kMaxKnown). A reshape of equal elements expands nothing.
static int64_t workOf(const OnnxOpInfo &info, const KnownList &values) {
  static constexpr EvalFn kOnStored[] = {evalIdentity, evalSqueeze, evalUnsqueeze, evalTranspose,
                                         evalExpand,   evalSlice,   evalSplit,     evalUnary,
                                         evalBinary,   evalWhere,   evalCast,      evalClip};
  bool stored =
      std::find(std::begin(kOnStored), std::end(kOnStored), info.eval) != std::end(kOnStored);
  bool reshapes = info.eval == evalReshape || info.eval == evalFlatten;
  int64_t work = 0;
  for (const KnownRef &k : values)
    if (k)
      work += stored || (reshapes && k->storedElems() == 1) ? k->storedElems()
                                                            : std::min(k->elems(), kMaxKnown);
  return work;
}

// Two nodes of equal keys compute equal values. Empty where no operand is large: there is nothing to save.
static std::string evaluationKey(const OnnxNode &n, const KnownList &operands) {
  std::string key =
      n.op() + " " + std::to_string(n.opset) + " " + std::to_string(n.proto->output_size());
  bool large = false;
  for (const KnownRef &k : operands) {
    key += " " + std::to_string(reinterpret_cast<uintptr_t>(k.get()));
    large |= k && k->storedElems() > kMaxEmbedded;
  }
  for (const onnx::AttributeProto &a : n.proto->attribute())
    key += " " + a.SerializeAsString();
  return large ? key : "";
}

Status Importer::convertNode(const OnnxNode &n, size_t index, Builder &b, int depth) {
  if (!n.proto->domain().empty() && n.proto->domain() != "ai.onnx")
    return Status::error("operator " + n.proto->domain() + "." + n.op() + " is not supported");
  if (n.proto->output_size() == 0) // in a branch: nothing can refer to it
    return {};
  if (n.op() == "Constant") {
    const auto *a = n.attr("value");
    if (a && a->has_t()) {
      if (tensorIndex.count(n.proto->output(0)))
        return {}; // looked up like an initializer
      TRY_ASSIGN(TensorHandle h, file.locate(a->t()));
      h.name = n.proto->output(0);
      tensors.emplace_back().handle = std::move(h);
      tensorIndex[n.proto->output(0)] = tensors.size() - 1;
      return {};
    }
  }
  const OnnxOpInfo *info = onnxOp(n.op());
  std::vector<OnnxVal> in;
  bool known = true;
  for (int i = 0; i < n.proto->input_size(); ++i) {
    OnnxVal v;
    if (!n.proto->input(i).empty()) {
      auto sep = separatedUse.find({index, static_cast<size_t>(i)});
      if (sep != separatedUse.end()) {
        TRY_ASSIGN(v, tensorValue(sep->second, b));
      } else {
        TRY_ASSIGN(v, lookup(n.proto->input(i), b));
      }
      known &= v.known != nullptr;
      if (index != kNoIndex && maskNodes.count(index))
        v = finite(v);
    }
    in.push_back(std::move(v));
  }
  b.origin = {n.name, n.module, ""};
  if (n.op() == "If" && !in.empty() && in[0].known)
    return inlineIf(n, in[0], b, depth);
  if (!info || info->kind == OnnxOpInfo::Refused) {
    bool found = false;
    if (!info)
      TRY(expandFunction(n, in, b, depth, found));
    return found ? Status() : Status::error("operator " + n.op() + " is not supported");
  }
  bool within = knownElems <= kMaxKnownTotal && knownWork <= kMaxKnownWork;
  if (known && info->eval != evalNone && (within || n.proto->input_size() == 0)) {
    KnownList list;
    for (const OnnxVal &v : in)
      list.push_back(v.known);
    std::string key = evaluationKey(n, list);
    auto same = key.empty() ? evaluated.end() : evaluated.find(key);
    if (same != evaluated.end()) {
      ++report.folded;
      return bindOutputs(n, {same->second.second.begin(), same->second.second.end()});
    }
    TRY_ASSIGN(KnownList out, info->eval(n, list, n.proto->output_size()));
    knownWork += workOf(*info, list) + workOf(*info, out);
    if (!key.empty() && !out.empty())
      evaluated.emplace(std::move(key), std::pair(list, out));
    if (!out.empty()) {
      std::vector<OnnxVal> vals;
      for (size_t i = 0; i < out.size(); ++i) {
        TRY(evalDims(n, out[i]->dims));
        size_t held = out[i]->floating() ? out[i]->floats.size() : out[i]->ints.size();
        if (static_cast<int64_t>(held) != out[i]->storedElems())
          return Status::error(n.op() + ": its inputs are of types that it does not take");
        knownElems += out[i]->storedElems();
        if (out[i]->storedElems() > kMaxEmbedded && info->kind != OnnxOpInfo::KnownOnly)
          recipes.try_emplace(out[i].get(), Recipe{out[i], &n, in, i});
        vals.emplace_back(out[i]);
      }
      ++report.folded;
      return bindOutputs(n, std::move(vals));
    }
  }
  Converter c(*this, b);
  c.node = &n;
  c.in = std::move(in);
  c.name = n.proto->output_size() ? shortName(n, 0) : "unused";
  TRY(convertWith(*info, c));
  return bindOutputs(n, std::move(c.out));
}

Status Importer::inlineIf(const OnnxNode &n, const OnnxVal &condition, Builder &b, int depth) {
  if (depth >= kMaxCallDepth)
    return Status::error("If: nested too deeply");
  if (condition.known->elems() != 1)
    return Status::error("If: the condition has " + std::to_string(condition.known->elems()) +
                         " elements, expected 1");
  bool taken = condition.known->list()[0] != 0;
  const auto *branch = n.attr(taken ? "then_branch" : "else_branch");
  if (!branch || !branch->has_g())
    return Status::error("If: a branch is missing");
  const onnx::GraphProto &g = branch->g();
  for (const onnx::TensorProto &t : g.initializer()) {
    TRY_ASSIGN(TensorHandle h, file.locate(t));
    tensors.emplace_back().handle = std::move(h);
    tensorIndex[t.name()] = tensors.size() - 1;
  }
  for (const onnx::NodeProto &inner : g.node()) {
    OnnxNode node;
    node.proto = &inner;
    node.module = modulePath(inner).empty() ? n.module : modulePath(inner);
    node.name = inner.name().empty() ? n.name + "/" + inner.op_type() : inner.name();
    node.opset = n.opset;
    branchNodes.push_back(std::move(node));
    TRY(convertNode(branchNodes.back(), kNoIndex, b, depth + 1));
  }
  if (g.output_size() < n.proto->output_size())
    return Status::error("If: a branch has " + std::to_string(g.output_size()) +
                         " outputs, expected " + std::to_string(n.proto->output_size()));
  std::vector<OnnxVal> out;
  for (int i = 0; i < n.proto->output_size(); ++i) {
    TRY_ASSIGN(OnnxVal v, lookup(g.output(i).name(), b));
    out.push_back(std::move(v));
  }
  return bindOutputs(n, std::move(out));
}

static onnx::TypeProto typeOf(const OnnxVal &v) {
  onnx::TypeProto t;
  if (!v || v.sequence)
    return t;
  t.mutable_tensor_type()->set_elem_type(onnxEnum(v.dtype()));
  for (int64_t d : v.dims())
    t.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(d);
  return t;
}

Status Importer::expandFunction(const OnnxNode &n, const std::vector<OnnxVal> &in, Builder &b,
                                int depth, bool &found) {
  if (depth >= kMaxCallDepth || expansions > static_cast<int>(kMaxNodes))
    return Status::error(n.op() + ": functions are nested too deeply");
  auto body = std::make_unique<onnx::FunctionProto>();
  const onnx::OpSchema *schema = nullptr;
  try {
    schema = onnx::OpSchemaRegistry::Schema(n.op(), static_cast<int>(n.opset), "");
    if (!schema)
      return {};
    if (schema->HasContextDependentFunction()) {
      std::vector<onnx::TypeProto> types;
      for (const OnnxVal &v : in)
        types.push_back(typeOf(v));
      onnx::FunctionBodyBuildContextImpl context(*n.proto, types);
      if (!schema->BuildContextDependentFunction(context, *body, static_cast<int>(n.opset)))
        return {};
    } else if (const onnx::FunctionProto *f = schema->GetFunction(static_cast<int>(n.opset))) {
      *body = *f;
    } else {
      return {};
    }
  } catch (const std::exception &e) {
    return Status::error(n.op() + ": cannot expand its definition: " + e.what());
  }
  found = true;
  OnnxAttrs attrs;
  for (const auto &[name, a] : schema->attributes())
    if (a.default_value.type() != onnx::AttributeProto::UNDEFINED)
      attrs[name] = &a.default_value;
  for (const onnx::AttributeProto &a : n.proto->attribute())
    attrs[a.name()] = &a;
  std::string prefix = "expand" + std::to_string(++expansions) + "/";
  OnnxNames names;
  for (int i = 0; i < body->input_size(); ++i)
    names[body->input(i)] = i < n.proto->input_size() ? n.proto->input(i) : "";
  for (int i = 0; i < n.proto->output_size() && i < body->output_size(); ++i)
    if (!n.proto->output(i).empty())
      names[body->output(i)] = n.proto->output(i);
  int64_t opset = n.opset;
  for (const auto &o : body->opset_import())
    if (o.domain().empty())
      opset = o.version();
  for (const onnx::NodeProto &inner : body->node()) {
    onnx::NodeProto &copy = nodeStore.emplace_back(inner);
    rewriteNode(copy, names, attrs, prefix);
    OnnxNode node;
    node.proto = &copy;
    node.module = n.module;
    node.name = n.name + "/" + inner.op_type();
    node.opset = opset;
    branchNodes.push_back(std::move(node));
    // A result that is one of the arguments again: nothing to convert.
    TRY(convertNode(branchNodes.back(), kNoIndex, b, depth + 1));
  }
  return {};
}

} // namespace ds
