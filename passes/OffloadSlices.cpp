// SPDX-License-Identifier: Apache-2.0
//
// Large updates on the host run slice by slice (zero_optimization.sub_group_size), so that what passes through host memory
// is some slices, not some buckets. A step on the schedule, since in the graph a symbol changes as a whole:
//   m.in = read b.m; adam .., m.in; write m.in -> b.m     ->     for each slice k, some of them under way at once:
//   m.in.k = read b.m+k; adam .., m.in.k; write m.in.k -> b.m+k
// A temporary that only such instructions touch is cut as well. What cannot be cut stays whole behind the last slice: the fetch
// into a rank's own slice of a bucket, and gathers.
#include "passes/Emit.h"
#include "passes/Offload.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <map>

namespace ds {

namespace {

/// Fewest elements of a slice that the planner makes by itself, and the part of the largest update that one is.
constexpr int64_t kLeastElems = 1 << 20, kPart = 16;

/// The instructions of one bucket's update, by when they are due; indices into the program.
struct Staged {
  std::vector<int> before, at, behind;
  int64_t elems = 0, piece = 0; // of the optimizer; of each slice but the last
  int64_t slices() const { return (elems + piece - 1) / piece; }
};

class Slicer {
public:
  Slicer(const Schedule &s, SchedProgram &p, const PlanConfig &c)
      : schedule(s), update(p), config(c) {}

  Status run() {
    collect();
    if (stages.empty() || !choosePieces())
      return {};
    findCut();
    return rewrite();
  }

private:
  int bufferOf(PlaceRef r) const { return r.isView ? update.views[r.index].buffer : r.index; }
  bool isTemp(int buffer) const { return buffer >= static_cast<int>(schedule.persistent.size()); }
  static bool isUpdate(const Instr &i) {
    return i.kind == InstrKind::Launch && i.stream == Stream::Host &&
           info(i.op).trait == Trait::Optimizer;
  }

  // What an update needs is read for it alone; what follows it carries on what it wrote.
  void collect() {
    llvm::DenseMap<int, int> readInto; // temporaries, by the read that fills them
    llvm::DenseMap<int, int> stageOf;  // by buffer that a stage has written
    auto count = static_cast<int>(update.instrs.size());
    for (int k = 0; k < count; ++k) {
      const Instr &i = update.instrs[k];
      if (i.kind == InstrKind::Read)
        readInto[bufferOf(i.outs[0])] = k;
      int stage = -1;
      if (isUpdate(i)) {
        stage = static_cast<int>(stages.size());
        Staged &s = stages.emplace_back();
        s.elems = resolve(schedule, update, i.ins[1]).type->elems();
        s.at.push_back(k);
        for (int o = 0; o < bucketOperands(i.op); ++o)
          if (auto it = readInto.find(bufferOf(i.ins[o])); it != readInto.end())
            s.before.push_back(it->second);
      } else if (bool host = i.kind == InstrKind::Launch && i.op == OpKind::Cast &&
                             i.stream == Stream::Host;
                 host || i.kind == InstrKind::Fetch || i.kind == InstrKind::Write ||
                 i.kind == InstrKind::AllGather) {
        auto it = stageOf.find(bufferOf(i.ins[0]));
        if (it == stageOf.end())
          continue;
        stage = it->second;
        (host ? stages[stage].at : stages[stage].behind).push_back(k);
      }
      if (stage >= 0)
        for (PlaceRef r : i.outs)
          stageOf[bufferOf(r)] = stage;
    }
  }

  // The places that hold an element of the bucket each: of an optimizer, those that it is applied to.
  static size_t cutOperands(const Instr &i) {
    return isUpdate(i) ? static_cast<size_t>(bucketOperands(i.op)) : i.ins.size();
  }

  bool isCuttable(const Instr &i, int64_t elems) const {
    auto fits = [&](PlaceRef r) {
      PlaceInfo at = resolve(schedule, update, r);
      return at.rankStride == 0 && !(r.isView && update.views[r.index].own) &&
             at.strides->empty() && at.type->dims.size() == 1 && at.type->elems() == elems;
    };
    auto ins = llvm::ArrayRef(i.ins).take_front(cutOperands(i));
    return i.kind != InstrKind::AllGather && i.work < 0 && llvm::all_of(ins, fits) &&
           llvm::all_of(i.outs, fits);
  }

