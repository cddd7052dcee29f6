// SPDX-License-Identifier: Apache-2.0
#include "passes/Emit.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"

namespace ds {

Type localType(const Type &t, const Module &m) {
  if (!t.isShard())
    return t;
  Type local = t;
  local.dims[0] /= m.axisSize(t.axes);
  return local;
}

Place Storage::newTemp(const Value *v) {
  Type t = localType(v->type, module);
  Buffer &b = out.own.emplace_back();
  b.name = v->name;
  b.kind = BufferKind::Temp;
  b.type = t;
  b.bytes = t.bytes();
  return {static_cast<int>(schedule.persistent.size() + out.own.size()) - 1, 0, std::move(t),
          false};
}

// The value whose storage v shares through views.
static const Value *throughViews(const Value *v) {
  while (v->def && v->def->info().isView())
    v = v->def->operands[0];
  return v;
}

// The value whose storage v shares through reshapes.
static Value *throughReshapes(Value *v) {
  while (v->def && v->def->kind == OpKind::Reshape)
    v = v->def->operands[0];
  return v;
}

// accumulate %v -> @acc {first}, with no other use of %v than by its norm and no other access to @acc in this program: %v is
// made in @acc. A whole gradient buffer less, and a copy.
void Storage::placeFirstStores(Program &p) {
  llvm::SmallPtrSet<const Value *, 16> readInProgram;
  for (Op &op : p.ops)
    readInProgram.insert(op.operands.begin(), op.operands.end());
  for (Op &op : p.ops) {
    if (op.kind != OpKind::Accumulate || op.operands.size() != 1 || op.bound.empty())
      continue;
    Value *v = op.operands[0];
    Symbol *acc = op.bound[0];
    bool made = v->def && (v->def->kind == OpKind::Pack || v->def->kind == OpKind::ReduceScatter ||
                           v->def->kind == OpKind::Offload || v->def->kind == OpKind::Cast);
    bool reads = llvm::all_of(
        v->users, [&](Op *user) { return user == &op || user->kind == OpKind::SumSquares; });
    if (!made || !reads || readInProgram.count(acc))
      continue;
    if (v->type.dtype != acc->type.dtype || v->type.dims != acc->type.dims ||
        v->type.space != acc->type.space)
      continue;
    places[v] = of(acc);
    elided.insert(&op);
  }
}

// What a launch adds up into v may lie there as well, and so may what that one took over: the bytes are used by nothing else
// from then on. Of several operands the one made first, which would lie beside the bucket for longest.
void Storage::placeUnder(const Value *v, const Place &place) {
  while (v->index == 0) {
    const Op &op = *v->def;
    const Value *first = nullptr;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Value *root = throughViews(op.operands[i]);
      bool fresh = root->def && root->def->info().isLaunch() && root->def->kind != OpKind::Pack &&
                   !root->def->boundTo(root->index) &&
                   tiedOperand(root->def->kind, root->index, root->def->operands.size()) < 0;
      bool fits =
          mayOverwrite(op.kind, static_cast<int>(i)) &&
          llvm::count_if(op.operands, [&](const Value *o) { return throughViews(o) == root; }) == 1;
      if (fresh && fits && lastRead.lookup(root) == &op && !outlive.count(root) &&
          !places.count(root) && root->type.dims == v->type.dims &&
          root->type.dtype == v->type.dtype && root->type.space == v->type.space &&
          (!first || position.lookup(root->def) < position.lookup(first->def)))
        first = root;
    }
    if (!first)
      return;
    places[first] = {place.buffer, place.offset, first->type, false, first};
    v = first;
  }
}

// A gradient can be computed in its bucket if it is a launch's own fresh result and only one pack takes it.
void Storage::placePackOperands(Program &p) {
  for (Op &op : p.ops) {
    if (op.kind != OpKind::Pack)
      continue;
    if (!places.count(op.result()))
      places[op.result()] = newTemp(op.result());
    Place bucket = of(op.result());
    std::vector<int64_t> at = op.attrs.list("at");
    for (size_t i = 0; i < op.operands.size(); ++i) {
      Value *root = throughReshapes(op.operands[i]);
      bool fresh = root->def && root->def->kind != OpKind::Pack && root->def->info().isLaunch() &&
                   root->type.space == bucket.type.space && !root->def->boundTo(root->index) &&
                   tiedOperand(root->def->kind, root->index, root->def->operands.size()) < 0;
      if (!fresh || places.count(root))
        continue;
      int64_t offset = at[i] * byteSize(root->type.dtype);
      places[root] = {bucket.buffer, offset, root->type, false};
      bool isTemp = bucket.buffer >= static_cast<int>(schedule.persistent.size());
      if (isTemp && op.operands.size() == 1) // others' bytes would be held for longer
        placeUnder(root, places[root]);
    }
  }
}

// all_gather %new -> @b, where %new is a launch's fresh result with no other use: it is made in this rank's slice of
// @b. No buffer in between, and the gather may run on into the next program.
void Storage::placeGathered(Program &p) {
  for (Op &op : p.ops) {
    if (op.kind != OpKind::AllGather || op.bound.empty())
      continue;
    Value *v = op.operands[0];
    Symbol *b = op.bound[0];
    bool isRounded = v->def && (v->def->kind == OpKind::Cast || v->def->kind == OpKind::AdamRound);
    bool isBack = v->def && v->def->kind == OpKind::Fetch;
    bool fresh = (isRounded || isBack) && v->index == 0 && v->users.size() == 1;
    bool isRead = llvm::any_of(b->users, [&](Op *user) { return user->parent == &p; });
    if (!fresh || isRead || places.count(v))
      continue;
    Place bucket = of(b);
    places[v] = {bucket.buffer, bucket.offset, localType(v->type, module), true};
  }
}

