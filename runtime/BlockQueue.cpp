// SPDX-License-Identifier: Apache-2.0
#include "runtime/BlockQueue.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unistd.h>
#include <vector>
#ifdef DS_HAVE_URING
#include <liburing.h>
#endif

namespace ds {

using End = BlockOutcome::End;

namespace {

struct Piece {
  int64_t offset, bytes; // what is left of it
  std::byte *memory;
};

// What a call or a completion of `n` bytes (or -errno) means for a piece: true if it has to go on. Direct I/O goes on
// at multiples of the alignment only; a part of a block comes from a file that ends inside of it.
bool advance(Piece &p, int64_t n, bool write, BlockOutcome &out) {
  if (n == -EINTR || n == -EAGAIN)
    return true;
  int64_t whole = n > 0 ? n / kBlockAlign * kBlockAlign : 0;
  if (whole == 0) {
    if (out.end == End::Done)
      out = n < 0    ? BlockOutcome{End::Failed, static_cast<int>(-n), p.offset}
            : !write ? BlockOutcome{End::FileEnded, 0, p.offset + n}
                     : BlockOutcome{End::Failed, EIO, p.offset};
    return false;
  }
  p.offset += whole;
  p.bytes -= whole;
  p.memory += whole;
  return p.bytes > 0;
}

class PlainQueue final : public BlockQueue {
public:
  explicit PlainQueue(const BlockQueueOptions &o) : pieceBytes(o.pieceBytes) {}

  BlockOutcome transfer(int fd, bool write, int64_t offset, std::byte *memory, int64_t bytes,
                        const Abort &abort) override {
    BlockOutcome out;
    for (int64_t done = 0; done < bytes && out.end == End::Done; done += pieceBytes) {
      if (abort.raised())
        return {End::Stopped, 0, offset + done};
      Piece p{offset + done, std::min(pieceBytes, bytes - done), memory + done};
      for (bool more = true; more;) {
        auto size = static_cast<size_t>(p.bytes);
        int64_t n =
            write ? pwrite(fd, p.memory, size, p.offset) : pread(fd, p.memory, size, p.offset);
        more = advance(p, n < 0 ? -errno : n, write, out);
      }
    }
    return out;
  }

private:
  const int64_t pieceBytes;
};

#ifdef DS_HAVE_URING
class UringQueue final : public BlockQueue {
public:
  explicit UringQueue(const BlockQueueOptions &o)
      : pieceBytes(o.pieceBytes), pieces(static_cast<size_t>(o.depth)) {
    spare.reserve(pieces.size());
    again.reserve(pieces.size());
  }
  ~UringQueue() override {
    if (open)
      io_uring_queue_exit(&ring);
  }
  /// 0 or an errno.
  int init() {
    int e = io_uring_queue_init(static_cast<unsigned>(pieces.size()), &ring, 0);
    open = e == 0;
    return -e;
  }

  BlockOutcome transfer(int fd, bool write, int64_t offset, std::byte *memory, int64_t bytes,
                        const Abort &abort) override {
    BlockOutcome out;
    spare.clear();
    again.clear();
    for (size_t i = 0; i < pieces.size(); ++i)
      spare.push_back(i);
    int64_t begun = 0;
    inFlight = 0;
    // Pieces in flight point into memory that the caller frees: also after a failure they are waited for.
    while (true) {
      if (out.end == End::Done && abort.raised())
        out = {End::Stopped, 0, offset + begun};
      if (out.end != End::Done) {
        spare.insert(spare.end(), again.begin(), again.end());
        again.clear();
      }
      for (size_t i : again)
        prepare(fd, write, i);
      again.clear();
      while (out.end == End::Done && begun < bytes && !spare.empty()) {
        size_t i = spare.back();
        spare.pop_back();
        pieces[i] = {offset + begun, std::min(pieceBytes, bytes - begun), memory + begun};
        begun += pieces[i].bytes;
        prepare(fd, write, i);
      }
      if (spare.size() == pieces.size())
        return out;
      int e = io_uring_submit_and_wait(&ring, 1);
      inFlight += static_cast<size_t>(std::max(e, 0));
      if (e < 0 && e != -EINTR && e != -EAGAIN && e != -EBUSY) {
        if (out.end == End::Done)
          out = {End::Failed, -e, offset};
        if (inFlight == 0)
          return out;
      }
      reap(write, out);
    }
  }

private:
  void prepare(int fd, bool write, size_t i) {
    io_uring_sqe *sqe = io_uring_get_sqe(&ring); // as many as pieces, so never null
    const Piece &p = pieces[i];
    auto size = static_cast<unsigned>(p.bytes);
    auto at = static_cast<__u64>(p.offset);
    if (write)
      io_uring_prep_write(sqe, fd, p.memory, size, at);
    else
      io_uring_prep_read(sqe, fd, p.memory, size, at);
    io_uring_sqe_set_data64(sqe, i);
  }

  void reap(bool write, BlockOutcome &out) {
    io_uring_cqe *cqe = nullptr;
    while (io_uring_peek_cqe(&ring, &cqe) == 0) {
      auto i = static_cast<size_t>(io_uring_cqe_get_data64(cqe));
      bool more = advance(pieces[i], cqe->res, write, out);
      io_uring_cqe_seen(&ring, cqe);
      --inFlight;
      (more ? again : spare).push_back(i);
    }
  }

  const int64_t pieceBytes;
  std::vector<Piece> pieces;
  std::vector<size_t> spare, again; // pieces that are free, that go on
  size_t inFlight = 0;              // pieces that the kernel has
  io_uring ring{};
  bool open = false;
};
#endif

} // namespace

std::unique_ptr<BlockQueue> BlockQueue::make(const BlockQueueOptions &o, std::string *why) {
  if (!o.uring)
    return std::make_unique<PlainQueue>(o);
#ifdef DS_HAVE_URING
  auto q = std::make_unique<UringQueue>(o);
  int e = q->init();
  if (e == 0)
    return q;
  *why = std::strerror(e);
#else
  *why = "this program was built without liburing";
#endif
  return std::make_unique<PlainQueue>(o);
}

} // namespace ds
