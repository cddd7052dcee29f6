// SPDX-License-Identifier: Apache-2.0
//
// Attribute access and the emitting helpers that converters share.
#include "frontend/OnnxConvert.h"

#include "frontend/OnnxImporter.h"
#include "ir/SourceText.h"

#include <algorithm>
#include <numeric>

namespace ds {

const onnx::AttributeProto *OnnxNode::attr(std::string_view name) const {
  for (const onnx::AttributeProto &a : proto->attribute())
    if (a.name() == name)
      return &a;
  return nullptr;
}
int64_t OnnxNode::i(std::string_view name, int64_t def) const {
  const auto *a = attr(name);
  return a ? a->i() : def;
}
double OnnxNode::f(std::string_view name, double def) const {
  const auto *a = attr(name);
  return a ? a->f() : def;
}
std::string OnnxNode::s(std::string_view name, std::string_view def) const {
  const auto *a = attr(name);
  return a ? a->s() : std::string(def);
}
std::optional<std::vector<int64_t>> OnnxNode::ints(std::string_view name) const {
  const auto *a = attr(name);
  if (!a)
    return std::nullopt;
  return std::vector<int64_t>(a->ints().begin(), a->ints().end());
}

bool Converter::wantsOutput(int i) const {
  return i < node->proto->output_size() && !node->proto->output(i).empty();
}

Status Converter::error(std::string text) const {
  return Status::error(node->op() + ": " + std::move(text));
}

Status Converter::wantTensors(size_t least, size_t most) const {
  if (in.size() < least || in.size() > most)
    return error("has " + std::to_string(in.size()) + " inputs, expected " + std::to_string(least) +
                 (most == least ? "" : " to " + std::to_string(most)));
  for (size_t i = 0; i < in.size(); ++i)
    if ((!in[i] && i < least) || in[i].sequence)
      return error("input " + std::to_string(i) +
                   (in[i] ? " is a sequence, expected a tensor" : " is missing"));
  return {};
}

StatusOr<Value *> Converter::value(const OnnxVal &v) {
  if (v.value)
    return v.value;
  if (!v.known)
    return error("an input is missing, or is a sequence where a tensor is expected");
  return importer.emitKnown(v.known, name + ".const", b);
}

StatusOr<Value *> Converter::broadcastable(const OnnxVal &v, const Dims &withoutIt,
                                           const Dims &result) {
  if (v.value || !v.known)
    return value(v);
  std::optional<Dims> same = broadcast(withoutIt, v.known->stored);
  if (v.known->stored == v.known->dims || !same || *same != result ||
      importer.recipes.count(v.known.get()))
    return value(v);
  Known small = *v.known;
  small.dims = small.stored;
  // Leading axes of extent 1 need not be there either.
  while (!small.dims.empty() && small.dims[0] == 1 && small.dims.size() > withoutIt.size()) {
    small.dims.erase(small.dims.begin());
    small.stored.erase(small.stored.begin());
  }
  if (small.storedElems() == 1 && result.size() == withoutIt.size())
    small.dims.clear(), small.stored.clear();
  std::string base = name + ".const";
  auto named = importer.knownNames.find(v.known.get());
  if (named != importer.knownNames.end())
    base = named->second;
  if (!isEmbeddable(small))
    return value(v);
  // The small form is made once per known value.
  for (auto &[k, value] : importer.emitted)
    if (*k == small)
      return value;
  return importer.emitKnown(std::make_shared<Known>(std::move(small)), base, b);
}

StatusOr<std::vector<int64_t>> Converter::known(size_t i, const char *what) {
  if (!has(i) || in[i].sequence)
    return error(std::string("input ") + std::to_string(i) + " (" + what + ") is missing");
  if (!in[i].known) {
    importer.needsKnown(in[i].value);
    return error(std::string("input ") + std::to_string(i) + " (" + what +
                 ") must be known at plan time, but depends on the model's inputs or parameters; a "
                 "model input can be fixed with --const NAME=VALUE or --bind NAME=@FILE.pb");
  }
  if (in[i].known->elems() > kMaxEmbedded)
    return error(std::string("input ") + std::to_string(i) + " (" + what + ") has " +
                 std::to_string(in[i].known->elems()) + " elements, too many for it");
  return in[i].known->list();
}

StatusOr<double> Converter::knownScalar(size_t i, const char *what) {
  TRY_ASSIGN(std::vector<int64_t> ints, known(i, what));
  if (ints.size() != 1)
    return error(std::string(what) + " has " + std::to_string(ints.size()) +
                 " elements, expected 1");
  return in[i].known->floating() ? in[i].known->floats[0] : static_cast<double>(ints[0]);
}

StatusOr<int64_t> Converter::axis(int64_t a, int64_t rank) const {
  if (a < -rank || a >= rank)
    return error("axis " + std::to_string(a) + " is outside [" + std::to_string(-rank) + ", " +
                 std::to_string(rank - 1) + "]");
  return a < 0 ? a + rank : a;
}

StatusOr<std::vector<int64_t>> Converter::axes(std::vector<int64_t> a, int64_t rank) const {
  for (int64_t &x : a) {
    TRY_ASSIGN(x, axis(x, rank));
  }
  std::sort(a.begin(), a.end());
  if (std::adjacent_find(a.begin(), a.end()) != a.end())
    return error("axes " + dimsText(a) + " name an axis twice");
  return a;
}

Status Converter::checkDims(const Dims &d) const {
  if (d.size() > kMaxRank || !checkedProduct(d, 8))
    return error("shape " + dimsText(d) + " is negative or too large");
  return {};
}

StatusOr<Value *> Converter::emit(OpKind k, llvm::ArrayRef<Value *> operands, Attrs attrs,
                                  const std::string &suffix) {
  std::vector<std::string> names = {name + suffix};
  TRY_ASSIGN(Op * op, importer.create(b, k, operands, names, std::move(attrs)));
  return op->result();
}

StatusOr<Value *> Converter::fill(DType t, const Dims &dims, double v) {
  return importer.emitFill(t, dims, v, name + ".const", b);
}

StatusOr<Value *> Converter::iota(DType t, const Dims &dims, int64_t axis, int64_t start,
                                  int64_t step) {
  return importer.emitIota(t, dims, axis, start, step, name + ".iota", b);
}

StatusOr<Value *> Converter::reshape(Value *v, const Dims &dims, const std::string &suffix) {
  TRY(checkDims(dims));
  while (v->def && v->def->kind == OpKind::Reshape && v->type.dims != dims)
    v = v->def->operands[0];
  if (v->type.dims == dims)
    return v;
  return emit(OpKind::Reshape, {v}, {{"dims", dims}}, suffix);
}

static bool isIdentity(const std::vector<int64_t> &perm) {
  for (size_t i = 0; i < perm.size(); ++i)
    if (perm[i] != static_cast<int64_t>(i))
      return false;
  return true;
}

StatusOr<Value *> Converter::transpose(Value *v, const std::vector<int64_t> &perm,
                                       const std::string &suffix) {
  std::vector<int64_t> p = perm;
  if (v->def && v->def->kind == OpKind::Transpose && p.size() == v->type.dims.size()) {
    std::vector<int64_t> inner = v->def->attrs.list("perm");
    for (int64_t &x : p) {
      if (x < 0 || x >= static_cast<int64_t>(inner.size()))
        return error("perm " + dimsText(perm) + " does not fit rank " +
                     std::to_string(inner.size()));
      x = inner[x];
    }
    v = v->def->operands[0];
  }
  if (p.size() == v->type.dims.size() && isIdentity(p))
    return v;
  return emit(OpKind::Transpose, {v}, {{"perm", p}}, suffix);
}

StatusOr<Value *> Converter::broadcastTo(Value *v, const Dims &dims, const std::string &suffix) {
  TRY(checkDims(dims));
  if (v->type.dims == dims)
    return v;
  return emit(OpKind::Broadcast, {v}, {{"dims", dims}}, suffix);
}

StatusOr<Value *> Converter::cast(Value *v, DType t, const std::string &suffix) {
  if (v->type.dtype == t)
    return v;
  return emit(OpKind::Cast, {v}, {{"to", std::string(text(t))}}, suffix);
}

StatusOr<Value *> Converter::slice(Value *v, const Dims &starts, const Dims &limits,
                                   const Dims &strides, const std::string &suffix) {
  bool all = true;
  for (size_t i = 0; i < starts.size(); ++i)
    all &= starts[i] == 0 && limits[i] == v->type.dims[i] && strides[i] == 1;
  if (all)
    return v;
  return emit(OpKind::Slice, {v}, {{"starts", starts}, {"limits", limits}, {"strides", strides}},
              suffix);
}

StatusOr<Value *> Converter::reduceSum(Value *v, const std::vector<int64_t> &axes, bool keepdims,
                                       const std::string &suffix) {
  if (axes.empty())
    return v;
  return emit(OpKind::ReduceSum, {v}, {{"axes", axes}, {"keepdims", keepdims}}, suffix);
}

StatusOr<Value *> Converter::elementwise(OpKind k, llvm::ArrayRef<OnnxVal> operands, Attrs attrs,
                                         const std::string &suffix) {
  std::optional<Dims> result = Dims{};
  for (const OnnxVal &v : operands) {
    if (!v.value && !v.known)
      return error("an input is missing, or is a sequence where a tensor is expected");
    std::optional<Dims> next = broadcast(*result, v.dims());
    if (!next)
      return error("shapes " + dimsText(*result) + " and " + dimsText(v.dims()) +
                   " do not broadcast");
    result = next;
  }
  std::vector<Value *> values;
  for (size_t i = 0; i < operands.size(); ++i) {
    Dims others;
    for (size_t j = 0; j < operands.size(); ++j)
      if (j != i)
        others =
            *broadcast(others, operands[j].value ? operands[j].dims() : operands[j].known->stored);
    EMIT(v, broadcastable(operands[i], others, *result));
    values.push_back(v);
  }
  return emit(k, values, std::move(attrs), suffix);
}

// A transpose that moves the innermost axis to the second-last place is what a matmul flag does; what is
// left of it (batch axes and heads) keeps the innermost axis in place.
static StatusOr<Value *> untransposed(Converter &c, Value *v, bool &flag) {
  if (!v->def || v->def->kind != OpKind::Transpose)
    return v;
  std::vector<int64_t> perm = v->def->attrs.list("perm");
  size_t n = perm.size();
  if (n < 2 || perm[n - 2] != static_cast<int64_t>(n) - 1)
    return v;
  std::swap(perm[n - 2], perm[n - 1]);
  flag = !flag;
  std::string saved = c.name;
  auto base = c.importer.baseNames.find(v);
  c.name = base == c.importer.baseNames.end() ? v->name : base->second;
  StatusOr<Value *> out = c.transpose(v->def->operands[0], perm);
  c.name = saved;
  return out;
}

StatusOr<Value *> Converter::matmul(Value *a, Value *bv, const std::string &suffix) {
  bool ta = false, tb = false;
  TRY_ASSIGN(a, untransposed(*this, a, ta));
  TRY_ASSIGN(bv, untransposed(*this, bv, tb));
  Attrs attrs;
  if (ta)
    attrs.set("trans_a", true);
  if (tb)
    attrs.set("trans_b", true);
  return emit(OpKind::Matmul, {a, bv}, std::move(attrs), suffix);
}

// The range [first, first + n) that known indices run through, in row-major order.
static std::optional<int64_t> contiguous(const Known &k, int64_t extent) {
  if (k.elems() == 0 || k.elems() > kMaxKnown)
    return std::nullopt;
  std::vector<int64_t> v = k.list();
  if (v[0] < 0)
    for (int64_t &x : v)
      x += x < 0 ? extent : 0;
  for (size_t i = 0; i < v.size(); ++i)
    if (v[i] != v[0] + static_cast<int64_t>(i))
      return std::nullopt;
  if (v[0] < 0 || v.back() >= extent)
    return std::nullopt;
  return v[0];
}

StatusOr<Value *> Converter::gather(Value *x, const OnnxVal &indices, int64_t axis,
                                    const std::string &suffix) {
  Dims dims = x->type.dims;
  if (indices.known) {
    if (std::optional<int64_t> first = contiguous(*indices.known, dims[axis])) {
      Dims starts(dims.size(), 0), limits = dims, strides(dims.size(), 1);
      starts[axis] = *first;
      limits[axis] = *first + indices.known->elems();
      dims.erase(dims.begin() + axis);
      dims.insert(dims.begin() + axis, indices.dims().begin(), indices.dims().end());
      bool same = indices.rank() == 1;
      EMIT(s, slice(x, starts, limits, strides, same ? suffix : suffix + ".rows"));
      return reshape(s, dims, suffix);
    }
    if (indices.known->elems() <= kMaxKnown)
      for (int64_t i : indices.known->list())
        if (i < -dims[axis] || i >= dims[axis])
          return error("index " + std::to_string(i) + " is outside axis " + std::to_string(axis) +
                       " with extent " + std::to_string(dims[axis]));
  }
  EMIT(i, value(indices));
  if (i->type.dtype != DType::I64 && i->type.dtype != DType::I32)
    return error("indices are " + std::string(text(i->type.dtype)) + ", expected int32 or int64");
  // Indices fed to the model are checked by the loader.
  Value *source = i;
  while (source->def && source->def->kind == OpKind::Reshape)
    source = source->def->operands[0];
  if (source->kind == ValueKind::Input && dims[axis] > 0) {
    int64_t &bound = source->input.bound;
    bound = bound == 0 ? dims[axis] : std::min(bound, dims[axis]);
  }
  return emit(OpKind::Gather, {x, i}, {{"axis", axis}}, suffix);
}

Status Converter::result(StatusOr<Value *> v) {
  if (!v.ok())
    return std::move(v).status();
  out = {OnnxVal(*v)};
  return {};
}

} // namespace ds
