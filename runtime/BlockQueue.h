// SPDX-License-Identifier: Apache-2.0
//
// Moves one range between a file and memory in pieces, several in flight at once: io_uring where the kernel lets us,
// else one pread or pwrite after the other. One direction of a BlockFile each; one thread uses a queue at a time.
#pragma once

#include "runtime/Wait.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace ds {

/// Unit of offsets, lengths and addresses: what direct I/O needs on every disk.
inline constexpr int64_t kBlockAlign = 4096;

struct BlockQueueOptions {
  int64_t pieceBytes = 1 << 20; // multiple of kBlockAlign
  int depth = 8;                // pieces in flight
  bool uring = true;
};

/// How a transfer ended.
struct BlockOutcome {
  enum class End { Done, Failed, FileEnded, Stopped };
  End end = End::Done;
  int error = 0;      // errno of Failed
  int64_t offset = 0; // in the file, where it failed or the file ended
};

class BlockQueue {
public:
  /// Without io_uring, `why` says what stands in its way; it is not touched otherwise.
  static std::unique_ptr<BlockQueue> make(const BlockQueueOptions &o, std::string *why);
  virtual ~BlockQueue() = default;

  /// All of [offset, offset + bytes), or the first failure. Nothing is in flight when it returns. Short transfers go
  /// on where they ended. Stopped once the job is aborted. Allocates nothing.
  virtual BlockOutcome transfer(int fd, bool write, int64_t offset, std::byte *memory,
                                int64_t bytes, const Abort &abort) = 0;
};

} // namespace ds
