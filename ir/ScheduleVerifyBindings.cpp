// SPDX-License-Identifier: Apache-2.0
//
// S8: the tables fit the buffers, and weights change exactly once in a window: every trainable bucket by one
// optimizer launch in `update`, or by rounding the master that one has updated, or by transfers of what was updated so
// in another space, frozen ones never, running statistics whole in every program of a micro-batch, from all ranks. A
// whole bucket that each rank updates in its own slice is gathered again behind it. Optimizer states and scalars change at
// most once. Inputs are written by `feed` alone, at most once in a program. What looks into a bucket looks at one of its parameters.
#include "ir/ScheduleNames.h"
#include "ir/ScheduleVerifyHeld.h"
#include "ir/SourceText.h"

#include <algorithm>
#include <map>
#include <set>

namespace ds {

namespace {

std::string num(int64_t n) { return std::to_string(n); }

class Bindings {
public:
  Bindings(const Schedule &s, Findings &f) : s(s), f(f), held(s) {}
  void run();

private:
  struct Update {
    struct Part {
      int64_t begin, end; // bytes in the buffer
      std::string label;  // the optimizer launch, or what brought its result
    };
    std::vector<Part> parts;
    const SchedProgram *program = nullptr; // of the last part
    const Instr *last = nullptr;
    bool ownSlice = false; // it wrote only this rank's slice
    bool gathered = false;
    bool whole(int64_t bytes) const;
  };

  void bucket(const BucketInfo &b);
  void segments(const BucketInfo &b, const std::string &name);
  void inputs();
  void inits();
  void writes(const SchedProgram &p);
  void master(const BucketInfo &b, const std::string &name);
  void weights(const SchedProgram &p, const Instr &i, PlaceRef r);
  void alike(const SchedProgram &p, const Instr &i);
  bool optimizes(const SchedProgram &p, const Instr &i, PlaceRef r) const;
  bool rounds(const SchedProgram &p, const Instr &i, PlaceRef r, const BucketInfo &b);
  void statistics(const SchedProgram &p, const Instr &i, const PlaceInfo &at);
  void once(const SchedProgram &p, const Instr &i, PlaceRef r);
  void gathered(const SchedProgram &p, std::map<int, const BucketInfo *> &holds) const;
  void views(const SchedProgram &p, const std::map<int, const BucketInfo *> &holds);
  int find(std::string_view name, BufferKind kind) const {
    int b = s.findPersistent(name);
    return b >= 0 && s.persistent[b].kind == kind ? b : -1;
  }

