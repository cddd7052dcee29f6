// SPDX-License-Identifier: Apache-2.0
//
// One rank's safetensors file of a checkpoint: flat tensors by key, each with a checksum in the header's metadata.
#pragma once

#include "ir/DType.h"
#include "runtime/File.h"

#include <map>
#include <string>
#include <vector>

namespace ds {

/// A 64-bit checksum, not cryptographic: finds torn and flipped bytes at memory speed.
uint64_t checksum(const void *bytes, size_t n);

struct PieceData {
  std::string key;
  DType dtype = DType::F32;
  int64_t elems = 0;
  const void *data = nullptr; // elems x byteSize(dtype)
};

/// Makes the file, with all of its bytes synced.
Status writePieces(const std::string &path, const std::vector<PieceData> &pieces);

class PieceFile {
public:
  /// Reads the header. Errors: not such a file, offsets outside of it.
  static StatusOr<PieceFile> open(const std::string &path);

  struct Entry {
    DType dtype = DType::F32;
    int64_t elems = 0, offset = 0; // bytes from the file's start
    uint64_t sum = 0;
  };
  const std::map<std::string, Entry> &entries() const { return table; }
  /// The whole piece, checked against its checksum; it must have `elems` elements.
  StatusOr<std::vector<std::byte>> read(const std::string &key, int64_t elems, DType *dtype) const;

private:
  File file;
  std::map<std::string, Entry> table;
};

} // namespace ds
