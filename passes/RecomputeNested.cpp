// SPDX-License-Identifier: Apache-2.0
//
// best(i, j, m): least seconds from having the input of block i to the end of its backward, over blocks i..j, with m bytes left.
//   i = j:  forward with some option, and backward
//   else:   forward of i with an option that fits; best(i + 1, j, m - what it keeps); backward of i
//   or:     forward of i..s-1, which keeps the input of s alone; best(s, j, m - that input); best(i, s - 1, m)
// In the manner of Rotor (Beaumont et al. 2019), with sizes of its own for every block.
#include "passes/RecomputeNested.h"

#include <algorithm>
#include <limits>

namespace ds {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

class Table {
public:
  Table(const std::vector<NestedBlock> &c, int64_t budget, int64_t levels)
      : chain(c), n(static_cast<int>(c.size())),
        unit(std::max<int64_t>(1, (budget + levels - 1) / levels)),
        top(static_cast<int>(budget / unit)) {
    cells.resize(static_cast<size_t>(n) * n);
    for (int length = 1; length <= n; ++length)
      for (int i = 0; i + length <= n; ++i)
        fill(i, i + length - 1);
  }

  std::optional<NestedPlan> plan() {
    if (n == 0 || cell(0, n - 1).seconds[top] == kNever)
      return std::nullopt;
    NestedPlan p;
    p.seconds = cell(0, n - 1).seconds[top];
    for (const NestedBlock &b : chain)
      p.seconds -= b.forward;
    follow(0, n - 1, top, p.steps);
    return p;
  }

private:
  struct Cell {
    std::vector<double> seconds;
    std::vector<int> choice; // an option of block i, or its number of options + s
  };

  Cell &cell(int i, int j) { return cells[static_cast<size_t>(i) * n + j]; }
  int up(int64_t bytes) const { return static_cast<int>((bytes + unit - 1) / unit); }

  void fill(int i, int j) {
    Cell &c = cell(i, j);
    c.seconds.assign(top + 1, kNever);
    c.choice.assign(top + 1, -1);
    auto take = [&](int m, double seconds, int choice) {
      if (seconds < c.seconds[m]) {
        c.seconds[m] = seconds;
        c.choice[m] = choice;
      }
    };
    const NestedBlock &b = chain[i];
    auto options = static_cast<int>(b.options.size());
    for (int o = 0; o < options; ++o) {
      const ChainOption &option = b.options[o];
      int kept = i == j ? 0 : up(option.saved);
      for (int m = std::max(up(option.peak), kept); m <= top; ++m)
        take(m, b.forward + option.seconds + (i == j ? 0 : cell(i + 1, j).seconds[m - kept]), o);
    }
    double forward = 0;
    int pass = 0;
    for (int s = i + 1; s <= j && chain[s - 1].through; ++s) {
      forward += chain[s - 1].forward;
      pass = std::max(pass, up(chain[s - 1].pass));
      int kept = up(chain[s - 1].out);
      const Cell &behind = cell(s, j), &before = cell(i, s - 1);
      for (int m = std::max(pass, kept); m <= top; ++m)
        take(m, forward + behind.seconds[m - kept] + before.seconds[m], options + s);
    }
  }

  void follow(int i, int j, int m, std::vector<NestedStep> &steps) {
    int choice = cell(i, j).choice[m], options = static_cast<int>(chain[i].options.size());
    if (choice < options) {
      steps.push_back({NestedStep::Forward, i, choice, true});
      if (i < j)
        follow(i + 1, j, m - up(chain[i].options[choice].saved), steps);
      steps.push_back({NestedStep::Backward, i, choice, true});
      return;
    }
    int s = choice - options;
    for (int k = i; k < s; ++k)
      steps.push_back({NestedStep::Forward, k, -1, k + 1 == s});
    follow(s, j, m - up(chain[s - 1].out), steps);
    follow(i, s - 1, m, steps);
  }

  const std::vector<NestedBlock> &chain;
  int n;
  int64_t unit;
  int top; // of levels
  std::vector<Cell> cells;
};

} // namespace

std::optional<NestedPlan> nestedPlan(const std::vector<NestedBlock> &chain, int64_t budget,
                                     int64_t levels) {
  if (budget < 0)
    return std::nullopt;
  return Table(chain, budget, std::max<int64_t>(1, levels)).plan();
}

} // namespace ds