  const Schedule &s;
  Findings &f;
  std::map<int, const BucketInfo *> bucketOf; // by buffer
  std::map<int, int> masters;                 // state buffer -> weights
  std::map<int, Update> updates;              // by buffer
  HeldParts held;
  std::set<std::pair<std::string, int>> tracked;                      // programs and buffers
  std::map<int, std::vector<std::pair<Access, std::string>>> changes; // by state or scalar buffer
};

void Bindings::segments(const BucketInfo &b, const std::string &name) {
  std::vector<const SegmentInfo *> order;
  std::set<std::string> params;
  for (const SegmentInfo &g : b.segments) {
    order.push_back(&g);
    if (g.param.empty() || !params.insert(g.param).second)
      f.add("S8", 0,
            name + ": the parameter " + nameText(g.param) + " has no name or is there twice");
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const SegmentInfo *a, const SegmentInfo *c) { return a->at < c->at; });
  int64_t end = 0;
  for (const SegmentInfo *g : order) {
    std::optional<int64_t> size = checkedProduct(g->shape, 8);
    int64_t elems = size ? *size / 8 : 0;
    if (!size || g->at < 0 || g->at > b.elems || elems > b.elems - g->at)
      return f.add("S8", 0,
                   name + ": " + nameText(g->param) + " at " + num(g->at) +
                       " is outside of the bucket's " + num(b.elems) + " elements");
    if (g->at < end)
      f.add("S8", 0,
            name + ": " + nameText(g->param) + " at " + num(g->at) +
                " overlaps the parameter before it, which ends at " + num(end));
    if (g->at % kQuantum)
      f.add("S8", 0,
            name + ": " + nameText(g->param) + " starts at " + num(g->at) +
                ", which is no multiple of " + num(kQuantum));
    end = g->at + elems;
  }
}

/// The f32 values that 16-bit weights are rounded from.
void Bindings::master(const BucketInfo &b, const std::string &name) {
  int index = find(b.master, BufferKind::State), weights = find(b.name, BufferKind::Param);
  if (index < 0)
    return f.add("S8", 0,
                 name + ": its master " + nameText(b.master) + " has no buffer of kind state");
  const Buffer &m = s.persistent[index];
  int64_t elems = m.type.elems();
  bool fits = elems == b.elems / s.world() || (!b.sharded && elems == b.elems);
  bool elsewhere =
      m.type.space != s.persistent[weights].type.space; // then it may be of the same type
  if (!b.trainable || m.type.dtype != accumType(b.dtype) ||
      (m.type.dtype == b.dtype && !elsewhere) || !fits || m.type.dims.size() != 1)
    f.add("S8", m.line,
          name + ": its master " + nameText(b.master) + " is " + m.type.str() +
              ", expected the wider type and the elements of trainable weights of 16 bits" +
              ", or of weights in another space");
  if (!masters.emplace(index, weights).second)
    f.add("S8", m.line, nameText(b.master) + " is the master of two buckets");
}

void Bindings::bucket(const BucketInfo &b) {
  std::string name = "bucket " + nameText(b.name);
  int index = find(b.name, BufferKind::Param);
  if (index < 0)
    return f.add("S8", 0, name + " has no buffer of kind param");
  const Buffer &buffer = s.persistent[index];
  if (!bucketOf.emplace(index, &b).second)
    return f.add("S8", buffer.line, name + " is declared twice");
  int64_t quantum = s.world() * kQuantum;
  if (b.elems < 0 || b.elems % quantum)
    f.add("S8", buffer.line,
          name + " has " + num(b.elems) + " elements, expected a multiple of " + num(s.world()) +
              " ranks x " + num(kQuantum));
  int64_t want = b.sharded ? b.elems / s.world() : b.elems;
  if (buffer.type.elems() != want || buffer.type.dtype != b.dtype || buffer.type.dims.size() != 1)
    f.add("S8", buffer.line,
          name + " needs a buffer of type " + Type(b.dtype, {want}).str() + ", found " +
              buffer.type.str());
  if (!b.master.empty())
    master(b, name);
  segments(b, name);
}

void Bindings::inputs() {
  std::set<int> known;
  for (const InputInfo &i : s.inputs) {
    std::string name = "input " + nameText(i.name);
    int b = find(i.name, BufferKind::Input);
    if (b < 0) {
      f.add("S8", 0, name + " has no buffer of kind input");
      continue;
    }
    const Buffer &buffer = s.persistent[b];
    if (!known.insert(b).second)
      f.add("S8", buffer.line, name + " is declared twice");
    bool counts = i.meta.role == InputMeta::Role::Count;
    if (counts && (buffer.type.dtype != DType::F64 || buffer.type.elems() != 1))
      f.add("S8", buffer.line,
            name + " is a count and needs the type f64[], found " + buffer.type.str());
    if (i.meta.role == InputMeta::Role::Rng &&
        (buffer.type.dtype != DType::U64 || buffer.type.dims != std::vector<int64_t>{2}))
      f.add("S8", buffer.line,
            name + " is an rng and needs the type u64[2], found " + buffer.type.str());
    if (counts && !i.meta.countOf.empty() &&
        std::none_of(s.inputs.begin(), s.inputs.end(), [&](const InputInfo &o) {
          return o.name == i.meta.countOf && o.meta.fromData();
        }))
      f.add("S8", buffer.line,
            name + " counts " + nameText(i.meta.countOf) + ", which is no input of this schedule");
    if (i.meta.bound && !isInt(buffer.type.dtype))
      f.add("S8", buffer.line,
            name + " has a bound, but its elements are " + std::string(text(buffer.type.dtype)));
  }
  for (size_t b = 0; b < s.persistent.size(); ++b)
    if (s.persistent[b].kind == BufferKind::Input && !known.count(static_cast<int>(b)))
      f.add("S8", s.persistent[b].line,
            nameText(s.persistent[b].name) + " is an input buffer without an `input` line");
}

void Bindings::inits() {
  std::set<int> known;
  for (const InitInfo &i : s.inits) {
    if (i.buffer < 0 || i.buffer >= static_cast<int>(s.persistent.size())) {
      f.add("S8", 0,
            "an init names buffer number " + num(i.buffer) + ", but there are " +
                num(s.persistent.size()));
      continue;
    }
    const Buffer &b = s.persistent[i.buffer];
    if (b.kind != BufferKind::Scalar && b.kind != BufferKind::Const)
      f.add("S8", b.line,
            "init " + nameText(b.name) + ": only scalar and const buffers have one, " +
                "found kind " + std::string(text(b.kind)));
    if (!known.insert(i.buffer).second)
      f.add("S8", b.line, "init " + nameText(b.name) + " is given twice");
    int64_t bytes = Type(i.source.stored, b.type.dims).bytes();
    if (i.source.kind == Source::Kind::Hex && static_cast<int64_t>(i.source.bytes.size()) != bytes)
      f.add("S8", b.line,
            "init " + nameText(b.name) + " has " + num(i.source.bytes.size()) +
                " bytes of hex, expected " + num(bytes));
  }
}

/// An optimizer is applied to equal elements of everything that has some of a bucket's.
void Bindings::alike(const SchedProgram &p, const Instr &i) {
  std::optional<Held> first;
  for (int o = 0; isOptimizer(i) && o < bucketOperands(i.op); ++o) {
    std::optional<Held> h = held.at(p, i.ins[static_cast<size_t>(o)]);
    if (first && h && h->at != first->at)
      return f.add("S8", p, i,
                   "updates elements from " + num(first->at) + " of " +
                       nameText(s.persistent[static_cast<size_t>(first->of)].name) +
                       " with those from " + num(h->at) + " of " +
                       nameText(s.persistent[static_cast<size_t>(h->of)].name));
    if (!first)
      first = h;
  }
}

bool Bindings::Update::whole(int64_t bytes) const {
  std::vector<Part> order = parts;
  std::sort(order.begin(), order.end(),
            [](const Part &a, const Part &b) { return a.begin < b.begin; });
  int64_t end = 0;
  for (const Part &part : order) {
    if (part.begin > end)
      return false;
    end = std::max(end, part.end);
  }
  return end == bytes;
}

/// A write to a weight buffer.
void Bindings::weights(const SchedProgram &p, const Instr &i, PlaceRef r) {
  PlaceInfo at = resolve(s, p, r);
  std::string name = nameText(at.buffer->name);
  auto it = bucketOf.find(at.bufferIndex);
  if (it == bucketOf.end())
    return; // told already: a param buffer without a bucket
  if (it->second->running)
    return statistics(p, i, at);
  if (p.name != "update" || !it->second->trainable)
    return f.add("S8", p, i,
                 "writes the weights " + name + ", which " +
                     (it->second->trainable ? "only update may do" : "are frozen"));
  Update &u = updates[at.bufferIndex];
  bool updated = it->second->master.empty() ? optimizes(p, i, r) : rounds(p, i, r, *it->second);
  if (!updated) { // the gather of updated slices
    if (i.kind == InstrKind::AllGather && u.gathered)
      return f.add("S8", p, i, "gathers the weights " + name + ", which are gathered already");
    PlaceInfo from = i.ins.empty() ? PlaceInfo{} : resolve(s, p, i.ins[0]);
    if (i.kind != InstrKind::AllGather || u.parts.empty() || r.isView ||
        from.bufferIndex != at.bufferIndex || !from.rankStride)
      return f.add(
          "S8", p, i,
          "writes the weights " + name + ", but is neither " +
              (it->second->master.empty() ? "an optimizer" : "the rounding of its master") +
              " nor the gather of slices that one has updated");
    u.gathered = true;
    return;
  }
  int64_t begin = at.begin - at.buffer->offset;
  int64_t end = begin + (at.rankStride ? at.rankStride * s.world() : at.bytes);
  for (const Update::Part &part : u.parts)
    if (begin < part.end && part.begin < end)
      return f.add("S8", p, i,
                   "updates " + name + ", which " + part.label + " has updated already");
  u.parts.push_back({begin, end, nameText(i.label)});
  u.program = &p;
  u.last = &i;
  u.ownSlice |= at.rankStride != 0 && at.bytes != at.buffer->type.bytes();
}

/// Whether i is the optimizer of these weights, or brings back what one has updated in another space.
bool Bindings::optimizes(const SchedProgram &p, const Instr &i, PlaceRef r) const {
  if (i.kind == InstrKind::Launch)
    return isUpdated(i, r);
  if (!isTransfer(i.kind))
    return false;
  std::optional<Held> from = held.at(p, i.ins[0]);
  PlaceInfo to = resolve(s, p, r);
  return from && from->of == to.bufferIndex && from->at == HeldParts::firstElem(to) &&
         !from->updated.empty();
}

/// Whether i rounds a master of b, which an optimizer, or i itself, has updated before, or brings here what was
/// rounded in another space. Where types are equal there is nothing to round.
bool Bindings::rounds(const SchedProgram &p, const Instr &i, PlaceRef r, const BucketInfo &b) {
  bool fused = i.kind == InstrKind::Launch && i.op == OpKind::AdamRound && r == i.outs[0];
  bool cast = i.kind == InstrKind::Launch && i.op == OpKind::Cast;
  if (!fused && ((!cast && !isTransfer(i.kind)) || i.ins.size() != 1))
    return false;
  PlaceRef operand = i.ins[fused ? 1 : 0];
  PlaceInfo at = resolve(s, p, r), place = resolve(s, p, operand);
  std::optional<Held> from = held.at(p, operand);
  auto m = masters.find(from ? from->of : place.bufferIndex);
  if (m == masters.end() || m->second != at.bufferIndex)
    return false;
  if (from && !fused && from->updated.empty())
    f.add("S8", p, i, "rounds " + nameText(b.master) + ", which no optimizer has updated yet");
  int64_t first = HeldParts::firstElem(at);
  if (!from || place.type->elems() != at.type->elems())
    f.add("S8", p, i, "rounds only a part of " + nameText(b.master));
  else if (from->at != first)
    f.add("S8", p, i,
          "rounds elements from " + num(from->at) + " of " + nameText(b.master) +
              " to those from " + num(first) + " of " + nameText(b.name));
  return true;
}

/// A write to running statistics: ranks keep the same ones, so they come from a sum over ranks.
void Bindings::statistics(const SchedProgram &p, const Instr &i, const PlaceInfo &at) {
  std::string name = nameText(at.buffer->name);
  if (p.name.rfind("micro.", 0) != 0)
    f.add("S8", p, i,
          "writes the running statistics " + name + ", which only a micro-batch may do");
  else if (!tracked.insert({p.name, at.bufferIndex}).second)
    f.add("S8", p, i, "writes the running statistics " + name + " a second time");
  else if (at.begin != at.buffer->offset || at.bytes != at.buffer->type.bytes())
    f.add("S8", p, i, "writes only a part of the running statistics " + name);
  else if (s.world() > 1 && i.kind != InstrKind::AllReduce)
    f.add("S8", p, i,
          "writes the running statistics " + name +
              " of this rank alone; expected the result of an all_reduce");
}

/// A write to an optimizer state or a scalar.
void Bindings::once(const SchedProgram &p, const Instr &i, PlaceRef r) {
  Access a = accessOf(s, p, r, true);
  bool weights = isUpdated(i, r);
  auto m = masters.find(a.buffer);
  bool back = isTransfer(i.kind) && m != masters.end(); // of what was updated elsewhere
  if (std::optional<Held> from = back ? held.at(p, i.ins[0]) : std::nullopt; from)
    back = from->of == a.buffer && from->at == HeldParts::firstElem(resolve(s, p, r)) &&
           !from->updated.empty();
  if (std::optional<Held> from = isTransfer(i.kind) ? held.at(p, i.ins[0]) : std::nullopt;
      from && from->of == a.buffer && from->at != HeldParts::firstElem(resolve(s, p, r)))
    f.add("S8", p, i,
          "brings elements from " + num(from->at) + " of " + nameText(*a.name) + " back to others");
  if (m != masters.end() && (weights || back))
    held.update(p, r, nameText(i.label));
  else if (weights || m != masters.end())
    f.add("S8", p, i,
          weights ? "updates " + nameText(*a.name) + ", which is neither weights nor their master"
                  : "writes the master " + nameText(*a.name) + ", which only an optimizer may do");
  if (p.name == "micro.mid")
    f.add("S8", p, i,
          "changes " + nameText(*a.name) + ", but this program runs many times in a window");
  auto &before = changes[a.buffer];
  for (const auto &[other, label] : before)
    if (overlap(a, other))
      f.add("S8", p, i,
            "changes " + nameText(*a.name) + ", which " + label +
                " has changed already in this window");
  before.emplace_back(a, p.name + "'s " + nameText(i.label));
}

/// Buffers that p's gathers and transfers fill with a whole bucket; null: with several.
void Bindings::gathered(const SchedProgram &p, std::map<int, const BucketInfo *> &holds) const {
  for (const Instr &i : p.instrs) {
    bool moves = isTransfer(i.kind) || i.kind == InstrKind::AllGather;
    if (!moves || i.ins[0].isView || i.outs[0].isView)
      continue;
    auto bucket = bucketOf.find(i.ins[0].index);
    auto moved = holds.find(i.ins[0].index);
    const BucketInfo *what = bucket != bucketOf.end() ? bucket->second
                             : moved != holds.end()   ? moved->second
                                                      : nullptr;
    if (!what)
      continue;
    auto [it, fresh] = holds.emplace(i.outs[0].index, what);
    if (!fresh && it->second != what)
      it->second = nullptr;
  }
}

/// Views of whole buckets span exactly one parameter, but for the slices of an update.
void Bindings::views(const SchedProgram &p, const std::map<int, const BucketInfo *> &holds) {
  std::set<int> computed; // with, other than element by element in an update
  for (const Instr &i : p.instrs) {
    bool cast = i.kind == InstrKind::Launch && i.op == OpKind::Cast;
    bool updates = p.name == "update" && (isTransfer(i.kind) || isOptimizer(i) || cast);
    for (const auto *list : {&i.ins, &i.outs})
      for (PlaceRef r : *list)
        if (r.isView && !updates)
          computed.insert(r.index);
  }
  for (size_t k = 0; k < p.views.size(); ++k) {
    const View &v = p.views[k];
    auto it = holds.find(v.buffer);
    if (it == holds.end() || !it->second || it->second->segments.empty() || v.own ||
        (p.name == "update" && !computed.count(static_cast<int>(k))))
      continue;
    const BucketInfo &b = *it->second;
    bool one = std::any_of(b.segments.begin(), b.segments.end(), [&](const SegmentInfo &g) {
      std::optional<int64_t> elems = checkedProduct(g.shape);
      return v.type.dtype == b.dtype && v.offset == g.at * byteSize(b.dtype) &&
             elems == v.type.elems();
    });
    if (!one)
      f.add("S8", v.line,
            p.name + ": " + nameText(v.name) + " looks at bytes " + num(v.offset) + "+" +
                num(v.type.bytes()) + " of bucket " + nameText(b.name) +
                ", which are no parameter's");
  }
}

void Bindings::writes(const SchedProgram &p) {
  std::map<int, std::string> fed;
  held.begin();
  for (const Instr &i : p.instrs) {
    alike(p, i);
    for (PlaceRef r : i.outs) {
      PlaceInfo at = resolve(s, p, r);
      bool input = at.buffer->kind == BufferKind::Input, feed = i.kind == InstrKind::Feed;
      if (at.buffer->kind == BufferKind::Param)
        weights(p, i, r);
      if (at.buffer->kind == BufferKind::State || at.buffer->kind == BufferKind::Scalar)
        once(p, i, r);
      if (at.buffer->kind == BufferKind::Const)
        f.add("S8", p, i, "writes the constant " + nameText(at.buffer->name));
      if (input != feed || (feed && r.isView))
        f.add("S8", p, i,
              feed ? "feeds " + nameText(*at.name) + ", which is no input buffer"
                   : "writes the input " + nameText(*at.name) + ", which only feed may do");
      if (auto [it, fresh] = fed.emplace(at.bufferIndex, nameText(i.label)); feed && !fresh)
        f.add("S8", p, i,
              "feeds " + nameText(*at.name) + ", which " + it->second + " has fed already");
    }
    held.follow(p, i);
  }
}

void Bindings::run() {
  for (const BucketInfo &b : s.buckets)
    bucket(b);
  for (size_t b = 0; b < s.persistent.size(); ++b)
    if (s.persistent[b].kind == BufferKind::Param && !bucketOf.count(static_cast<int>(b)))
      f.add("S8", s.persistent[b].line,
            nameText(s.persistent[b].name) + " is a param buffer without a `bucket` line");
  inputs();
  inits();
  for (const SchedProgram &p : s.programs)
    writes(p);
  std::map<int, const BucketInfo *> kept; // between programs
  for (const auto &[buffer, b] : bucketOf)
    if (!b->sharded)
      kept[buffer] = b;
  for (const SchedProgram &p : s.programs)
    gathered(p, kept);
  auto fixed = static_cast<int>(s.persistent.size());
  std::erase_if(kept, [&](const auto &entry) { return entry.first >= fixed; });
  for (const SchedProgram &p : s.programs) {
    std::map<int, const BucketInfo *> holds = kept;
    gathered(p, holds);
    views(p, holds);
  }
  for (const auto &[buffer, b] : bucketOf) {
    const Buffer &at = s.persistent[buffer];
    const Update &u = updates[buffer];
    for (const SchedProgram &p : s.programs)
      if (b->running && p.name.rfind("micro.", 0) == 0 && !tracked.count({p.name, buffer}))
        f.add("S8", at.line,
              "nothing in " + p.name + " updates the running statistics " + nameText(b->name));
    if (b->trainable && u.parts.empty())
      f.add("S8", at.line, "nothing in update changes the trainable bucket " + nameText(b->name));
    else if (u.last && !u.whole(at.type.bytes()))
      f.add("S8", *u.program, *u.last, "updates only a part of " + nameText(b->name));
    else if (u.ownSlice && !u.gathered)
      f.add("S8", at.line,
            "update changes this rank's slice of " + nameText(b->name) + " in " +
                u.parts.back().label + ", but never gathers the whole again");
  }
}

} // namespace

void verifyBindings(const Schedule &s, Findings &f) { Bindings(s, f).run(); }

} // namespace ds
