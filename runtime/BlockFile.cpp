// SPDX-License-Identifier: Apache-2.0
#include "runtime/BlockFile.h"

#include "runtime/PieceFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace ds {

using End = BlockOutcome::End;

static int64_t wholeBlocks(int64_t bytes) {
  return (bytes + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
}

static const char *adviceFor(int error) {
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    return "free space there, give another nvme_path, or keep more in host memory";
  case EFBIG:
    return "raise the limit of file sizes (ulimit -f), or keep more in host memory";
  case EACCES:
  case EPERM:
  case EROFS:
    return "make the folder writable for this user, or give another nvme_path";
  case EIO:
    return "the disk failed: see the kernel's log, and go on from a checkpoint with another "
           "nvme_path";
  default:
    return nullptr;
  }
}

static Status problem(const std::string &path, std::string_view what, int error) {
  Status s = Status::error(fmt::format("cannot {}: {}", what, std::strerror(error))).at(path);
  if (const char *advice = adviceFor(error))
    s = std::move(s).note(advice);
  return s;
}

StatusOr<std::unique_ptr<BlockFile>> BlockFile::create(const std::string &folder, int64_t rank,
                                                       int64_t bytes, const BlockFileOptions &o) {
  if (bytes <= 0 || o.queueDepth < 1 || o.blockBytes < 1)
    return Status::internal(fmt::format("a block file of {} bytes in blocks of {}, {} in flight; "
                                        "expected positive numbers",
                                        bytes, o.blockBytes, o.queueDepth));
  std::unique_ptr<BlockFile> f(new BlockFile);
  f->length = wholeBlocks(bytes);
  f->name = (std::filesystem::path(folder) / fmt::format("rank{}.nvme", rank)).string();
  TRY(f->openLocked(folder));
  TRY(f->reserve());
  if (o.direct)
    f->goDirect();
  std::string why;
  for (Direction *d : {&f->reads, &f->writes}) {
    d->queue = BlockQueue::make({wholeBlocks(o.blockBytes), o.queueDepth, o.uring}, &why);
    d->tail = std::make_unique<Aligned>();
  }
  if (!why.empty())
    f->remarks.push_back("io_uring cannot be used (" + why +
                         "): NVMe transfers go one piece after the other");
  if (o.checksums)
    f->sums.resize(static_cast<size_t>(f->length / kBlockAlign));
  return f;
}

BlockFile::~BlockFile() {
  if (fd < 0)
    return;
  unlink(name.c_str()); // before the lock falls, so that no other run can have it yet
  close(fd);
}