  template <typename Fn> void forEach(const Staged &s, Fn fn) const {
    for (const auto *list : {&s.before, &s.at, &s.behind})
      for (int k : *list)
        fn(k);
  }

  bool choosePieces() {
    int64_t largest = 0;
    bool passes = false; // something passes through host memory
    for (const Staged &s : stages) {
      largest = std::max(largest, s.elems);
      forEach(s, [&](int k) {
        for (PlaceRef r : update.instrs[k].outs)
          passes |=
              isTemp(bufferOf(r)) && resolve(schedule, update, r).buffer->type.space == Space::Host;
      });
    }
    int64_t most = config.subGroupSize, fewer = std::max(kLeastElems, largest / kPart);
    if (passes && largest > config.offloadBuffers * fewer) // else as much is under way at once
      most = std::min(most, fewer);
    bool any = false;
    for (Staged &s : stages) {
      int64_t quantum = quantumOf(s), slices = (s.elems + most - 1) / std::max<int64_t>(most, 1);
      auto roundUp = [&](int64_t n) { return (n + quantum - 1) / quantum * quantum; };
      s.piece = std::max(quantum, roundUp((s.elems + slices - 1) / std::max<int64_t>(slices, 1)));
      if (!isCuttable(update.instrs[s.at.front()], s.elems))
        s.piece = std::max<int64_t>(s.elems, 1);
      any |= s.slices() > 1;
    }
    return any;
  }

  // Slices start at whole blocks where they move from or to nvme.
  int64_t quantumOf(const Staged &s) const {
    int64_t quantum = kQuantum;
    forEach(s, [&](int k) {
      const Instr &i = update.instrs[k];
      if (i.kind == InstrKind::Read || i.kind == InstrKind::Write)
        quantum = std::max(quantum,
                           kNvmeBlock / byteSize(resolve(schedule, update, i.outs[0]).type->dtype));
    });
    return quantum;
  }

  void findCut() {
    for (const Staged &s : stages)
      if (s.slices() > 1)
        forEach(s, [&](int k) {
          if (isCuttable(update.instrs[k], s.elems))
            cut.insert(k);
        });
    llvm::DenseSet<int> whole;
    auto keep = [&](PlaceRef r) { whole.insert(bufferOf(r)); };
    for (int k = 0; k < static_cast<int>(update.instrs.size()); ++k) {
      const Instr &i = update.instrs[k];
      bool isCut = cut.contains(k);
      for (size_t o = 0; o < i.ins.size(); ++o)
        if (!isCut || o >= cutOperands(i) || i.ins[o].isView)
          keep(i.ins[o]);
      for (PlaceRef r : i.outs)
        if (!isCut || r.isView)
          keep(r);
    }
    for (PlaceRef r : update.returns)
      keep(r);
    for (const Staged &s : stages)
      forEach(s, [&](int k) {
        for (PlaceRef r : cut.contains(k) ? update.instrs[k].outs : std::vector<PlaceRef>())
          if (int b = bufferOf(r); isTemp(b) && !whole.contains(b) && !pieces.contains(b)) {
            Buffer &first = update.own[b - schedule.persistent.size()];
            first.type.dims[0] = s.piece;
            first.bytes = first.type.bytes();
            pieces[b] = {b};
          }
      });
  }

  static std::string unique(llvm::StringSet<> &taken, const std::string &base) {
    std::string name = base;
    for (int n = 2; !taken.insert(name).second; ++n)
      name = base + "." + std::to_string(n);
    return name;
  }

