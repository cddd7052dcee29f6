// SPDX-License-Identifier: Apache-2.0
//
// Where no choice of what each block keeps fits: blocks whose inputs are computed again, too (RecomputeNested.h), and the
// sweeps over the forward phase that do so.
#include "passes/RecomputeAuto.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>

namespace ds {

namespace {

class Nester {
public:
  Nester(const RecomputeModel &m, const BlockChain &c, bool addUp) : model(m), chain(c) {
    for (size_t b = 0; b < chain.blocks.size(); ++b)
      for (int l : chain.blocks[b])
        blockOf[l] = static_cast<int>(b);
    for (size_t b = 0; b < chain.blocks.size(); ++b)
      blocks.push_back(block(static_cast<int>(b), addUp));
  }

  RecomputeChooser::Choice choose(int64_t bytes) {
    RecomputeChooser::Choice c;
    std::optional<NestedPlan> plan = nestedPlan(blocks, bytes, blocks.size() > 64 ? 128 : 512);
    if (!plan)
      return c;
    c.fits = true;
    c.peak = bytes;
    c.seconds = plan->seconds;
    again.assign(model.firstBackward, false);
    for (size_t k = 0; k < plan->steps.size(); ++k)
      step(plan->steps, k, c.sweeps);
    for (int l = 0; l < model.firstBackward; ++l)
      if (again[l])
        c.values.push_back(nameOf(l));
    return c;
  }

private:
  const std::string &nameOf(int launch) const { return model.launches[launch].op->result()->name; }

  // Calls fn(block) for the other blocks whose forward reads v.
  template <typename Fn> void forEachReader(int v, int b, Fn fn) const {
    for (int u : model.storages[v].users)
      if (auto it = blockOf.find(u); it != blockOf.end() && it->second != b)
        fn(it->second);
  }
  bool leaves(int v, int b) const {
    bool any = false;
    forEachReader(v, b, [&](int) { any = true; });
    return any;
  }
  bool makesOutput(int launch, int b) const {
    return llvm::any_of(model.launches[launch].out, [&](int v) { return leaves(v, b); });
  }

  NestedBlock block(int b, bool addUp) const {
    NestedBlock n;
    n.through = true;
    llvm::DenseSet<int> needed; // for its output: launches
    for (int l : llvm::reverse(chain.blocks[b])) {
      const RecomputeModel::Launch &launch = model.launches[l];
      bool reads = llvm::any_of(launch.out, [&](int v) {
        return leaves(v, b) ||
               llvm::any_of(model.storages[v].users, [&](int u) { return needed.contains(u); });
      });
      if (!reads)
        continue;
      needed.insert(l);
      n.through &= launch.repeatable;
    }
    for (int l : chain.blocks[b])
      for (int v : model.launches[l].out)
        forEachReader(v, b, [&](int reader) { n.through &= reader == b + 1; });
    double gathers = 0;
    for (int l : needed) {
      n.forward += model.launches[l].seconds;
      gathers += model.launches[l].gather;
    }
    n.forward = addUp ? n.forward + gathers : std::max(n.forward, gathers);
    for (int l : chain.blocks[b])
      for (int v : model.launches[l].out)
        if (leaves(v, b))
          n.out += model.storages[v].bytes;
    n.pass = chain.pass[b] + n.out;
    for (size_t o = 0; o < chain.options[b].size(); ++o) {
      n.options.push_back(chain.options[b][o]);
      n.options.back().saved = 0;
      for (int l : kept(b, static_cast<int>(o)))
        for (int v : model.launches[l].out)
          n.options.back().saved += model.storages[v].isMoved ? 0 : model.storages[v].bytes;
    }
    return n;
  }

  // The launches whose results an option keeps: what backward reads, or a repeated launch, or another block.
  std::vector<int> kept(int b, int option) const {
    const std::vector<bool> &repeats = chain.sets[chain.classOf[b]][option];
    llvm::DenseSet<int> repeated;
    for (size_t k = 0; k < repeats.size(); ++k)
      if (repeats[k])
        repeated.insert(chain.blocks[b][k]);
    std::vector<int> all;
    for (int l : chain.blocks[b])
      if (!repeated.contains(l) && llvm::any_of(model.launches[l].out, [&](int v) {
            return leaves(v, b) || llvm::any_of(model.storages[v].users, [&](int u) {
                     return u >= model.firstBackward || repeated.contains(u);
                   });
          }))
        all.push_back(l);
    return all;
  }

  void step(const std::vector<NestedStep> &steps, size_t k, std::vector<RecomputeSweep> &sweeps) {
    const NestedStep &s = steps[k];
    auto [first, end] = chain.backward[s.block];
    if (s.kind == NestedStep::Backward) {
      inForward = false;
      if (pending.empty() || first >= end)
        return;
      sweeps.push_back({nameOf(first), std::move(pending)});
      pending.clear();
      return;
    }
    if (inForward) {
      const std::vector<bool> *set =
          s.option < 0 ? nullptr : &chain.sets[chain.classOf[s.block]][s.option];
      for (size_t i = 0; i < chain.blocks[s.block].size(); ++i) {
        int l = chain.blocks[s.block][i];
        again[l] = set ? (*set)[i] : !(s.keeps && makesOutput(l, s.block));
      }
      return;
    }
    if (k + 1 < steps.size() && steps[k + 1].kind == NestedStep::Backward)
      return; // backward itself brings what it needs
    if (s.option >= 0)
      for (int l : kept(s.block, s.option))
        pending.push_back(nameOf(l));
    else if (s.keeps)
      for (int l : chain.blocks[s.block])
        if (makesOutput(l, s.block))
          pending.push_back(nameOf(l));
  }

  const RecomputeModel &model;
  const BlockChain &chain;
  llvm::DenseMap<int, int> blockOf; // by launch
  std::vector<NestedBlock> blocks;
  std::vector<bool> again;          // by launch: not kept by the first forward phase
  std::vector<std::string> pending; // of the next sweep
  bool inForward = true;
};

} // namespace

RecomputeChooser::Choice RecomputeChooser::chooseNested(int64_t bytes, bool addUp) const {
  return Nester(model, *chain, addUp).choose(bytes);
}

} // namespace ds
