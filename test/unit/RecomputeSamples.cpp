// SPDX-License-Identifier: Apache-2.0
#include "test/unit/RecomputeSamples.h"

#include <functional>
#include <set>

namespace ds {

int64_t below(std::mt19937 &random, int64_t n) { return static_cast<int64_t>(random() % n); }

RecomputeModel randomModel(std::mt19937 &random, int forward, int backward) {
  RecomputeModel m;
  m.firstBackward = forward;
  for (int k = 0; k < forward + backward; ++k) {
    RecomputeModel::Launch l;
    l.repeatable = k < forward && below(random, 5) != 0;
    l.seconds = static_cast<double>(1 + below(random, 9));
    l.work = 256 * below(random, 3);
    auto made = static_cast<int64_t>(m.storages.size());
    std::set<int> in;
    for (int64_t r = 0; made > 0 && r < 1 + below(random, 2); ++r)
      in.insert(static_cast<int>(below(random, made)));
    l.in.assign(in.begin(), in.end());
    for (int v : l.in)
      m.storages[v].users.push_back(k);
    for (int64_t r = 0; r < 1 + (below(random, 4) == 0); ++r) {
      l.out.push_back(static_cast<int>(m.storages.size()));
      m.storages.push_back({256 * (1 + below(random, 8)), k, {}, false});
    }
    for (int v : l.in) {
      int64_t &bytes = m.storages[l.out[0]].bytes;
      if (l.over.empty() && below(random, 3) == 0)
        bytes = m.storages[v].bytes;
      if (m.storages[v].bytes == bytes)
        l.over.push_back(v);
    }
    m.launches.push_back(std::move(l));
    m.beside.push_back(256 * below(random, 4));
  }
  return m;
}

Walk walk(const RecomputeModel &m, const std::vector<bool> &again) {
  auto isAgain = [&](int launch) {
    return launch < m.firstBackward && again[launch] && m.launches[launch].repeatable;
  };
  Walk w;
  std::set<int> done; // repeated already
  std::function<void(int)> repeat = [&](int launch) {
    if (!isAgain(launch) || !done.insert(launch).second)
      return;
    for (int v : m.launches[launch].in)
      repeat(m.storages[v].maker);
    w.order.emplace_back(launch, true);
  };
  for (int k = 0; k < static_cast<int>(m.launches.size()); ++k) {
    if (k >= m.firstBackward) {
      // All that k needs, in the order of the forward phase.
      std::set<int> needed;
      std::function<void(int)> need = [&](int launch) {
        if (isAgain(launch) && !done.count(launch) && needed.insert(launch).second)
          for (int v : m.launches[launch].in)
            need(m.storages[v].maker);
      };
      for (int v : m.launches[k].in)
        need(m.storages[v].maker);
      for (int launch : needed)
        repeat(launch);
    }
    w.order.emplace_back(k, false);
  }
  for (int t = 0; t < static_cast<int>(w.order.size()); ++t) {
    auto [launch, repeated] = w.order[t];
    for (int v : m.launches[launch].out)
      w.lives[{v, repeated}] = {t, t};
    for (int v : m.launches[launch].in) {
      bool copy = (repeated || launch >= m.firstBackward) && isAgain(m.storages[v].maker);
      w.lives[{v, copy}].second = t;
    }
  }
  return w;
}

} // namespace ds
