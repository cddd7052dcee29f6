// SPDX-License-Identifier: Apache-2.0
#include "passes/Market.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <climits>
#include <numeric>

namespace ds {

namespace {

class Builder {
public:
  Builder(const RecomputeModel &m, const std::vector<Launches> &blocks, int64_t runs,
          const std::function<double(int64_t)> &copySeconds)
      : model(m), blocks(blocks), runs(runs), copySeconds(copySeconds),
        blockOf(m.launches.size(), -1), needed(m.launches.size(), kNever),
        valueOf(m.storages.size(), -1), taken(m.launches.size(), false),
        change(m.launches.size() + 1, 0) {}

  Market run() {
    for (size_t b = 0; b < blocks.size(); ++b)
      for (int l : blocks[b])
        blockOf[l] = static_cast<int>(b);
    out.runs = runs;
    out.fixed.assign(model.launches.size() + 1, 0);
    findNeeds();
    for (size_t s = 0; s < model.storages.size(); ++s)
      addStorage(static_cast<int>(s));
    int64_t bytes = 0;
    for (size_t k = 0; k < model.launches.size(); ++k)
      out.fixed[k] = (bytes += change[k]) + model.launches[k].work;
    for (size_t b = 0; b < blocks.size(); ++b)
      addPart(static_cast<int>(b));
    shareUses();
    return std::move(out);
  }

private:
  static constexpr int kNever = INT_MAX;

  // Whether a plan may repeat launch k: nothing outside of its block reads what it makes.
  bool mayRepeat(int k) const {
    if (k >= model.firstBackward || blockOf[k] < 0 || !model.launches[k].repeatable)
      return false;
    return llvm::all_of(model.launches[k].out, [&](int v) {
      return llvm::all_of(model.storages[v].users, [&](int u) {
        return u >= model.firstBackward || blockOf[u] == blockOf[k];
      });
    });
  }

  // The first launch of backward that could need launch k repeated, by itself or through others.
  void findNeeds() {
    repeats.assign(model.firstBackward, false);
    for (int k = model.firstBackward; k-- > 0;) {
      repeats[k] = mayRepeat(k);
      for (int v : model.launches[k].out)
        for (int u : model.storages[v].users)
          needed[k] = std::min(needed[k], u >= model.firstBackward ? u
                                          : repeats[u]             ? needed[u]
                                                                   : kNever);
    }
  }

  void live(int64_t bytes, int first, int last) {
    change[first] += bytes;
    change[last + 1] -= bytes;
  }

  // The last launch at which s counts beside results: one of them may lie where s did.
  int lastBeside(int s, int last) {
    if (last < 0 || taken[last] || !llvm::is_contained(model.launches[last].over, s))
      return last;
    taken[last] = true;
    return last - 1;
  }

  void addStorage(int s) {
    const RecomputeModel::Storage &st = model.storages[s];
    if (st.maker >= model.firstBackward) {
      live(st.bytes, st.maker, lastBeside(s, st.users.empty() ? st.maker : st.users.back()));
      return;
    }
    int lastForward = st.maker, first = kNever, last = -1, need = kNever;
    for (int u : st.users)
      if (u < model.firstBackward) {
        lastForward = std::max(lastForward, u);
        if (repeats[u])
          need = std::min(need, needed[u]);
      } else {
        first = std::min(first, u);
        last = std::max(last, u);
      }
    int beside = lastBeside(s, lastForward);
    live(st.bytes, st.maker, beside);
    if (last >= 0)
      live(st.bytes, first, lastBeside(s, last));
    if (st.isMoved || (first == kNever && need == kNever))
      return;
    Market::Value v;
    v.storage = s;
    v.bytes = st.bytes;
    v.isRead = last >= 0;
    // Where it is kept, nothing takes its place; another operand may then lend its own.
    v.from = model.launches[lastForward].over.size() == 1 ? beside + 1 : lastForward + 1;
    v.to = std::max(v.from, v.isRead ? first : need);
    v.down = v.up = static_cast<double>(runs) * copySeconds(st.bytes);
    if (const Op *op = model.launches[st.maker].op)
      v.name = op->results[s - model.launches[st.maker].out[0]]->name;
    valueOf[s] = static_cast<int>(out.values.size());
    out.values.push_back(std::move(v));
  }

  void addPart(int b) {
    Market::Part part;
    llvm::DenseMap<int, int> launches, uses;
    auto use = [&](int s, int maker) -> Market::Part::Use * {
      int v = valueOf[s];
      if (v < 0)
        return nullptr;
      auto [it, isNew] = uses.try_emplace(v, static_cast<int>(part.uses.size()));
      if (isNew)
        part.uses.push_back({v, maker, 1, {}});
      return &part.uses[it->second];
    };
    for (int k : blocks[b]) {
      if (!repeats[k] || needed[k] == kNever)
        continue;
      int local = launches[k] = static_cast<int>(part.seconds.size());
      part.seconds.push_back(static_cast<double>(runs) * model.launches[k].seconds);
      part.names.push_back(model.launches[k].op ? model.launches[k].op->result()->name : "");
      for (int s : model.launches[k].in) {
        int maker = model.storages[s].maker;
        auto it = launches.find(maker);
        if (Market::Part::Use *u = use(s, it == launches.end() ? -1 : it->second))
          u->users.push_back(local);
      }
      for (int s : model.launches[k].out)
        use(s, local);
    }
    out.parts.push_back(std::move(part));
  }

  // What several parts use and none makes is paid for by all of them, what backward reads anyway by none.
  void shareUses() {
    std::vector<int> count(out.values.size(), 0);
    for (Market::Value &v : out.values)
      v.isAlone = v.isRead;
    for (Market::Part &p : out.parts)
      for (Market::Part::Use &u : p.uses) {
        ++count[u.value];
        out.values[u.value].isAlone &= u.maker < 0;
      }
    for (Market::Part &p : out.parts) {
      llvm::erase_if(p.uses,
                     [&](const Market::Part::Use &u) { return out.values[u.value].isAlone; });
      for (Market::Part::Use &u : p.uses)
        u.share = 1.0 / count[u.value];
    }
  }

  const RecomputeModel &model;
  const std::vector<Launches> &blocks;
  int64_t runs;
  const std::function<double(int64_t)> &copySeconds;
  std::vector<int> blockOf, needed; // by launch
  std::vector<bool> repeats;        // by launch of the forward phase
  std::vector<int> valueOf;
  std::vector<bool> taken; // by launch: its result lies where an operand did
  std::vector<int64_t> change;
  Market out;
};

} // namespace

double updateSeconds(const MarketSeconds &t, bool isShared) {
  return isShared ? std::accumulate(t.begin(), t.begin() + kStreams, 0.0)
                  : *std::max_element(t.begin(), t.end());
}

Market marketOf(const RecomputeModel &m, const std::vector<Launches> &blocks, int64_t runs,
                const std::function<double(int64_t)> &copySeconds) {
  return Builder(m, blocks, runs, copySeconds).run();
}

} // namespace ds
