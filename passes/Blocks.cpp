// SPDX-License-Identifier: Apache-2.0
//
// Repeated blocks of the forward phase. Where the exporter recorded module paths they are its layers. Else the phase is
// cut where a single value that depends on a parameter crosses from the ops before to the ops behind; the longest run of
// cuts that repeats by structure (op, attributes, types, edges) gives the blocks.
#include "passes/Layers.h"
#include "passes/Recompute.h"

#include "ir/GraphText.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <map>

namespace ds {

namespace {

bool isNumbered(llvm::StringRef layer) {
  llvm::StringRef last = layer.substr(layer.rfind('.') + 1); // all of it where there is no dot
  return !last.empty() && llvm::all_of(last, llvm::isDigit);
}

std::vector<Block> layersByPath(Program &p) {
  std::vector<Block> blocks;
  std::map<std::string, size_t> index;
  for (Op &op : p.ops) {
    if (op.phase != Phase::Forward)
      continue;
    std::string layer = layerOfPath(op.origin.module);
    if (!isNumbered(layer))
      continue;
    auto [it, isNew] = index.try_emplace(layer, blocks.size());
    if (isNew)
      blocks.push_back({layer, {}});
    blocks[it->second].ops.push_back(&op);
  }
  return blocks;
}

// Values that depend on a parameter: what flows through the model, unlike masks and positions.
llvm::DenseSet<const Value *> flowing(const llvm::SmallVectorImpl<Op *> &forward) {
  llvm::DenseSet<const Value *> flow;
  for (Op *op : forward)
    if (llvm::any_of(op->operands, [&](Value *v) {
          return flow.count(v) ||
                 (v->isSymbol() && static_cast<Symbol *>(v)->symbolKind == SymbolKind::Param);
        }))
      flow.insert(op->results.begin(), op->results.end());
  return flow;
}

// The forward phase in pieces, each ending where one flowing value crosses.
std::vector<Block> pieces(const llvm::SmallVectorImpl<Op *> &forward) {
  llvm::DenseSet<const Value *> flow = flowing(forward);
  llvm::DenseMap<const Op *, int> position;
  for (Op *op : forward)
    position[op] = static_cast<int>(position.size());
  std::vector<int> ends(forward.size(), 0); // crossing values whose last use is here
  std::vector<Block> all;
  int crossing = 0;
  Block piece;
  for (int k = 0; k < static_cast<int>(forward.size()); ++k) {
    Op *op = forward[k];
    piece.ops.push_back(op);
    crossing -= ends[k];
    for (Value *r : op->results) {
      int last = -1;
      for (Op *u : r->users)
        if (auto at = position.find(u); at != position.end())
          last = std::max(last, at->second);
      if (last > k && flow.count(r)) {
        ++crossing;
        ++ends[last];
      }
    }
    if (crossing != 1 || op->info().isView())
      continue;
    piece.name = op->result()->name;
    all.push_back(std::move(piece));
    piece = {};
  }
  return all;
}

} // namespace

size_t structureHash(const Block &b) {
  llvm::DenseMap<const Value *, size_t> number;
  llvm::hash_code h = b.ops.size();
  for (Op *op : b.ops) {
    h = llvm::hash_combine(h, static_cast<int>(op->kind));
    for (const auto &[name, value] : op->attrs)
      if (name != "key") // dropout's: every mask has its own
        h = llvm::hash_combine(h, name, attrText(value));
    for (Value *v : op->operands)
      h = llvm::hash_combine(h, number.lookup(v), v->isSymbol(), v->type.str());
    for (Value *r : op->results) {
      number[r] = number.size() + 1;
      h = llvm::hash_combine(h, r->type.str());
    }
  }
  return h;
}

namespace {

// The longest stretch that consists of equal runs of pieces, at least two of them; each run becomes a block.
std::vector<Block> repeatedRuns(const std::vector<Block> &all) {
  constexpr size_t kLongestPeriod = 64;
  std::vector<size_t> hashes;
  for (const Block &b : all)
    hashes.push_back(structureHash(b));
  size_t bestStart = 0, bestPeriod = 0, bestRuns = 0;
  for (size_t period = 1; period <= std::min(kLongestPeriod, all.size() / 2); ++period)
    for (size_t start = 0, i = 0; i + period <= all.size(); ++i) {
      if (i + period < all.size() && hashes[i] == hashes[i + period])
        continue;
      size_t runs = (i - start + period) / period;
      if (runs >= 2 && runs * period > bestRuns * bestPeriod) {
        bestStart = start;
        bestPeriod = period;
        bestRuns = runs;
      }
      start = i + 1;
    }
  std::vector<Block> blocks;
  for (size_t r = 0; r < bestRuns; ++r) {
    Block b;
    for (size_t k = 0; k < bestPeriod; ++k) {
      const Block &piece = all[bestStart + r * bestPeriod + k];
      b.name = piece.name;
      b.ops.insert(b.ops.end(), piece.ops.begin(), piece.ops.end());
    }
    blocks.push_back(std::move(b));
  }
  return blocks;
}

} // namespace

std::vector<Block> repeatedBlocks(Program &p) {
  if (std::vector<Block> layers = layersByPath(p); !layers.empty())
    return layers;
  llvm::SmallVector<Op *> forward;
  for (Op &op : p.ops)
    if (op.phase == Phase::Forward)
      forward.push_back(&op);
  return repeatedRuns(pieces(forward));
}

} // namespace ds
