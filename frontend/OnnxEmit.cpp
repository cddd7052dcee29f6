// SPDX-License-Identifier: Apache-2.0
//
// Known values that the program needs at run time. Patterns become ops (equal elements: fill; runs: iota;
// two values split by a diagonal: trilu, or iotas and where), so that a 1024 x 1024 causal mask costs no
// data; other small ones become constants with their bytes.
#include "frontend/OnnxImporter.h"

#include <cmath>

namespace ds {

StatusOr<Op *> Importer::create(Builder &b, OpKind k, llvm::ArrayRef<Value *> operands,
                                llvm::ArrayRef<std::string> names, Attrs attrs) {
  TRY_ASSIGN(Op * op, b.tryCreate(k, operands, names, std::move(attrs)));
  for (size_t i = 0; i < names.size(); ++i)
    baseNames[op->results[i]] = names[i];
  return op;
}

// Scalars are named after their value, whatever the exporter called them.
static std::string scalarName(DType t, double v) {
  std::string s = doubleText(v),
              out = t == DType::F32 ? "const." : "const." + std::string(text(t)) + ".";
  for (char c : s)
    out += c == '-' ? 'm' : c == '+' ? 'p' : c;
  return out;
}

static std::string cacheKey(const char *what, DType t, const Dims &dims, const std::string &rest) {
  return std::string(what) + " " + std::string(text(t)) + dimsText(dims) + " " + rest;
}

StatusOr<Value *> Importer::emitFill(DType t, const Dims &dims, double v, const std::string &name,
                                     Builder &b) {
  v = t == DType::F32 ? meantBy(static_cast<float>(v)) : v;
  Value *&slot = constantCache[cacheKey("fill", t, dims, doubleText(v))];
  if (!slot) {
    std::string own = dims.empty() ? scalarName(t, v) : name;
    TRY_ASSIGN(Op * op, create(b, OpKind::Fill, {}, {own},
                               {{"dims", dims}, {"dtype", std::string(text(t))}, {"value", v}}));
    slot = op->result();
  }
  return slot;
}

StatusOr<Value *> Importer::emitIota(DType t, const Dims &dims, int64_t axis, int64_t start,
                                     int64_t step, const std::string &name, Builder &b) {
  Value *&slot = constantCache[cacheKey("iota", t, dims,
                                        std::to_string(axis) + " " + std::to_string(start) + " " +
                                            std::to_string(step))];
  if (!slot) {
    TRY_ASSIGN(Op * op, create(b, OpKind::Iota, {}, {name},
                               {{"dims", dims},
                                {"axis", axis},
                                {"dtype", std::string(text(t))},
                                {"start", start},
                                {"step", step}}));
    slot = op->result();
  }
  return slot;
}

namespace {

// value = start + step * index along one axis.
struct Run {
  int64_t axis, start, step;
};

std::optional<Run> findRun(const Known &k) {
  int64_t axis = -1;
  for (size_t a = 0; a < k.stored.size(); ++a)
    if (k.stored[a] > 1) {
      if (axis >= 0)
        return std::nullopt;
      axis = static_cast<int64_t>(a);
    }
  if (axis < 0 || k.dtype == DType::Bool || k.floating() || k.stored[axis] < 3)
    return std::nullopt;
  int64_t step = 0, next = 0;
  if (__builtin_sub_overflow(k.ints[1], k.ints[0], &step))
    return std::nullopt;
  for (size_t i = 1; i < k.ints.size(); ++i)
    if (__builtin_add_overflow(k.ints[i - 1], step, &next) || next != k.ints[i])
      return std::nullopt;
  return Run{axis, k.ints[0], step};
}

// Element (i, j) of the last two axes is `below` where j - i <= k and `above` elsewhere; other axes repeat.
struct Triangle {
  double below, above;
  int64_t k;
};

std::optional<Triangle> findTriangle(const Known &k) {
  size_t rank = k.dims.size();
  if (rank < 2 || k.stored[rank - 1] < 4 || k.stored[rank - 2] < 4)
    return std::nullopt;
  for (size_t a = 0; a + 2 < rank; ++a)
    if (k.stored[a] != 1)
      return std::nullopt;
  int64_t rows = k.stored[rank - 2], cols = k.stored[rank - 1];
  auto at = [&](int64_t i, int64_t j) {
    return k.floating() ? k.floats[i * cols + j] : static_cast<double>(k.ints[i * cols + j]);
  };
  double below = at(rows - 1, 0), above = at(0, cols - 1);
  if (below == above)
    return std::nullopt;
  // The diagonal, from the first row or column that changes.
  int64_t j = 0, i = 0;
  while (j < cols && at(0, j) == below)
    ++j;
  int64_t diagonal = j - 1;
  if (j == 0) {
    while (i < rows && at(i, 0) == above)
      ++i;
    diagonal = -i;
  }
  for (i = 0; i < rows; ++i)
    for (j = 0; j < cols; ++j)
      if (at(i, j) != (j - i <= diagonal ? below : above))
        return std::nullopt;
  return Triangle{below, above, diagonal};
}

} // namespace

bool isEmbeddable(const Known &k) {
  return k.storedElems() <= kMaxEmbedded || k.splat() || findRun(k) || findTriangle(k);
}

StatusOr<Value *> Importer::emitKnown(const KnownRef &k, const std::string &fallback, Builder &b) {
  for (auto &[known, value] : emitted)
    if (known == k)
      return value;
  auto it = knownNames.find(k.get());
  std::string name = it != knownNames.end() ? it->second : fallback;
  auto done = [&](Value *v) {
    emitted.emplace_back(k, v);
    return v;
  };
  if (k->elems() == 0)
    return emitFill(k->dtype, k->dims, 0, name, b);
  if (std::optional<double> v = k->splat())
    return emitFill(k->dtype, k->dims, *v, name, b);

  // The stored axes first, then one broadcast.
  auto widen = [&](Value *v) -> StatusOr<Value *> {
    if (v->type.dims == k->dims)
      return done(v);
    TRY_ASSIGN(Op * op, create(b, OpKind::Broadcast, {v}, {name}, {{"dims", k->dims}}));
    return done(op->result());
  };
  bool repeated = k->stored != k->dims;
  std::string small = repeated ? name + ".small" : name;
  if (std::optional<Run> r = findRun(*k)) {
    EMIT(v, emitIota(k->dtype, k->stored, r->axis, r->start, r->step, small, b));
    return widen(v);
  }
  if (std::optional<Triangle> t = findTriangle(*k)) {
    if (t->above == 0 || t->below == 0) {
      EMIT(full,
           emitFill(k->dtype, k->stored, t->above == 0 ? t->below : t->above, name + ".fill", b));
      bool upper = t->below == 0;
      TRY_ASSIGN(Op * op, create(b, OpKind::Trilu, {full}, {small},
                                 {{"upper", upper}, {"k", upper ? t->k + 1 : t->k}}));
      return widen(op->result());
    }
    size_t rank = k->dims.size();
    Dims rowDims(rank, 1), colDims(rank, 1);
    rowDims[rank - 2] = k->stored[rank - 2];
    colDims[rank - 1] = k->stored[rank - 1];
    EMIT(row,
         emitIota(DType::I64, rowDims, static_cast<int64_t>(rank) - 2, t->k, 1, name + ".row", b));
    EMIT(col,
         emitIota(DType::I64, colDims, static_cast<int64_t>(rank) - 1, 0, 1, name + ".col", b));
    TRY_ASSIGN(Op * le, create(b, OpKind::Le, {col, row}, {name + ".below"}));
    EMIT(below, emitFill(k->dtype, {}, t->below, name + ".in", b));
    EMIT(above, emitFill(k->dtype, {}, t->above, name + ".out", b));
    TRY_ASSIGN(Op * op, create(b, OpKind::Where, {le->result(), below, above}, {small}));
    return widen(op->result());
  }
  if (auto t = tensorOf.find(k.get()); t != tensorOf.end()) {
    OnnxTensor &tensor = tensors[t->second];
    if (!tensor.symbol) {
      const TensorHandle &h = tensor.handle;
      Symbol *s = module->addSymbol(SymbolKind::Const, module->uniqueSymbolName(symbolName(h.name)),
                                    Type(h.dtype, h.dims));
      s->trainable = false;
      s->source = h.source;
      s->exportName = h.name;
      tensor.symbol = s;
    }
    return done(tensor.symbol);
  }
  if (auto recipe = recipes.find(k.get()); recipe != recipes.end()) {
    const Recipe &r = recipe->second;
    const OnnxOpInfo *info = onnxOp(r.node->op());
    Converter c(*this, b);
    c.node = r.node;
    c.in = r.in;
    c.name = shortName(*r.node, 0);
    if (info->convert || info->kind == OnnxOpInfo::Direct) {
      TRY(convertWith(*info, c));
      if (r.output < c.out.size() && c.out[r.output].value)
        return done(c.out[r.output].value);
    }
  }
  if (k->storedElems() > kMaxEmbedded)
    return Status::error("a computed constant " + std::string(text(k->dtype)) + dimsText(k->dims) +
                         " (" + name + ") is too large to embed and follows no known pattern")
        .note("feed it as an input of the model, or store it as an initializer");
  Known data = *k;
  data.dims = data.stored;
  std::string bytes = toBytes(data);
  Value *&slot =
      constantCache[cacheKey("data", k->dtype, k->stored, bytes)]; // layers repeat tables
  if (!slot) {
    Symbol *s = module->addSymbol(SymbolKind::Const, module->uniqueSymbolName(small),
                                  Type(k->dtype, k->stored));
    s->trainable = false;
    s->source.kind = Source::Kind::Hex;
    s->source.stored = k->dtype;
    s->source.bytes = std::move(bytes);
    slot = s;
  }
  return widen(slot);
}

} // namespace ds
