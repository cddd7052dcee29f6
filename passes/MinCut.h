// SPDX-License-Identifier: Apache-2.0
//
// Minimum cuts of small graphs: Dinic's algorithm (1970), with real capacities.
#pragma once

#include <limits>
#include <vector>

namespace ds {

class MinCut {
public:
  static constexpr double kForced = std::numeric_limits<double>::infinity();

  explicit MinCut(int nodes) : edgesOf(nodes) {}
  /// A directed edge; kForced may never be cut.
  void edge(int from, int to, double capacity);
  /// Separates sink from source at least cost; there must be a path of finite capacity to cut on every way. Result: whether a
  /// node is on the source's side, with as few nodes there as a least cut allows.
  std::vector<bool> sourceSide(int source, int sink);

private:
  struct Edge {
    int to;
    double left; // capacity that is not used
  };
  bool findLevels(int source, int sink);
  double push(int node, int sink, double most);

  std::vector<Edge> edges; // edge 2k + 1 is the reverse of 2k
  std::vector<std::vector<int>> edgesOf;
  std::vector<int> level, next;
  double tiny = 0; // below it a capacity counts as used up
};

} // namespace ds
