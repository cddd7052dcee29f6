// SPDX-License-Identifier: Apache-2.0
//
// One rank's safetensors file of a checkpoint: flat tensors by key. The header's metadata says which checkpoint the
// file belongs to and, for each tensor, its first element and a checksum, so that files that changed places are found.
#pragma once

#include "ir/DType.h"
#include "runtime/File.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ds {

/// A 64-bit checksum, not cryptographic: finds torn and flipped bytes at memory speed.
uint64_t checksum(const void *bytes, size_t n);

/// The same of bytes that come one part after the other.
class Checksum {
public:
  void add(const void *bytes, size_t n);
  uint64_t value() const;

private:
  static constexpr size_t kGroup = 32;
  void group(const unsigned char *p);
  uint64_t lanes[4] = {1, 2, 3, 4}; // so that multiplications overlap
  unsigned char rest[kGroup];       // of the last group that is not full
  size_t total = 0;
};

struct PieceData {
  std::string key;
  DType dtype = DType::F32;
  int64_t begin = 0, elems = 0; // of the tensor's elements
  /// Shows all elems x byteSize(dtype) bytes to `take`, in order, in as many parts as it likes.
  using Take = std::function<Status(const void *part, int64_t bytes)>;
  std::function<Status(const Take &take)> data;
};

/// Makes the file, with all of its bytes synced. `owner` names the checkpoint.
Status writePieces(const std::string &path, const std::string &owner,
                   const std::vector<PieceData> &pieces);

class PieceFile {
public:
  /// Reads the header. Errors: not such a file, offsets outside of it.
  static StatusOr<PieceFile> open(const std::string &path);

  struct Entry {
    DType dtype = DType::F32;
    int64_t begin = 0, elems = 0;
    int64_t offset = 0; // bytes from the file's start
    uint64_t sum = 0;
  };
  const std::map<std::string, Entry> &entries() const { return table; }
  const std::string &owner() const { return checkpoint; }
  /// Elements [begin, end) of the tensor, checked against their checksum; the piece must be just these.
  StatusOr<std::vector<std::byte>> read(const std::string &key, int64_t begin, int64_t end,
                                        DType *dtype) const;

private:
  File file;
  std::string checkpoint;
  std::map<std::string, Entry> table;
};

} // namespace ds
