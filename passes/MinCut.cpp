// SPDX-License-Identifier: Apache-2.0
#include "passes/MinCut.h"

#include <algorithm>

namespace ds {

void MinCut::edge(int from, int to, double capacity) {
  edgesOf[from].push_back(static_cast<int>(edges.size()));
  edges.push_back({to, capacity});
  edgesOf[to].push_back(static_cast<int>(edges.size()));
  edges.push_back({from, 0});
}

bool MinCut::findLevels(int source, int sink) {
  level.assign(edgesOf.size(), -1);
  level[source] = 0;
  std::vector<int> queue{source};
  for (size_t k = 0; k < queue.size(); ++k)
    for (int e : edgesOf[queue[k]])
      if (edges[e].left > tiny && level[edges[e].to] < 0) {
        level[edges[e].to] = level[queue[k]] + 1;
        queue.push_back(edges[e].to);
      }
  return level[sink] >= 0;
}

double MinCut::push(int node, int sink, double most) {
  if (node == sink)
    return most;
  for (int &k = next[node]; k < static_cast<int>(edgesOf[node].size()); ++k) {
    int e = edgesOf[node][k];
    if (edges[e].left <= tiny || level[edges[e].to] != level[node] + 1)
      continue;
    double sent = push(edges[e].to, sink, std::min(most, edges[e].left));
    if (sent <= 0)
      continue;
    edges[e].left -= sent;
    edges[e ^ 1].left += sent;
    return sent;
  }
  return 0;
}

std::vector<bool> MinCut::sourceSide(int source, int sink) {
  double total = 0;
  for (const Edge &e : edges)
    if (e.left < kForced)
      total += e.left;
  tiny = total * 1e-14;
  while (findLevels(source, sink)) {
    next.assign(edgesOf.size(), 0);
    for (double sent = kForced; sent > 0;)
      sent = push(source, sink, kForced);
  }
  std::vector<bool> side;
  for (int l : level)
    side.push_back(l >= 0);
  return side;
}

} // namespace ds
