// SPDX-License-Identifier: Apache-2.0
#include "passes/RecomputeModel.h"

#include "passes/Recompute.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace ds {

namespace {

int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

const Value *rootOf(const Value *v) {
  while (v->def && v->def->info().isView())
    v = v->def->operands[0];
  return v;
}

// Live bytes of a program's temporaries on the device, at each instruction.
std::vector<int64_t> liveBytes(const SchedProgram &p) {
  std::vector<int64_t> live(p.instrs.size() + 1, 0);
  for (const Buffer &b : p.own)
    if (b.first <= b.last && b.type.space == Space::Device) {
      live[b.first] += rounded(b.bytes);
      live[b.last + 1] -= rounded(b.bytes);
    }
  for (size_t k = 1; k < live.size(); ++k)
    live[k] += live[k - 1];
  return live;
}

// The storages that the op's first result may take over, as assign-aliases does, if nothing reads them any more.
llvm::SmallVector<int, 2> mayTakeOver(const Op &op,
                                      const llvm::DenseMap<const Value *, int> &storageOf) {
  const Type &type = op.result()->type;
  llvm::DenseMap<const Value *, bool> fits;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Type &t = op.operands[i]->type;
    bool mine = mayOverwrite(op.kind, static_cast<int>(i)) && t.elems() == type.elems() &&
                byteSize(t.dtype) == byteSize(type.dtype);
    const Value *root = rootOf(op.operands[i]);
    fits.try_emplace(root, root->type.bytes() == type.bytes()).first->second &= mine;
  }
  llvm::SmallVector<int, 2> over;
  for (const Value *v : op.operands) // in their order
    if (auto it = storageOf.find(rootOf(v)); it != storageOf.end() && fits.lookup(rootOf(v)))
      over.push_back(it->second);
  return over;
}

} // namespace

RecomputeModel::RecomputeModel(Program &p, const Schedule &s, const Rates &r) {
  addLaunches(p);
  readTimes(s, r);
  readMoves(s);
}

void RecomputeModel::addLaunches(Program &p) {
  llvm::DenseMap<const Value *, int> storageOf;
  auto addOnce = [](llvm::SmallVectorImpl<int> &list, int item) {
    if (!llvm::is_contained(list, item))
      list.push_back(item);
  };
  llvm::DenseSet<const Value *> gradients; // of parameters: they live in their buckets
  for (const Value *v : llvm::drop_begin(p.returns))
    gradients.insert(rootOf(v));
  for (Op &op : p.ops) {
    if (op.info().isView())
      continue;
    int k = static_cast<int>(launches.size());
    Launch l{&op, canRecompute(op), {}, {}, {}, 0, 0, 0};
    firstBackward += op.phase != Phase::Backward;
    for (const Value *v : op.operands)
      if (auto it = storageOf.find(rootOf(v)); it != storageOf.end()) {
        addOnce(l.in, it->second);
        addOnce(storages[it->second].users, k);
      }
    for (int i = 0; i < op.numNamed(); ++i) {
      storageOf[op.result(i)] = static_cast<int>(storages.size());
      l.out.push_back(static_cast<int>(storages.size()));
      int64_t bytes = gradients.count(op.result(i)) ? 0 : rounded(op.result(i)->type.bytes());
      storages.push_back({bytes, k, {}, false});
    }
    if (!l.out.empty() && storages[l.out[0]].bytes > 0)
      l.over = mayTakeOver(op, storageOf);
    launches.push_back(std::move(l));
  }
}

