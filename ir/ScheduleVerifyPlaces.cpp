// SPDX-License-Identifier: Apache-2.0
//
// S1: every index, size and offset is sane, so that later rules and the loader can compute with them.
// S7: operands and destinations of one instruction lie in one space.
#include "ir/ScheduleNames.h"
#include "ir/ScheduleVerify.h"
#include "ir/Shapes.h"
#include "ir/SourceText.h"

#include <algorithm>
#include <unordered_set>

namespace ds {

namespace {

std::string num(int64_t n) { return std::to_string(n); }

std::string range(int64_t begin, int64_t end) { return "[" + num(begin) + "," + num(end) + ")"; }

/// Size of a row-major tensor, or nullopt if its dimensions are out of range.
std::optional<int64_t> typeBytes(const Type &t) {
  std::optional<int64_t> elems = checkedProduct(t.dims);
  if (!elems || *elems > kMaxElems || t.dims.size() > kMaxRank)
    return std::nullopt;
  return *elems * byteSize(t.dtype);
}

class Places {
public:
  Places(const Schedule &s, Findings &f) : s(s), f(f) {}
  void run();

private:
  void arenas();
  void persistentOverlap();
  void buffer(const Buffer &b, bool persistent, size_t instrs);
  void view(const SchedProgram &p, const View &v);
  void program(const SchedProgram &p);
  void instr(const SchedProgram &p, const Instr &i);
  void counts(const SchedProgram &p, const Instr &i);
  void destination(const SchedProgram &p, const Instr &i, PlaceRef r);
  void spaces(const SchedProgram &p, const Instr &i);
  bool known(const SchedProgram &p, PlaceRef r) const;
  const ArenaInfo *arena(Space space) const {
    for (const ArenaInfo &a : s.arenas)
      if (a.space == space)
        return &a;
    return nullptr;
  }

