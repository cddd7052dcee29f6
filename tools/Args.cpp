// SPDX-License-Identifier: Apache-2.0
#include "tools/Args.h"

#include <algorithm>

namespace ds {

Args::Args(int argc, char **argv) : words(argv, argv + argc) {
  bool flags = true;
  for (size_t i = 1; i < words.size(); ++i) {
    std::string &w = words[i];
    if (w == "--")
      flags = false; // only positional arguments follow
    if (!flags || w.size() < 2 || w[0] != '-')
      continue;
    auto end = std::find(w.begin(), w.end(), '=');
    std::replace(w.begin(), end, '_', '-');
  }
  for (const std::string &w : words)
    pointers.push_back(w.c_str());
}

} // namespace ds