// The lock is on the file, not on its name: between open and lock its last owner may have removed it.
Status BlockFile::openLocked(const std::string &folder) {
  std::error_code e;
  std::filesystem::create_directories(folder, e);
  if (e)
    return problem(folder, "make this folder", e.value());
  for (int tries = 0; tries < 100; ++tries) {
    int opened = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat mine, named;
    if (opened < 0 || fstat(opened, &mine) != 0)
      return problem(name, "create", errno);
    Status s;
    if (!S_ISREG(mine.st_mode))
      s = Status::error("is there and is not a regular file").at(name);
    else if (flock(opened, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
      s = Status::error("is in use by another run; give this run another nvme_path").at(name);
    else if (stat(name.c_str(), &named) == 0 && named.st_ino == mine.st_ino &&
             named.st_dev == mine.st_dev) {
      fd = opened;
      return {};
    }
    close(opened);
    TRY(std::move(s));
  }
  return Status::error("is removed again and again by another run; give this run another nvme_path")
      .at(name);
}

Status BlockFile::reserve() {
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < static_cast<rlim_t>(length))
    return problem(name, fmt::format("reserve {} bytes", length), EFBIG);
  if (ftruncate(fd, 0) != 0)
    return problem(name, "empty", errno);
  // Asked first, for reserving would fill the disk for everybody before it fails.
  struct statvfs disk;
  if (fstatvfs(fd, &disk) == 0 && disk.f_blocks != 0) {
    auto unit = static_cast<int64_t>(disk.f_frsize);
    auto available = static_cast<int64_t>(disk.f_bfree);
    if (length / unit > available)
      return problem(name, fmt::format("reserve {} bytes, {} are free", length, available * unit),
                     ENOSPC);
  }
  int e = posix_fallocate(fd, 0, length);
  return e == 0 ? Status() : problem(name, fmt::format("reserve {} bytes", length), e);
}

// Flags can be set that a file system refuses only when it reads.
void BlockFile::goDirect() {
  auto probe = std::make_unique<Aligned>();
  int flags = fcntl(fd, F_GETFL);
  isDirect = flags >= 0 && fcntl(fd, F_SETFL, flags | O_DIRECT) == 0 &&
             pread(fd, probe->bytes, kBlockAlign, 0) == kBlockAlign;
  if (isDirect)
    return;
  (void)fcntl(fd, F_SETFL, flags);
  remarks.push_back("the file system of nvme_path has no direct I/O: transfers go through the "
                    "system's page cache");
}

Status BlockFile::check(const char *verb, int64_t offset, const void *memory, int64_t bytes) const {
  if (offset < 0 || bytes < 0 || bytes > length || offset > length - bytes)
    return Status::internal(
               fmt::format("{} of {} bytes at {}, the file has {}", verb, bytes, offset, length))
        .at(name);
  if (offset % kBlockAlign || reinterpret_cast<uintptr_t>(memory) % kBlockAlign)
    return Status::internal(fmt::format("{} at {} and memory {} behind a multiple of {}; both must "
                                        "be aligned",
                                        verb, offset,
                                        reinterpret_cast<uintptr_t>(memory) % kBlockAlign,
                                        kBlockAlign))
        .at(name);
  struct stat st;
  if (fstat(fd, &st) != 0)
    return problem(name, "look at it", errno);
  // A write behind the new end would make the file whole again, with zeros where numbers were.
  if (st.st_size < length)
    return failed(verb, bytes, offset, {End::FileEnded, 0, st.st_size});
  return {};
}

Status BlockFile::failed(const char *verb, int64_t bytes, int64_t offset,
                         const BlockOutcome &o) const {
  if (o.end == End::Stopped)
    return stoppedByOther();
  if (o.end == End::FileEnded)
    return Status::error(fmt::format("cannot {} {} bytes at {}: the file ends after {} of its {} "
                                     "bytes; something else has cut it",
                                     verb, bytes, offset, o.offset, length))
        .at(name)
        .note("go on from a checkpoint, with an nvme_path that nothing else writes to");
  return problem(
      name, fmt::format("{} {} bytes at {}, failed at {}", verb, bytes, offset, o.offset), o.error);
}

Status BlockFile::move(Direction &d, bool isWrite, int64_t offset, std::byte *memory, int64_t bytes,
                       const Abort &abort) {
  const char *verb = isWrite ? "write" : "read";
  TRY(check(verb, offset, memory, bytes));
  int64_t rest = bytes % kBlockAlign, body = bytes - rest;
  auto part = [&](int64_t at, std::byte *from, int64_t n) -> Status {
    if (n == 0)
      return {};
    BlockOutcome o = d.queue->transfer(fd, isWrite, at, from, n, abort);
    if (o.end != End::Done)
      return failed(verb, bytes, offset, o);
    if (isWrite)
      remember(at, from, n);
    else
      TRY(compare(at, from, n));
    return {};
  };
  TRY(part(offset, memory, body));
  if (rest != 0) {
    std::byte *tail = d.tail->bytes;
    if (isWrite) {
      std::memcpy(tail, memory + body, static_cast<size_t>(rest));
      std::memset(tail + rest, 0, static_cast<size_t>(kBlockAlign - rest));
    }
    TRY(part(offset + body, tail, kBlockAlign));
    if (!isWrite)
      std::memcpy(memory + body, tail, static_cast<size_t>(rest));
  }
  // Without direct I/O a failing disk shows only when the cache is written.
  if (isWrite && !isDirect && bytes > 0 &&
      sync_file_range(fd, offset, wholeBlocks(bytes),
                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                          SYNC_FILE_RANGE_WAIT_AFTER) != 0 &&
      (errno == EIO || errno == ENOSPC))
    return failed(verb, bytes, offset, {End::Failed, errno, offset});
  return {};
}

Status BlockFile::read(int64_t offset, void *to, int64_t bytes, const Abort &abort) {
  return move(reads, /*isWrite=*/false, offset, static_cast<std::byte *>(to), bytes, abort);
}

Status BlockFile::write(int64_t offset, const void *from, int64_t bytes, const Abort &abort) {
  auto *memory = const_cast<std::byte *>(static_cast<const std::byte *>(from)); // only read
  return move(writes, /*isWrite=*/true, offset, memory, bytes, abort);
}

static uint64_t blockSum(const std::byte *block) {
  return checksum(block, kBlockAlign) | 1; // never the 0 of a block that was not written
}

void BlockFile::remember(int64_t offset, const std::byte *memory, int64_t bytes) {
  if (!sums.empty())
    for (int64_t i = 0; i < bytes; i += kBlockAlign)
      sums[static_cast<size_t>((offset + i) / kBlockAlign)] = blockSum(memory + i);
}

Status BlockFile::compare(int64_t offset, const std::byte *memory, int64_t bytes) const {
  for (int64_t i = 0; !sums.empty() && i < bytes; i += kBlockAlign) {
    uint64_t sum = sums[static_cast<size_t>((offset + i) / kBlockAlign)];
    if (sum != 0 && sum != blockSum(memory + i))
      return Status::error(fmt::format("bytes {} to {} are not what was written there: their "
                                       "checksum differs",
                                       offset + i, offset + i + kBlockAlign))
          .at(name)
          .note("the disk is damaged, or something else has written into the file; go on from a "
                "checkpoint with another nvme_path");
  }
  return {};
}

} // namespace ds
