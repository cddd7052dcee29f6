// SPDX-License-Identifier: Apache-2.0
//
// One price is one minimum cut. A launch has a node "repeated", a value a node "there in backward"; nodes on the sink's side
// are true. Cut edges are what it costs:
//   source -> repeated(l)        the seconds of l; never, where it cannot be repeated or others read what it makes
//   repeated(l) -> there(v)      v is kept: its bytes times the price; nothing, where others keep it alive
//   there(v) -> repeated(l)      never cut: a repeated launch needs its operands
//   there(v) -> sink             never cut: backward reads v
// The sets for all prices are the lower hull of (bytes, seconds): a price between two of them, at which both cost the
// same, finds one between them or shows that there is none (Eisner and Severance, 1976).
#include "passes/RecomputeOptions.h"

#include "passes/MinCut.h"

#include "llvm/ADT/DenseMap.h"

#include <algorithm>

namespace ds {

namespace {

struct Cut {
  std::vector<bool> repeated; // by position in the block
  double seconds = 0, bytes = 0;
};

class BlockCuts {
public:
  BlockCuts(const RecomputeModel &m, const Launches &block) : model(m), block(block) {
    for (int l : block)
      position[l] = static_cast<int>(position.size());
    for (int l : block) {
      bool isRead = false;
      for (int v : m.launches[l].out) {
        value[v] = static_cast<int>(value.size());
        for (int u : m.storages[v].users)
          isRead |= u < m.firstBackward && !position.count(u);
      }
      readOutside.push_back(isRead);
    }
  }

  std::vector<std::vector<bool>> run(size_t most) {
    double seconds = 1e-9;
    for (int l : block)
      seconds += model.launches[l].seconds;
    // 256 bytes, the least that a value takes, for more than all seconds.
    Cut all = at(0), least = at(seconds / 64);
    std::vector<Cut> cuts{all};
    between(all, least, cuts, most - 1);
    if (least.bytes < all.bytes)
      cuts.push_back(least);
    std::vector<std::vector<bool>> sets;
    for (Cut &c : cuts)
      sets.push_back(std::move(c.repeated));
    return sets;
  }

private:
  double keptBytes(int v) const {
    return model.storages[v].isMoved ? 0 : static_cast<double>(model.storages[v].bytes);
  }

  Cut at(double price) {
    auto launches = static_cast<int>(block.size()), values = static_cast<int>(value.size());
    int source = launches + values, sink = source + 1;
    MinCut graph(sink + 1);
    for (int k = 0; k < launches; ++k) {
      const RecomputeModel::Launch &l = model.launches[block[k]];
      bool mayRepeat = l.repeatable && !readOutside[k];
      graph.edge(source, k, mayRepeat ? std::max(l.seconds, 1e-9) : MinCut::kForced);
      for (int v : l.out) {
        int node = launches + value.lookup(v);
        graph.edge(k, node, readOutside[k] ? 0 : keptBytes(v) * price);
        for (int u : model.storages[v].users)
          if (u >= model.firstBackward)
            graph.edge(node, sink, MinCut::kForced);
          else if (auto it = position.find(u); it != position.end())
            graph.edge(node, it->second, MinCut::kForced);
      }
    }
    std::vector<bool> source_ = graph.sourceSide(source, sink);
    Cut cut;
    for (int k = 0; k < launches; ++k) {
      const RecomputeModel::Launch &l = model.launches[block[k]];
      cut.repeated.push_back(!source_[k]);
      if (!source_[k])
        cut.seconds += l.seconds;
      else if (!readOutside[k])
        for (int v : l.out)
          if (!source_[launches + value.lookup(v)])
            cut.bytes += keptBytes(v);
    }
    return cut;
  }

  void between(const Cut &a, const Cut &b, std::vector<Cut> &cuts, size_t most) {
    if (cuts.size() >= most || a.bytes <= b.bytes || b.seconds <= a.seconds)
      return;
    double price = (b.seconds - a.seconds) / (a.bytes - b.bytes);
    Cut middle = at(price);
    double ends = a.seconds + price * a.bytes, found = middle.seconds + price * middle.bytes;
    if (found >= ends * (1 - 1e-9) || middle.bytes >= a.bytes || middle.bytes <= b.bytes)
      return;
    between(a, middle, cuts, most);
    if (cuts.size() < most)
      cuts.push_back(middle);
    between(middle, b, cuts, most);
  }

  const RecomputeModel &model;
  const Launches &block;
  llvm::DenseMap<int, int> position, value; // launch and storage -> number in the block
  std::vector<bool> readOutside;            // by position
};

} // namespace

std::vector<std::vector<bool>> blockOptions(const RecomputeModel &m, const Launches &block,
                                            size_t most) {
  return BlockCuts(m, block).run(most);
}

} // namespace ds
