// SPDX-License-Identifier: Apache-2.0
#include "passes/layout/Failures.h"

#include <algorithm>

namespace ds::layout {

bool Failures::has(const StateKey &key, int64_t capacity) const {
  if (table.empty())
    return false;
  for (size_t probe = 0; probe < kProbes; ++probe) {
    const Entry &e = table[(key.a + probe) & (table.size() - 1)];
    if (e.capacity >= 0 && e.key.a == key.a && e.key.b == key.b)
      return e.capacity >= capacity;
  }
  return false;
}

void Failures::add(const StateKey &key, int64_t capacity) {
  if (2 * used >= table.size() && table.size() < kMost)
    grow();
  for (size_t probe = 0; probe < kProbes; ++probe) {
    Entry &e = table[(key.a + probe) & (table.size() - 1)];
    bool same = e.key.a == key.a && e.key.b == key.b;
    if (e.capacity < 0 || same) {
      used += e.capacity < 0;
      e = {key, same ? std::max(e.capacity, capacity) : capacity};
      return;
    }
  }
  table[(key.a + (key.b & (kProbes - 1))) & (table.size() - 1)] = {key, capacity};
}

void Failures::grow() {
  std::vector<Entry> old = std::move(table);
  table.assign(std::max(kFirst, 2 * old.size()), Entry());
  used = 0;
  for (const Entry &e : old)
    if (e.capacity >= 0)
      add(e.key, e.capacity);
}

} // namespace ds::layout