  // Slice k of a place: a temporary of its own, or a window.
  PlaceRef slice(PlaceRef r, const Staged &s, int64_t k) {
    PlaceInfo at = resolve(schedule, update, r);
    Type type = *at.type;
    type.dims[0] = std::min(s.piece, s.elems - k * s.piece);
    if (auto it = pieces.find(bufferOf(r)); it != pieces.end()) {
      if (k < static_cast<int64_t>(it->second.size()))
        return {false, it->second[k]};
      Buffer b = update.own[bufferOf(r) - schedule.persistent.size()];
      b.name = unique(names, b.name);
      b.type = type;
      b.bytes = type.bytes();
      update.own.push_back(b);
      it->second.push_back(static_cast<int>(schedule.persistent.size() + update.own.size()) - 1);
      return {false, it->second.back()};
    }
    View v;
    v.buffer = at.bufferIndex;
    v.offset = (r.isView ? update.views[r.index].offset : 0) + k * s.piece * byteSize(type.dtype);
    v.type = type;
    auto [it, isNew] = windows.try_emplace({v.buffer, v.offset, v.type.dtype}, update.views.size());
    if (isNew) {
      v.name = unique(names, *at.name);
      update.views.push_back(v);
    }
    return {true, static_cast<int>(it->second)};
  }

  Instr slice(const Instr &whole, const Staged &s, int64_t k) {
    Instr i = whole;
    for (size_t o = 0; o < cutOperands(whole); ++o)
      i.ins[o] = slice(whole.ins[o], s, k);
    for (PlaceRef &r : i.outs)
      r = slice(r, s, k);
    if (k > 0)
      i.label = unique(labels, whole.label);
    return i;
  }

  Status rewrite() {
    for (const Buffer &b : schedule.persistent)
      names.insert(b.name);
    for (const Buffer &b : update.own)
      names.insert(b.name);
    for (const View &v : update.views)
      names.insert(v.name);
    for (const Instr &i : update.instrs)
      labels.insert(i.label);
    int first = INT_MAX, last = -1, members = 0;
    for (const Staged &s : stages)
      forEach(s, [&](int k) {
        first = std::min(first, k);
        last = std::max(last, k);
        ++members;
      });
    if (last - first + 1 != members)
      return Status::internal("offload-slices: something else stands among the host's updates");
    std::vector<Instr> old = std::move(update.instrs), out(old.begin(), old.begin() + first);
    append(old, out);
    int shift = static_cast<int>(out.size()) - (last + 1);
    for (size_t k = last + 1; k < old.size(); ++k)
      out.push_back(std::move(old[k]));
    for (Instr &i : out) // waits for what leaves the device, which is none of those here
      for (int &t : i.throttles)
        t += t > last ? shift : 0;
    update.instrs = std::move(out);
    return {};
  }

  void append(const std::vector<Instr> &old, std::vector<Instr> &out) {
    struct Unit {
      const Staged *stage;
      int64_t slice;
    };
    std::vector<Unit> units;
    for (const Staged &s : stages)
      for (int64_t k = 0; k < s.slices(); ++k)
        units.push_back({&s, k});
    auto place = [&](const Unit &u, const std::vector<int> &list) {
      for (int k : list)
        if (u.stage->slices() > 1 && cut.contains(k))
          out.push_back(slice(old[k], *u.stage, u.slice));
        else if (u.slice + 1 == u.stage->slices())
          out.push_back(old[k]);
    };
    bool reads = llvm::any_of(stages, [](const Staged &s) { return !s.before.empty(); });
    inUpdateOrder(
        static_cast<int64_t>(units.size()), config.offloadBuffers, reads,
        [&](int64_t u) { place(units[u], units[u].stage->before); },
        [&](int64_t u) { place(units[u], units[u].stage->at); },
        [&](int64_t u) { place(units[u], units[u].stage->behind); });
  }

  const Schedule &schedule;
  SchedProgram &update;
  const PlanConfig &config;
  std::vector<Staged> stages;
  llvm::DenseSet<int> cut; // instructions
  std::map<int, std::vector<int>>
      pieces; // of temporaries that are cut: the buffers of their slices
  std::map<std::tuple<int, int64_t, DType>, size_t> windows;
  llvm::StringSet<> names, labels;
};

} // namespace

Status sliceUpdates(const Schedule &s, SchedProgram &update, const PlanConfig &c) {
  return Slicer(s, update, c).run();
}

} // namespace ds
