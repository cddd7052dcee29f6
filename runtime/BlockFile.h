// SPDX-License-Identifier: Apache-2.0
//
// The bytes of a rank's nvme arena: one file, reserved whole before the first step, that nobody else may have open and
// that is removed with this object. What a killed run left behind is taken over by the next one. Direct I/O where the
// file system can, so that the system's page cache does not hold a second copy.
#pragma once

#include "runtime/BlockQueue.h"

#include <memory>
#include <string>
#include <vector>

namespace ds {

struct BlockFileOptions {
  int64_t blockBytes =
      1 << 20;            // a transfer is cut into such pieces, of whole 4 KiB (aio.block_size)
  int queueDepth = 8;     // in flight at once, for each direction (aio.queue_depth)
  bool checksums = false; // of every block written, compared when it is read
  bool direct = true;     // try O_DIRECT
  bool uring = true;      // try io_uring
};

class BlockFile {
public:
  /// FOLDER/rankN.nvme; makes the folder. All bytes read as 0 until written. Errors say what to change: no space, no
  /// permission, another run has the file, limits of the process.
  static StatusOr<std::unique_ptr<BlockFile>> create(const std::string &folder, int64_t rank,
                                                     int64_t bytes, const BlockFileOptions &o);
  ~BlockFile();
  BlockFile(const BlockFile &) = delete;

  const std::string &path() const { return name; }
  int64_t size() const { return length; }
  /// What this system could not do, one line each and without the rank, so that it is said once.
  const std::vector<std::string> &notes() const { return remarks; }

  /// [offset, offset + bytes) to and from memory; both start at multiples of kBlockAlign. Bytes up to the next multiple
  /// in the file belong to the same range: a write makes them 0. Returns when all is done; after an abort,
  /// stoppedByOther(). One thread may read while another writes other bytes. Allocates nothing but errors.
  Status read(int64_t offset, void *to, int64_t bytes, const Abort &abort);
  Status write(int64_t offset, const void *from, int64_t bytes, const Abort &abort);

private:
  struct Aligned {
    alignas(kBlockAlign) std::byte bytes[kBlockAlign];
  };
  struct Direction {
    std::unique_ptr<BlockQueue> queue;
    std::unique_ptr<Aligned> tail; // the last block of a range that ends inside of it
  };

  BlockFile() = default;
  Status openLocked(const std::string &folder);
  Status reserve();
  void goDirect();
  Status check(const char *verb, int64_t offset, const void *memory, int64_t bytes) const;
  Status failed(const char *verb, int64_t bytes, int64_t offset, const BlockOutcome &o) const;
  Status move(Direction &d, bool isWrite, int64_t offset, std::byte *memory, int64_t bytes,
              const Abort &abort);
  void remember(int64_t offset, const std::byte *memory, int64_t bytes);
  Status compare(int64_t offset, const std::byte *memory, int64_t bytes) const;

  std::string name;
  int fd = -1;
  int64_t length = 0; // multiple of kBlockAlign
  bool isDirect = false;
  Direction reads, writes;
  std::vector<uint64_t> sums; // by block, 0: never written; empty without checksums
  std::vector<std::string> remarks;
};

} // namespace ds
