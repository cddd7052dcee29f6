// SPDX-License-Identifier: Apache-2.0
#include "kernels/Registry.h"

#include <cstring>

namespace ds {

static bool accepts(std::string_view words, DType t) {
  while (!words.empty()) {
    std::string_view word = words.substr(0, words.find(' '));
    if (word == "*" || word == text(t) || (word == "float" && isFloat(t)) ||
        (word == "int" && isInt(t)))
      return true;
    words.remove_prefix(word.size());
    while (!words.empty() && words.front() == ' ')
      words.remove_prefix(1);
  }
  return false;
}

const DsKernel *findKernel(KernelTable table, const char *op, DType first) {
  for (size_t i = 0; i < table.count; ++i)
    if (std::strcmp(table.rows[i].op, op) == 0 && accepts(table.rows[i].dtypes, first))
      return &table.rows[i];
  return nullptr;
}

} // namespace ds
