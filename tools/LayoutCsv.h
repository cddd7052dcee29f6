// SPDX-License-Identifier: Apache-2.0
//
// The exchange format of packing problems: a header line, then `id,lower,upper,size`, one buffer a line, in use at
// times [lower, upper); sizes in bytes; an answer adds `offset`. Columns may come in any order.
#pragma once

#include "ir/Status.h"
#include "passes/layout/Layout.h"

#include <string>
#include <vector>

namespace ds {

struct LayoutFile {
  std::vector<std::string> ids; // in the order of the file, as are items
  std::vector<PackItem> items;  // closed lives: [lower, upper - 1]
  std::vector<int> lines;       // of the file, from 1
  bool hasOffsets = false;
};

/// Reads a file's text; errors name path:line:column.
StatusOr<LayoutFile> parseLayout(const std::string &text, const std::string &path);
/// With offsets.
std::string printLayout(const LayoutFile &file);

} // namespace ds