namespace {

// Of every launch its instruction in p, or -1. A later pass may have made one of several: it has a result's name.
std::vector<int> instrsOf(const std::vector<RecomputeModel::Launch> &launches, const Schedule &s,
                          const SchedProgram &p) {
  std::map<std::string_view, int> index;
  for (size_t k = 0; k < p.instrs.size(); ++k) {
    index.emplace(p.instrs[k].label, static_cast<int>(k));
    for (size_t i = 1; p.instrs[k].kind == InstrKind::Launch && i < p.instrs[k].outs.size(); ++i)
      index.emplace(*resolve(s, p, p.instrs[k].outs[i]).name, static_cast<int>(k));
  }
  std::vector<int> at;
  for (const RecomputeModel::Launch &l : launches) {
    at.push_back(-1);
    for (const Value *v : l.op->results)
      if (auto it = index.find(v->name); at.back() < 0 && it != index.end())
        at.back() = it->second;
  }
  return at;
}

} // namespace

void RecomputeModel::readTimes(const Schedule &s, const Rates &r) {
  beside.assign(launches.size(), 0);
  for (const SchedProgram &p : s.programs) {
    if (!p.name.starts_with("micro."))
      continue;
    std::vector<int> at = instrsOf(launches, s, p), sharers(p.instrs.size(), 0);
    for (int k : at)
      if (k >= 0)
        ++sharers[k];
    for (size_t k = 0; k < launches.size(); ++k)
      if (at[k] >= 0) {
        const Instr &i = p.instrs[at[k]];
        launches[k].seconds = seconds(s, p, i, r) / sharers[at[k]];
        launches[k].work = i.work < 0 ? 0 : rounded(resolve(s, p, {false, i.work}).buffer->bytes);
      }
    readGathers(s, p, r);
  }
}

void RecomputeModel::readGathers(const Schedule &s, const SchedProgram &p, const Rates &r) {
  std::map<std::string_view, Launch *> byLabel;
  for (Launch &l : launches) {
    l.gather = 0; // of the last such program
    byLabel.emplace(l.op->result()->name, &l);
  }
  std::map<int, double> on; // buffers: what it took to bring them
  for (const Instr &i : p.instrs) {
    if (i.kind == InstrKind::AllGather || i.kind == InstrKind::Fetch || i.kind == InstrKind::Read) {
      int from = resolve(s, p, i.ins[0]).bufferIndex, to = resolve(s, p, i.outs[0]).bufferIndex;
      on[to] = on[from] + seconds(s, p, i, r);
      continue;
    }
    auto l = byLabel.find(i.label);
    if (l == byLabel.end())
      continue;
    for (PlaceRef in : i.ins)
      l->second->gather += std::exchange(on[resolve(s, p, in).bufferIndex], 0);
  }
}

void RecomputeModel::readMoves(const Schedule &s) {
  std::map<std::string_view, int> byName;
  for (const Launch &l : launches)
    for (int v : l.out)
      byName[l.op->results[v - l.out[0]]->name] = v;
  for (const SchedProgram &p : s.programs)
    for (const Instr &i : p.instrs)
      if (i.kind == InstrKind::Offload && p.name.starts_with("micro."))
        if (auto it = byName.find(*resolve(s, p, i.ins[0]).name); it != byName.end())
          storages[it->second].isMoved = true;
}

void RecomputeModel::readMemory(const Schedule &s) {
  std::vector<bool> none(launches.size(), false);
  Load load0 = load(none);
  for (const SchedProgram &p : s.programs) {
    if (!p.name.starts_with("micro."))
      continue;
    std::vector<int> instrs = instrsOf(launches, s, p);
    std::vector<int64_t> live = liveBytes(p);
    // An instruction that the graph does not have yet counts to the launch before it.
    int at = 0;
    int64_t before = 0;
    for (size_t k = 0; k < launches.size(); ++k) {
      if (int mine = instrs[k]; mine >= 0) {
        int64_t most = live[mine];
        auto next = std::find_if(instrs.begin() + static_cast<int64_t>(k), instrs.end(),
                                 [&](int other) { return other > mine; });
        int end = next == instrs.end() ? static_cast<int>(p.instrs.size()) : *next;
        for (at = std::max(at, mine); at < end; ++at)
          most = std::max(most, live[at]);
        before = most - load0.at[k];
      }
      beside[k] = std::max(beside[k], before);
    }
  }
}