void Storage::findLastReads(Program &p) {
  int n = 0;
  for (Op &op : p.ops) {
    position[&op] = n++;
    for (const Value *v : op.operands)
      if (op.info().isLaunch())
        lastRead[throughViews(v)] = &op;
      else if (!op.info().isView())
        outlive.insert(throughViews(v));
  }
  for (const Value *r : p.returns)
    outlive.insert(throughViews(r));
}

// The place of an operand that op's first result may take over: op reads it last, its kernels may write there, and what
// else they read in its buffer may be overwritten, too. Of several the one made last: the others' bytes were taken
// for long, among those of other long lives.
std::optional<Place> Storage::overDyingOperand(const Op &op) const {
  if (!op.info().isLaunch() || op.result()->type.space != Space::Device)
    return std::nullopt;
  Type type = localType(op.result()->type, module);
  if (type.elems() == 0)
    return std::nullopt;
  std::optional<Place> best;
  int youngest = -1;
  for (const Value *v : op.operands) {
    const Value *root = throughViews(v);
    auto age = alone.find(root);
    if (age == alone.end() || lastRead.lookup(root) != &op || outlive.count(root))
      continue;
    const Place &place = at(root);
    bool fits = place.type.bytes() == type.bytes() &&
                llvm::all_of(llvm::enumerate(op.operands), [&](auto it) {
                  const Place &other = at(it.value());
                  return other.buffer != place.buffer ||
                         (mayOverwrite(op.kind, static_cast<int>(it.index())) &&
                          other.type.elems() == type.elems() &&
                          byteSize(other.type.dtype) == byteSize(type.dtype));
                });
    if (fits && age->second > youngest) {
      youngest = age->second;
      best = {place.buffer, 0, type, false, op.result()};
    }
  }
  return best;
}

Place Storage::viewOf(Op &op) const {
  Place place = of(op.operands[0]);
  if (op.kind == OpKind::View)
    place.offset += op.attrs.i("at") * byteSize(op.result()->type.dtype);
  if (op.kind == OpKind::Own)
    place.own = true;
  place.type = localType(op.result()->type, module);
  return place;
}

Status Storage::placeResults(Op &op) {
  if (op.info().isView()) {
    places[op.result()] = viewOf(op);
    return {};
  }
  if (carried && op.kind == OpKind::AllGather && op.operands[0] == carried) { // it is there already
    places[op.result()] = {carryBuffer, 0, op.result()->type, false};
    elided.insert(&op);
    return {};
  }
  for (int i = 0; i < static_cast<int>(op.results.size()); ++i) {
    Value *r = op.results[i];
    int tied = tiedOperand(op.kind, i, static_cast<int>(op.operands.size()));
    if (Symbol *s = op.boundTo(i))
      places[r] = of(s);
    else if (tied >= 0)
      places[r] = of(op.operands[tied]);
    else if (!places.count(r)) {
      std::optional<Place> taken = i == 0 ? overDyingOperand(op) : std::nullopt;
      places[r] = taken ? *taken : newTemp(r);
      if (op.info().isLaunch())
        alone.try_emplace(r, static_cast<int>(alone.size()));
    }
  }
  return {};
}

// Reads of a symbol see its entry value, so none may come after the op that overwrites it.
static Status checkEntryReads(Program &p) {
  llvm::SmallPtrSet<const Value *, 16> overwritten;
  llvm::DenseMap<const Value *, const Value *> root; // views of symbols
  for (Op &op : p.ops) {
    for (Value *v : op.operands) {
      const Value *s = v->isSymbol() ? v : root.lookup(v);
      if (s && overwritten.count(s))
        return Status::internal("assign-aliases: " + std::string(op.info().text) +
                                " reads the entry value of @" + s->name +
                                " after it was overwritten in @" + p.name);
    }
    if (op.info().isView()) {
      Value *v = op.operands[0];
      if (const Value *s = v->isSymbol() ? v : root.lookup(v))
        root[op.result()] = s;
    }
    for (Symbol *s : op.bound)
      overwritten.insert(s);
    for (int i = 0; i < op.numNamed(); ++i) {
      int tied = tiedOperand(op.kind, i, static_cast<int>(op.operands.size()));
      if (tied < 0)
        continue;
      Value *v = op.operands[tied];
      if (const Value *s = v->isSymbol() ? v : root.lookup(v))
        overwritten.insert(s);
    }
  }
  return {};
}

Status Storage::assign(Program &p) {
  TRY(checkEntryReads(p));
  llvm::StringMap<int> persistent;
  for (const Buffer &b : schedule.persistent)
    persistent.try_emplace(b.name, static_cast<int>(persistent.size()));
  unsigned values = module.symbols().size() + p.inputs.size();
  for (const Op &op : p.ops)
    values += op.results.size();
  places.reserve(values);
  for (Symbol *s : module.symbols())
    if (auto it = persistent.find(s->name); it != persistent.end())
      places[s] = {it->second, 0, localType(s->type, module), false};
  for (Value *in : p.inputs)
    places[in] = {persistent.lookup(in->name), 0, in->type, false};
  findLastReads(p);
  placeFirstStores(p);
  placePackOperands(p);
  placeGathered(p);
  for (Op &op : p.ops)
    TRY(placeResults(op));
  return {};
}

} // namespace ds
