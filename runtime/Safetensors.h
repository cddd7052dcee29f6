// SPDX-License-Identifier: Apache-2.0
//
// Headers of safetensors files: what they hold, and where. Data is read by who needs it.
#pragma once

#include "ir/DType.h"
#include "runtime/File.h"

#include <map>
#include <string>
#include <vector>

namespace ds {

/// The start of a safetensors file: the length of its header, and the header padded to 8 bytes.
std::string safetensorsHead(std::string json);

struct SafetensorsItem {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
};
/// The start of a file with these tensors, one behind the other in this order.
std::string safetensorsHead(const std::vector<SafetensorsItem> &items);

struct SafetensorsEntry {
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  int64_t offset = 0; // bytes from the file's start
  int64_t elems() const;
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata; // of __metadata__

  /// Errors: not such a file, entries that are malformed or not inside of it.
  static StatusOr<SafetensorsHeader> read(const File &file);
};

} // namespace ds