int64_t RecomputeModel::Load::peak() const {
  int64_t most = 0;
  for (int64_t bytes : at)
    most = std::max(most, bytes);
  return most;
}

RecomputeModel::Load RecomputeModel::load(const std::vector<bool> &again) const {
  auto n = static_cast<int>(launches.size());
  Load out;
  // Where each repeated launch stands, from the back: before which launch.
  std::vector<int> anchor(firstBackward, n);
  for (int k = firstBackward; k-- > 0;)
    if (again[k] && launches[k].repeatable)
      for (int v : launches[k].out)
        for (int u : storages[v].users)
          anchor[k] = std::min(anchor[k], u >= firstBackward ? u : anchor[u]);
  // Times: launch k stands at slot[k], the repeated ones in front of it.
  std::vector<int> slot(n), againSlot(firstBackward, -1), count(n + 1, 0);
  for (int k = 0; k < firstBackward; ++k)
    count[anchor[k]] += anchor[k] < n;
  int time = 0;
  std::vector<int> nextSlot(n);
  for (int k = 0; k < n; ++k) {
    nextSlot[k] = time;
    time += count[k];
    slot[k] = time++;
  }
  for (int k = 0; k < firstBackward; ++k)
    if (anchor[k] < n)
      againSlot[k] = nextSlot[anchor[k]]++;

  std::vector<int> launchAt(time);
  for (int k = 0; k < n; ++k) {
    launchAt[slot[k]] = k;
    if (k < firstBackward && againSlot[k] >= 0)
      launchAt[againSlot[k]] = k;
  }
  std::vector<bool> taken(time, false); // by time: the launch's result lies where an operand did
  // The last time at which v counts beside what the launch there makes.
  auto end = [&](int v, int last) {
    if (taken[last] || !llvm::is_contained(launches[launchAt[last]].over, v))
      return last;
    taken[last] = true;
    return last - 1;
  };
  std::vector<int64_t> change(time + 1, 0);
  auto live = [&](int64_t bytes, int first, int last) {
    change[first] += bytes;
    change[last + 1] -= bytes;
  };
  for (size_t v = 0; v < storages.size(); ++v) {
    const Storage &s = storages[v];
    int maker = s.maker, first = slot[maker], last = first, lastAgain = -1, back = time;
    bool repeated = maker < firstBackward && againSlot[maker] >= 0;
    bool moved = s.isMoved && maker < firstBackward && !repeated;
    for (int u : s.users) {
      bool forward = u < firstBackward;
      if (forward)
        last = std::max(last, slot[u]);
      int late = forward ? againSlot[u] : slot[u];
      (repeated || moved ? lastAgain : last) = std::max(repeated || moved ? lastAgain : last, late);
      if (late >= 0)
        back = std::min(back, late);
    }
    auto id = static_cast<int>(v);
    live(s.bytes, first, moved ? last : end(id, last)); // a transfer reads it yet
    if (repeated)
      live(s.bytes, againSlot[maker], end(id, std::max(lastAgain, againSlot[maker])));
    else if (moved && lastAgain >= 0)
      live(s.bytes, back, end(id, lastAgain));
  }

  out.at.assign(n, 0);
  out.isRepeated.assign(n, false);
  std::vector<int64_t> work(time, 0);
  for (int k = 0; k < firstBackward; ++k)
    if (againSlot[k] >= 0) {
      out.isRepeated[k] = true;
      out.seconds += launches[k].seconds;
      work[againSlot[k]] = launches[k].work;
    }
  int64_t now = 0;
  for (int k = 0, t = 0; k < n; ++k)
    for (; t <= slot[k]; ++t) {
      now += change[t];
      out.at[k] = std::max(out.at[k], now + work[t] + beside[k]);
    }
  return out;
}

} // namespace ds
