// SPDX-License-Identifier: Apache-2.0
#include "passes/HiddenSize.h"

#include <map>
#include <set>

namespace ds {

int64_t hiddenSize(const Module &m) {
  constexpr int64_t kLargest = 1 << 24; // its square is a bucket size
  std::map<int64_t, int64_t> matrices;  // with this extent
  int64_t all = 0;
  for (const Symbol *s : m.symbols()) {
    if (s->symbolKind != SymbolKind::Param || !s->trainable || s->type.rank() != 2)
      continue;
    ++all;
    for (int64_t extent : std::set<int64_t>(s->type.dims.begin(), s->type.dims.end()))
      ++matrices[extent];
  }
  int64_t best = 0, most = 0;
  for (auto [extent, count] : matrices) {
    if (count < most)
      continue;
    best = count == most ? 0 : extent; // two are none
    most = count;
  }
  return best <= kLargest && most * 4 >= all * 3 ? best : 0;
}

} // namespace ds
