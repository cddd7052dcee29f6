// SPDX-License-Identifier: Apache-2.0
#include "passes/RecomputeBlocks.h"

#include "passes/Recompute.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <map>

namespace ds {

std::vector<Launches> recomputeBlocks(Program &p, const RecomputeModel &m) {
  llvm::DenseMap<const Op *, int> blockOf;
  std::vector<Block> blocks = repeatedBlocks(p);
  for (size_t b = 0; b < blocks.size(); ++b)
    for (Op *op : blocks[b].ops)
      blockOf[op] = static_cast<int>(b);
  auto n = static_cast<int>(blocks.size());
  std::vector<Launches> inside(n);
  Launches before, between, behind;
  int met = 0; // launches of blocks so far
  int total = 0;
  for (int k = 0; k < m.firstBackward; ++k)
    total += blockOf.count(m.launches[k].op) != 0;
  for (int k = 0; k < m.firstBackward; ++k)
    if (auto it = blockOf.find(m.launches[k].op); it != blockOf.end()) {
      inside[it->second].push_back(k);
      ++met;
    } else {
      (met == 0 ? before : met < total ? between : behind).push_back(k);
    }
  std::vector<Launches> chain{before, between};
  chain.insert(chain.end(), inside.begin(), inside.end());
  chain.push_back(behind);
  llvm::erase_if(chain, [](const Launches &l) { return l.empty(); });
  return chain;
}

BlockChain::BlockChain(std::vector<Launches> b, const RecomputeModel &m) : blocks(std::move(b)) {
  classify(m);
  stretches(m);
  measure(m);
}

// Blocks are of one class if their ops, sizes and times are equal, and so is what backward and others read of them.
void BlockChain::classify(const RecomputeModel &m) {
  std::map<size_t, int> classes;
  for (const Launches &block : blocks) {
    Block ops;
    for (int l : block)
      ops.ops.push_back(m.launches[l].op);
    llvm::hash_code h = structureHash(ops);
    llvm::DenseSet<int> inside(block.begin(), block.end());
    for (int l : block)
      for (int v : m.launches[l].out) {
        bool outside = false, backward = false;
        for (int u : m.storages[v].users)
          (u >= m.firstBackward ? backward : outside) |= !inside.count(u);
        h = llvm::hash_combine(h, m.storages[v].bytes, outside, backward, m.launches[l].repeatable,
                               m.storages[v].isMoved);
      }
    auto [it, isNew] = classes.try_emplace(h, static_cast<int>(sets.size()));
    if (isNew)
      sets.push_back(blockOptions(m, block));
    classOf.push_back(it->second);
  }
}

// A block's backward begins where backward first reads what it made, and ends where that of the block before begins.
void BlockChain::stretches(const RecomputeModel &m) {
  auto n = static_cast<int>(m.launches.size());
  int end = n;
  backward.resize(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    llvm::DenseSet<int> inside(blocks[b].begin(), blocks[b].end());
    int first = end;
    for (int l : blocks[b])
      for (int v : m.launches[l].out) {
        llvm::ArrayRef<int> users = m.storages[v].users;
        bool leaves =
            llvm::any_of(users, [&](int u) { return u < m.firstBackward && !inside.count(u); });
        for (int u : users)
          if (u >= m.firstBackward && !leaves)
            first = std::min(first, u);
      }
    backward[b] = {first, end};
    end = first;
    forward.emplace_back(blocks[b].front(),
                         b + 1 < blocks.size() ? blocks[b + 1].front() : m.firstBackward);
  }
}

std::vector<bool> BlockChain::repeated(const RecomputeModel &m,
                                       const std::vector<int> &choice) const {
  std::vector<bool> again(m.firstBackward, false);
  for (size_t b = 0; b < blocks.size(); ++b) {
    const std::vector<bool> &set = sets[classOf[b]][choice[b]];
    for (size_t k = 0; k < set.size(); ++k)
      again[blocks[b][k]] = set[k];
  }
  return again;
}

// From forward to backward: some launch of backward, or a repeated one, reads it.
static bool isKept(const RecomputeModel &m, const RecomputeModel::Load &load, int maker, int v) {
  return !load.isRepeated[maker] && llvm::any_of(m.storages[v].users, [&](int u) {
    return u >= m.firstBackward || load.isRepeated[u];
  });
}

ChainOption BlockChain::measured(const RecomputeModel &m, const RecomputeModel::Load &load,
                                 const Launches &block, size_t b) const {
  ChainOption one;
  for (int l : block) {
    if (load.isRepeated[l])
      one.seconds += m.launches[l].seconds;
    for (int v : m.launches[l].out)
      if (!m.storages[v].isMoved && isKept(m, load, l, v))
        one.saved += m.storages[v].bytes;
  }
  for (auto [first, end] : {backward[b], forward[b]})
    for (int k = first; k < end; ++k)
      one.peak = std::max(one.peak, load.at[k]);
  return one;
}

// What every option keeps and needs: one run of the model per class and option, with the option in all its blocks.
void BlockChain::measure(const RecomputeModel &m) {
  options.resize(blocks.size());
  pass.resize(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b)
    options[b].resize(sets[classOf[b]].size());
  auto measureAll = [&](const std::vector<int> &choice, auto isMeant) {
    RecomputeModel::Load load = m.load(repeated(m, choice));
    int64_t before = 0;
    for (size_t b = 0; b < blocks.size(); ++b) {
      bool most = isMeant(classOf[b]) && choice[b] + 1 == static_cast<int>(options[b].size());
      for (int k = forward[b].first; most && k < forward[b].second; ++k)
        pass[b] = std::max(pass[b], load.at[k] - before);
      ChainOption one = measured(m, load, blocks[b], b);
      one.peak = std::max<int64_t>(0, one.peak - before);
      before += one.saved;
      if (isMeant(classOf[b]))
        options[b][choice[b]] = one;
    }
  };
  const std::vector<int> none(blocks.size(), 0);
  measureAll(none, [](int) { return true; });
  for (int c = 0; c < static_cast<int>(sets.size()); ++c)
    for (int o = 1; o < static_cast<int>(sets[c].size()); ++o) {
      std::vector<int> choice = none;
      for (size_t b = 0; b < blocks.size(); ++b)
        if (classOf[b] == c)
          choice[b] = o;
      measureAll(choice, [&](int meant) { return meant == c; });
    }
}

} // namespace ds