  const Schedule &s;
  Findings &f;
  int64_t world = 1;
  bool sane = true; // no finding yet about buffers and views: resolve() may be called
};

void Places::arenas() {
  for (size_t i = 0; i < s.arenas.size(); ++i) {
    const ArenaInfo &a = s.arenas[i];
    std::string name = "arena " + std::string(text(a.space));
    if (arena(a.space) != &a)
      f.add("S1", 0, name + " is declared twice");
    if (a.align < 64 || a.align > (1 << 30) || (a.align & (a.align - 1)))
      f.add("S1", 0,
            name + ": align must be a power of two from 64 to 2^30, found " + num(a.align));
    if (a.persistentBytes < 0 || a.persistentBytes > a.bytes || a.bytes > kMaxBytes)
      f.add("S1", 0,
            name + ": persistent=" + num(a.persistentBytes) +
                " must lie in [0, bytes=" + num(a.bytes) + "], and bytes in [0, 2^60]");
    if (a.load < 0 || a.load > a.bytes)
      f.add("S1", 0,
            name + ": load=" + num(a.load) + " must lie in [0, bytes=" + num(a.bytes) + "]");
  }
}

/// Type and bytes agree, and the buffer lies inside its section of its arena.
void Places::buffer(const Buffer &b, bool persistent, size_t instrs) {
  std::string name = nameText(b.name);
  if (b.name.empty())
    return f.add("S1", b.line, "a buffer has no name");
  if (isPersistent(b.kind) != persistent)
    return f.add("S1", b.line,
                 name + " is of kind " + std::string(text(b.kind)) +
                     (persistent ? ", which belongs inside a program"
                                 : ", which belongs outside of programs"));
  std::optional<int64_t> bytes = typeBytes(b.type);
  if (!bytes)
    return f.add("S1", b.line, name + ": the type is out of range");
  const ArenaInfo *a = arena(b.type.space);
  if (!a)
    return f.add("S1", b.line, name + ": there is no arena " + std::string(text(b.type.space)));
  if (b.bytes < *bytes || b.bytes > kMaxBytes)
    f.add("S1", b.line,
          name + " has " + num(b.bytes) + " bytes, but its type " + b.type.str() + " needs " +
              num(*bytes));
  int64_t low = persistent ? 0 : a->persistentBytes;
  int64_t high = persistent ? a->persistentBytes : a->bytes;
  if (b.offset < low || b.offset > high || b.bytes > high - b.offset)
    f.add("S1", b.line,
          name + " takes bytes [" + num(b.offset) + ",+" + num(b.bytes) + "), outside of the " +
              (persistent ? "persistent" : "temporary") + " section " + range(low, high) +
              " of arena " + std::string(text(a->space)));
  if (a->align > 0 && b.offset % a->align)
    f.add("S1", b.line,
          name + " starts at " + num(b.offset) + ", which is no multiple of " + num(a->align));
  auto last = static_cast<int64_t>(instrs);
  if (!persistent && (b.first < 0 || b.first > b.last || b.last >= last))
    f.add("S1", b.line,
          name + ": the interval [" + num(b.first) + ", " + num(b.last) +
              "] must be increasing and inside the program's " + num(last) + " instructions");
}

void Places::persistentOverlap() {
  std::vector<const Buffer *> order;
  for (const Buffer &b : s.persistent)
    if (b.bytes > 0)
      order.push_back(&b);
  std::stable_sort(order.begin(), order.end(), [](const Buffer *a, const Buffer *b) {
    return std::pair(a->type.space, a->offset) < std::pair(b->type.space, b->offset);
  });
  for (size_t i = 1; i < order.size(); ++i) {
    const Buffer &a = *order[i - 1], &b = *order[i];
    if (a.type.space == b.type.space && a.offset + a.bytes > b.offset)
      f.add("S1", b.line,
            nameText(b.name) + " " + range(b.offset, b.offset + b.bytes) + " overlaps " +
                nameText(a.name) + " " + range(a.offset, a.offset + a.bytes) +
                "; persistent buffers must not share bytes");
  }
}

/// Bytes up to the end of the last element, or nullopt if a number is out of range.
std::optional<int64_t> windowEnd(const View &v) {
  std::optional<int64_t> bytes = typeBytes(v.type);
  if (!bytes || v.strides.empty())
    return bytes;
  if (v.strides.size() != v.type.dims.size())
    return std::nullopt;
  int64_t last = 0;
  for (size_t i = 0; i < v.strides.size(); ++i) {
    int64_t step;
    if (v.strides[i] < 0 || v.strides[i] > kMaxBytes ||
        __builtin_mul_overflow(v.strides[i], std::max<int64_t>(v.type.dims[i] - 1, 0), &step) ||
        step > kMaxBytes)
      return std::nullopt;
    last += step;
    if (last > kMaxBytes)
      return std::nullopt;
  }
  return *bytes == 0 ? 0 : checkedProduct({last + 1}, byteSize(v.type.dtype));
}

void Places::view(const SchedProgram &p, const View &v) {
  std::string name = p.name + ": " + nameText(v.name);
  if (v.name.empty())
    return f.add("S1", v.line, p.name + ": a view has no name");
  auto count = static_cast<int>(s.persistent.size() + p.own.size());
  if (v.buffer < 0 || v.buffer >= count)
    return f.add("S1", v.line,
                 name + " is a view of buffer number " + num(v.buffer) + ", but there are " +
                     num(count));
  const Buffer &b = bufferAt(s, p, v.buffer);
  std::optional<int64_t> end = windowEnd(v);
  if (!end)
    return f.add("S1", v.line, name + ": the type or its strides are out of range");
  if (v.own && !v.strides.empty())
    return f.add("S1", v.line, name + " is a rank's own slice and cannot have strides");
  if (v.own)
    end = checkedProduct({*end, world});
  if (v.offset < 0 || !end || v.offset > b.bytes || *end > b.bytes - v.offset)
    f.add("S1", v.line,
          name + " reaches " + num(v.offset) + "+" + (end ? num(*end) : "2^60") + " bytes into " +
              nameText(b.name) + ", which has " + num(b.bytes));
  if (v.offset % byteSize(v.type.dtype))
    f.add("S1", v.line,
          name + " starts at byte " + num(v.offset) + ", which is no multiple of its " +
              num(byteSize(v.type.dtype)) + "-byte elements");
  if (v.type.space != b.type.space)
    f.add("S7", v.line,
          name + " is in " + std::string(text(v.type.space)) + ", but its buffer " +
              nameText(b.name) + " is in " + std::string(text(b.type.space)));
}

bool Places::known(const SchedProgram &p, PlaceRef r) const {
  size_t count = r.isView ? p.views.size() : s.persistent.size() + p.own.size();
  return r.index >= 0 && static_cast<size_t>(r.index) < count;
}

/// How many operands and destinations the operation takes.
void Places::counts(const SchedProgram &p, const Instr &i) {
  int ins = static_cast<int>(i.ins.size()), outs = static_cast<int>(i.outs.size());
  int minIn = 1, maxIn = 1, wantOuts = 1;
  if (i.kind == InstrKind::Feed)
    minIn = maxIn = 0;
  if (i.kind == InstrKind::Launch) {
    const OpInfo &op = info(i.op);
    minIn = op.minIn, maxIn = op.maxIn, wantOuts = op.outs;
    if (!op.isLaunch())
      return f.add("S4", p, i, "launches " + std::string(op.text) + ", which is no kernel");
  }
  if (ins < minIn || (maxIn >= 0 && ins > maxIn))
    f.add("S1", p, i,
          "has " + num(ins) + " operands, expected " +
              (maxIn < 0        ? "at least " + num(minIn)
               : minIn == maxIn ? num(minIn)
                                : num(minIn) + " to " + num(maxIn)));
  if (outs != wantOuts || i.named < 0 || i.named > outs)
    f.add("S1", p, i, "has " + num(outs) + " destinations, expected " + num(wantOuts));
}

/// Elements of a destination lie at different bytes.
void Places::destination(const SchedProgram &p, const Instr &i, PlaceRef r) {
  if (!r.isView || p.views[r.index].strides.empty())
    return;
  const View &v = p.views[r.index];
  std::vector<std::pair<int64_t, int64_t>> steps; // stride, dimension
  for (size_t d = 0; d < v.strides.size(); ++d)
    if (v.type.dims[d] > 1)
      steps.emplace_back(v.strides[d], v.type.dims[d]);
  std::sort(steps.begin(), steps.end());
  int64_t reach = 0; // largest element offset that smaller strides make
  for (auto [stride, dim] : steps) {
    if (stride <= reach)
      return f.add("S1", p, i,
                   "writes " + nameText(v.name) + ", whose strides " + dimsText(v.strides) +
                       " make elements overlap");
    reach += stride * (dim - 1);
  }
}

void Places::spaces(const SchedProgram &p, const Instr &i) {
  if (isTransfer(i.kind))
    return; // rule S13
  const Buffer *first = nullptr;
  bool mixed = false;
  auto check = [&](const Buffer &b) {
    if (first && first->type.space != b.type.space) {
      mixed = true;
      f.add("S7", p, i,
            "mixes spaces: " + nameText(first->name) + " is in " +
                std::string(text(first->type.space)) + ", " + nameText(b.name) + " is in " +
                std::string(text(b.type.space)));
    }
    first = first ? first : &b;
  };
  for (PlaceRef r : i.outs)
    check(*resolve(s, p, r).buffer);
  for (PlaceRef r : i.ins)
    check(*resolve(s, p, r).buffer);
  if (i.work >= 0)
    check(bufferAt(s, p, i.work));
  if (!first || mixed)
    return;
  Space space = first->type.space;
  bool host = i.kind == InstrKind::Launch && space == Space::Host;
  if (space != Space::Device && !host)
    f.add("S7", p, i,
          "touches " + nameText(first->name) + " in " + std::string(text(space)) +
              ", where only transfers" + (space == Space::Host ? " and launches" : "") + " may");
  else if (i.kind == InstrKind::Launch && i.stream != launchStream(space))
    f.add("S7", p, i,
          "works on " + nameText(first->name) + " in " + std::string(text(space)) +
              " memory and belongs on stream " + std::string(text(launchStream(space))));
}

void Places::instr(const SchedProgram &p, const Instr &i) {
  auto all = [&](const std::vector<PlaceRef> &refs) {
    return std::all_of(refs.begin(), refs.end(), [&](PlaceRef r) { return known(p, r); });
  };
  if (!all(i.ins) || !all(i.outs) || (i.work >= 0 && !known(p, {false, i.work})))
    return f.add("S1", p, i, "names a buffer or view that does not exist");
  if (i.origin >= static_cast<int>(s.origins.size()))
    return f.add("S1", p, i,
                 "has origin " + num(i.origin) + ", but the table has " + num(s.origins.size()));
  if (!sane)
    return; // what follows resolves places
  counts(p, i);
  for (PlaceRef r : i.outs)
    destination(p, i, r);
  auto isScratch = [&](PlaceRef r) { return resolve(s, p, r).buffer->kind >= BufferKind::Work; };
  if (std::any_of(i.ins.begin(), i.ins.end(), isScratch) ||
      std::any_of(i.outs.begin(), i.outs.end(), isScratch))
    f.add("S1", p, i, "has a work or staging buffer as operand or destination");
  if (i.work >= 0) {
    BufferKind want = isCollective(i.kind) ? BufferKind::Staging : BufferKind::Work;
    const Buffer &b = bufferAt(s, p, i.work);
    if (b.kind != want)
      f.add("S1", p, i,
            "has " + nameText(b.name) + " as its workspace, which is of kind " +
                std::string(text(b.kind)) + ", expected " + std::string(text(want)));
  }
  spaces(p, i);
}

void Places::program(const SchedProgram &p) {
  std::unordered_set<std::string> names;
  for (const Buffer &b : s.persistent)
    names.insert(b.name);
  auto unique = [&](const std::string &name, int line) {
    if (!names.insert(name).second)
      f.add("S1", line, p.name + ": the name " + nameText(name) + " is declared twice");
  };
  int before = f.size();
  for (const Buffer &b : p.own) {
    unique(b.name, b.line);
    buffer(b, false, p.instrs.size());
  }
  for (const View &v : p.views) {
    unique(v.name, v.line);
    view(p, v);
  }
  sane &= f.size() == before;
  for (const Instr &i : p.instrs)
    instr(p, i);
  if (p.returns.size() != p.returnNames.size() ||
      !std::all_of(p.returns.begin(), p.returns.end(), [&](PlaceRef r) { return known(p, r); }))
    f.add("S1", 0, p.name + ": returns a buffer or view that does not exist");
}

void Places::run() {
  for (const auto &[axis, size] : s.mesh)
    if (size < 1 || size > (1 << 20) || (world *= size) > (1 << 20))
      return f.add("S1", 0,
                   "mesh axis " + nameText(axis) + " has " + num(size) +
                       " ranks; there must be 1 to 2^20 in all");
  arenas();
  std::unordered_set<std::string> names;
  for (const Buffer &b : s.persistent) {
    if (!names.insert(b.name).second)
      f.add("S1", b.line, "the name " + nameText(b.name) + " is declared twice");
    buffer(b, true, 0);
  }
  if (f.none())
    persistentOverlap();
  sane = f.none();
  for (const SchedProgram &p : s.programs)
    program(p);
}

} // namespace

void verifyPlaces(const Schedule &s, Findings &f) { Places(s, f).run(); }

} // namespace ds
