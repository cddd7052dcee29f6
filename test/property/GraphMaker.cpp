// SPDX-License-Identifier: Apache-2.0
#include "test/property/GraphMaker.h"

#include "test/property/Rows.h"

#include <cmath>
#include <cstring>

namespace ds::property {

static constexpr int64_t kMostElems = 160; // of a value, per sample

static int64_t product(llvm::ArrayRef<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

GraphMaker::GraphMaker(const GraphSpec &spec, int64_t rows) : rows(rows), spec(spec) {}

std::unique_ptr<Module> GraphMaker::run() {
  module = std::make_unique<Module>();
  module->name = "random";
  program = module->addProgram("micro");
  program->isFunc = true;
  b = std::make_unique<Builder>(*module, *program);
  auto batch = [&](Dims dims) {
    dims.insert(dims.begin(), rows);
    return dims;
  };
  for (size_t i = 0; i < spec.floats.size(); ++i)
    values.push_back(module->addInput(*program, "x" + std::to_string(i),
                                      Type(DType::F32, batch(spec.floats[i]))));
  for (size_t i = 0; i < spec.ids.size(); ++i) {
    DType t = i % 2 ? DType::I32 : DType::I64;
    idInputs.push_back(
        module->addInput(*program, "ids" + std::to_string(i), Type(t, batch({spec.ids[i]}))));
    idInputs.back()->input.bound = 9; // a table may lower it
  }
  for (size_t i = 0; i < spec.nodes.size(); ++i)
    values.push_back(node(i));
  current = nullptr;
  head(values.back());
  addUnused();
  return std::move(module);
}

std::string GraphMaker::pathOf(const NodeSpec &n) const {
  return spec.paths ? "layers." + std::to_string(n.layer) + "." + property::rows()[n.row].name : "";
}

Value *GraphMaker::node(size_t index) {
  const NodeSpec &n = spec.nodes[index];
  const Row &row = property::rows()[n.row];
  current = &n;
  choose = Choices(n.seed);
  prefix = "n" + std::to_string(index);
  place = 0;
  b->origin.module = pathOf(n);
  return bounded(row.make(*this, values[n.x % values.size()], values[n.y % values.size()]));
}

// Keeps values small: rows that repeat or join would grow without end.
Value *GraphMaker::bounded(Value *v) {
  const Dims &dims = v->type.dims;
  if (dims.size() > 5)
    return bounded(reshape(v, {dims[0], v->type.elems() / dims[0]}));
  int64_t lead = dims[0] / rows;
  if (v->type.elems() / rows <= kMostElems && lead <= 12)
    return v;
  int64_t n = v->type.elems() / rows;
  v = reshape(v, {rows, n});
  int64_t kept = std::min<int64_t>(n, 24);
  return op(OpKind::Slice, {v},
            {{"starts", Dims{0, 0}}, {"limits", Dims{rows, kept}}, {"strides", Dims{1, 1}}});
}

Value *GraphMaker::op(OpKind k, llvm::ArrayRef<Value *> operands, Attrs attrs) {
  std::string name = prefix + "." + std::string(info(k).text);
  std::vector<std::string> names{name};
  for (int i = 1; i < info(k).outs; ++i)
    names.push_back(name + "." + std::to_string(i));
  return b->create(k, operands, names, std::move(attrs))->result();
}

Value *GraphMaker::fill(double v, const Dims &dims, DType t) {
  return op(OpKind::Fill, {}, {{"dims", dims}, {"dtype", std::string(text(t))}, {"value", v}});
}
Value *GraphMaker::scaled(Value *v, double factor) {
  return op(OpKind::Mul, {v, fill(factor, {}, v->type.dtype)});
}
Value *GraphMaker::plus(Value *v, double offset) {
  return op(OpKind::Add, {v, fill(offset, {}, v->type.dtype)});
}
Value *GraphMaker::cast(Value *v, DType to) {
  return op(OpKind::Cast, {v}, {{"to", std::string(text(to))}});
}
Value *GraphMaker::reshape(Value *v, const Dims &dims) {
  return op(OpKind::Reshape, {v}, {{"dims", dims}});
}
Value *GraphMaker::matrix(Value *v) {
  return v->type.rank() >= 2 ? v : reshape(v, {v->type.dims[0], 1});
}

Value *GraphMaker::like(Value *y, const Dims &dims) {
  if (y->type.dims == dims)
    return y;
  int64_t n = y->type.elems() / rows, k = dims[0] / rows;
  Value *mean = reshape(y, {rows, n});
  mean = op(OpKind::ReduceSum, {mean}, {{"axes", Dims{1}}, {"keepdims", true}});
  mean = scaled(mean, 1 / std::sqrt(static_cast<double>(n)));
  if (k > 1)
    mean = op(OpKind::Broadcast, {mean}, {{"dims", Dims{rows, k}}});
  Dims ones(dims.size(), 1);
  ones[0] = dims[0];
  return reshape(mean, ones);
}

Value *GraphMaker::sameDims(Value *y, const Dims &dims) {
  Value *v = like(y, dims);
  return v->type.dims == dims ? v : op(OpKind::Broadcast, {v}, {{"dims", dims}});
}

Value *GraphMaker::constant(const Dims &dims, double low, double high, DType t) {
  Choices values(choose.bits() | 1);
  std::string bytes;
  auto put = [&](auto v) { bytes.append(reinterpret_cast<const char *>(&v), sizeof v); };
  for (int64_t i = 0; i < product(dims); ++i) {
    double v = low + (high - low) * static_cast<double>(values.bits() >> 11) * 0x1p-53;
    if (t == DType::F32)
      put(static_cast<float>(v));
    else if (t == DType::I32)
      put(static_cast<int32_t>(std::floor(v)));
    else
      put(static_cast<int64_t>(std::floor(v)));
  }
  Symbol *s = module->addSymbol(SymbolKind::Const, module->uniqueSymbolName(prefix + ".const"),
                                Type(t, dims));
  s->trainable = false;
  s->source.kind = Source::Kind::Hex;
  s->source.stored = t;
  s->source.bytes = bytes;
  return s;
}

Value *GraphMaker::ids(int64_t bound) {
  if (idInputs.empty())
    return nullptr;
  Value *v = choose.of(idInputs);
  v->input.bound = std::min(v->input.bound, bound);
  return v;
}

Value *GraphMaker::rng() {
  if (Value *v = program->find("rng"))
    return v;
  Value *v = module->addInput(*program, "rng", Type(DType::U64, {2}));
  v->input.role = InputMeta::Role::Rng;
  return v;
}

// The name holds key, place and shape, so that equal ones meet, in other layers too. Without paths its trailing digits name
// the layer.
Value *GraphMaker::plainParam(const Dims &dims, double std, bool trainable) {
  std::string name = "p" + std::to_string(current ? current->key : 0) + "." +
                     std::to_string(place++) + (trainable ? ".w" : ".f");
  for (int64_t d : dims)
    name += "_" + std::to_string(d);
  if (!current)
    name = "head" + name;
  if (!spec.paths && current)
    name += ".at" + std::to_string(current->key / 3);
  if (Symbol *s = module->symbol(name))
    return s;
  Symbol *s = module->addSymbol(SymbolKind::Param, name, Type(DType::F32, dims));
  s->trainable = trainable;
  s->exportName = name;
  s->source.kind = Source::Kind::Normal;
  for (char c : name)
    s->source.seed = (s->source.seed * 31 + static_cast<unsigned char>(c)) % 100003;
  s->source.value = std;
  if (spec.paths && current)
    s->module = pathOf(*current);
  return s;
}

Value *GraphMaker::param(const Dims &dims, double std) {
  bool trainable = !choose.chance(12);
  Dims other = dims;
  switch (choose.chance(30) ? choose.below(7) : 7) {
  case 0: // stored transposed
    if (dims.size() != 2)
      break;
    return op(OpKind::Transpose, {plainParam({dims[1], dims[0]}, std, trainable)},
              {{"perm", Dims{1, 0}}});
  case 1: // stored flat
    return reshape(plainParam({product(dims)}, std, trainable), dims);
  case 2: { // a part of a larger one
    if (dims.empty())
      break;
    other[0] += 2;
    Dims starts(dims.size(), 0), limits = other, ones(dims.size(), 1);
    starts[0] = 1, limits[0] -= 1;
    return op(OpKind::Slice, {plainParam(other, std, trainable)},
              {{"starts", starts}, {"limits", limits}, {"strides", ones}});
  }
  case 3: { // two joined
    if (dims.empty() || dims[0] < 2)
      break;
    other[0] = 1;
    Value *first = plainParam(other, std, trainable);
    other[0] = dims[0] - 1;
    return op(OpKind::Concat, {first, plainParam(other, std, true)}, {{"axis", int64_t(0)}});
  }
  case 4: { // used twice
    Value *w = plainParam(dims, std, trainable);
    return op(OpKind::Add, {scaled(w, 0.5), op(OpKind::Tanh, {w})});
  }
  case 5: // through other types
    return cast(cast(plainParam(dims, std, trainable), DType::F64), DType::F32);
  case 6: { // with its absolute value
    Value *w = plainParam(dims, std, trainable);
    return op(OpKind::Sub, {w, scaled(op(OpKind::Abs, {w}), 0.3)});
  }
  default:
    break;
  }
  return plainParam(dims, std, trainable);
}

void GraphMaker::head(Value *x) {
  choose = Choices(spec.headSeed);
  prefix = "head";
  place = 0;
  b->origin.module = spec.paths ? "head" : "";
  if (x->type.dims[0] != rows)
    x = reshape(x, {rows, x->type.elems() / rows});
  x = op(OpKind::Tanh, {matrix(x)});
  int64_t in = x->type.dims.back(), out = 2 + choose.below(5);
  Value *w = plainParam({in, out}, 1 / std::sqrt(static_cast<double>(in)), true);
  x = op(OpKind::Matmul, {x, w});
  x = op(OpKind::Add, {x, plainParam({out}, 0.1, true)});
  module->rename(*program, x, "out");
  if (spec.loss == LossConfig::Kind::Output)
    choose.chance(50) ? crossEntropy(x) : meanInGraph(x);
  else
    program->returns.push_back(x);
  if (spec.loss == LossConfig::Kind::CrossEntropy && choose.chance(40)) {
    Dims dims(x->type.dims.begin(), x->type.dims.end() - 1);
    module->addInput(*program, "labels", Type(choose.chance(50) ? DType::I32 : DType::I64, dims));
  }
  if (choose.chance(30)) // outputs that no loss reads
    for (Value *v : values)
      if (v->def && v->def->phase == Phase::Forward && program->returns.size() < 3 &&
          !llvm::is_contained(program->returns, v))
        program->returns.push_back(v);
}

// A loss in the graph is the mean over this micro-batch; micro-batches are equal, so their mean is the whole's.
void GraphMaker::crossEntropy(Value *x) {
  Dims dims(x->type.dims.begin(), x->type.dims.end() - 1);
  Value *labels = module->addInput(*program, "labels", Type(DType::I64, dims));
  Value *inv = fill(1.0 / static_cast<double>(product(dims)), {}, DType::F64);
  Value *loss = op(OpKind::CrossEntropy, {x, labels, inv});
  program->returns.push_back(loss);
  module->rename(*program, loss, "loss.mean");
}

void GraphMaker::meanInGraph(Value *x) {
  Dims all;
  for (int64_t a = 0; a < x->type.rank(); ++a)
    all.push_back(a);
  Value *sum = op(OpKind::ReduceSum, {squared(plus(x, -0.3))},
                  {{"axes", all}, {"keepdims", choose.chance(30)}});
  Value *loss = scaled(sum, 0.7 / static_cast<double>(x->type.elems()));
  program->returns.push_back(loss);
  module->rename(*program, loss, "loss.mean");
}

void GraphMaker::addUnused() {
  prefix = "dead";
  for (int64_t i = 0; i < spec.unused; ++i) {
    Symbol *s = module->addSymbol(SymbolKind::Param, "unused" + std::to_string(i),
                                  Type(DType::F32, {3 + i}));
    s->source.kind = Source::Kind::Splat;
    s->source.value = 0.25;
    s->exportName = s->name;
    s->trainable = i % 3 != 2;
    if (i % 2)
      op(OpKind::Exp, {s});
  }
}

} // namespace ds::property
