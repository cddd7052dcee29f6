// SPDX-License-Identifier: Apache-2.0
//
// The emulated NCCL. Ranks, threads of one process or processes of one machine, share a file in memory with a mailbox for every
// ordered pair. An operation is a work item of its stream: it puts what it sends into mailboxes piece by piece, and takes what it
// receives out of them, until abort ends it. Like NCCL it adds along a ring that starts at another rank for every slice, rounding
// at each step, and notices nothing of a rank that is gone.
#include "kernels/Element.h"
#include "test/emulation/Machine.h"

#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <memory>
#include <random>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

using namespace ds::emulated;

namespace {

constexpr size_t kPiece = 16 << 10;

struct Mailbox {
  std::atomic<uint32_t> full;
  uint32_t bytes;
  uint64_t operation; // of the sender, and of all
  char data[kPiece];
};
struct Header {
  std::atomic<int32_t> arrived;
};

struct Message {
  int peer;
  bool sends;
  char *data;
  size_t bytes;
};

void rest() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }

} // namespace

struct NcclRank {
  int world = 1, rank = 0;
  std::string file;
  char *memory = nullptr;
  size_t bytes = 0;
  bool hasArrived = false;
  std::atomic<bool> aborted = false;
  std::atomic<int> working = 0; // operations enqueued and not through
  std::string error;

  Header &header() const { return *reinterpret_cast<Header *>(memory); }
  Mailbox &box(int from, int to) const {
    return reinterpret_cast<Mailbox *>(memory + 4096)[from * world + to];
  }
  ~NcclRank() {
    if (memory)
      munmap(memory, bytes);
    if (rank == 0)
      unlink(file.c_str());
  }
};

namespace {

ncclResult_t begin(const char *name) {
  return enter(name) == cudaSuccess ? ncclSuccess : ncclInternalError;
}

// Whether there was anything to do for this message.
bool move(const NcclRank &c, Message &m, uint64_t operation, bool *mismatch) {
  Mailbox &box = m.sends ? c.box(c.rank, m.peer) : c.box(m.peer, c.rank);
  if (box.full.load(std::memory_order_acquire) == (m.sends ? 1u : 0u))
    return false;
  size_t n = std::min(m.bytes, kPiece);
  if (m.sends) {
    std::memcpy(box.data, m.data, n);
    box.bytes = static_cast<uint32_t>(n);
    box.operation = operation;
    box.full.store(1, std::memory_order_release);
  } else {
    *mismatch = box.bytes != n || box.operation != operation;
    std::memcpy(m.data, box.data, *mismatch ? 0 : n);
    box.full.store(0, std::memory_order_release);
  }
  m.data += n;
  m.bytes -= n;
  return true;
}

std::string exchange(const NcclRank &c, std::vector<Message> messages, uint64_t operation) {
  bool mismatch = false;
  while (!messages.empty()) {
    if (c.aborted)
      return "";
    bool moved = false;
    for (Message &m : messages)
      // One piece at a time per pair and direction: later messages of it wait.
      if (&m == &*std::find_if(messages.begin(), messages.end(), [&](const Message &o) {
            return o.peer == m.peer && o.sends == m.sends;
          }))
        moved |= m.bytes == 0 || move(c, m, operation, &mismatch);
    if (mismatch)
      return "ranks of one communicator called different operations";
    std::erase_if(messages, [](const Message &m) { return m.bytes == 0; });
    if (!moved)
      rest();
  }
  return "";
}

size_t sizeOf(ncclDataType_t t) {
  switch (t) {
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclFloat32:
    return 4;
  default:
    return 8;
  }
}

// Slice `slice` along the ring: from the rank behind it to itself.
template <typename T>
void addSlice(const std::vector<std::vector<char>> &all, int slice, size_t from, size_t end,
              void *dst) {
  int world = static_cast<int>(all.size());
  auto *out = static_cast<T *>(dst);
  for (size_t i = from; i < end; ++i) {
    auto at = [&](int rank) {
      T v;
      std::memcpy(&v, all[static_cast<size_t>(rank)].data() + i * sizeof v, sizeof v);
      return v;
    };
    T sum = at((slice + 1) % world);
    for (int k = 2; k <= world; ++k)
      sum = ds::elem::store<T>(ds::elem::load(sum) + ds::elem::load(at((slice + k) % world)));
    out[i - from] = sum;
  }
}
void addSlice(ncclDataType_t t, const std::vector<std::vector<char>> &all, int slice, size_t from,
              size_t end, void *dst) {
  switch (t) {
  case ncclFloat32:
    return addSlice<float>(all, slice, from, end, dst);
  case ncclFloat64:
    return addSlice<double>(all, slice, from, end, dst);
  case ncclInt64:
    return addSlice<uint64_t>(all, slice, from, end, dst);
  case ncclFloat16:
    return addSlice<ds::elem::F16>(all, slice, from, end, dst);
  default:
    return addSlice<ds::elem::BF16>(all, slice, from, end, dst);
  }
}

// What all ranks have at src, by rank.
std::string gather(const NcclRank &c, const void *src, size_t bytes, uint64_t operation,
                   std::vector<std::vector<char>> *all) {
  std::vector<Message> messages;
  all->assign(static_cast<size_t>(c.world), std::vector<char>(bytes));
  auto *own = static_cast<char *>(const_cast<void *>(src));
  for (int r = 0; r < c.world; ++r) {
    char *to = (*all)[static_cast<size_t>(r)].data();
    if (r == c.rank) {
      std::memcpy(to, own, bytes);
      continue;
    }
    messages.push_back({r, true, own, bytes});
    messages.push_back({r, false, to, bytes});
  }
  return exchange(c, std::move(messages), operation);
}

enum Kind : uint64_t { kGather = 1, kScatter, kReduce, kMessages };

std::string collect(const NcclRank &c, Kind kind, const void *src, void *dst, size_t count,
                    ncclDataType_t t) {
  auto world = static_cast<size_t>(c.world), me = static_cast<size_t>(c.rank);
  size_t size = sizeOf(t), whole = kind == kScatter ? count * world : count;
  std::vector<std::vector<char>> all;
  uint64_t operation = kind * 1000003 + count * 16 + t;
  if (std::string error = gather(c, src, whole * size, operation, &all);
      !error.empty() || c.aborted)
    return error;
  if (kind == kScatter) {
    addSlice(t, all, c.rank, me * count, me * count + count, dst);
    return "";
  }
  for (size_t r = 0; r < world; ++r) {
    if (kind == kGather) {
      std::memcpy(static_cast<char *>(dst) + r * count * size, all[r].data(), count * size);
      continue;
    }
    size_t from = count * r / world, end = count * (r + 1) / world;
    addSlice(t, all, static_cast<int>(r), from, end, static_cast<char *>(dst) + from * size);
  }
  return "";
}

ncclResult_t enqueue(ncclComm_t c, cudaStream_t s, std::function<std::string()> work) {
  // Its end counts, whether it has run or not: nothing does once something failed.
  ++c->working;
  std::shared_ptr<void> through(nullptr, [c](void *) { --c->working; });
  addWork(s, [c, work = std::move(work), through = std::move(through)] {
    return c->aborted ? std::string() : work();
  });
  return ncclInProgress; // the caller has to look
}

ncclResult_t collective(const char *name, Kind kind, const void *src, void *dst, size_t count,
                        ncclDataType_t t, ncclComm_t c, cudaStream_t s) {
  if (ncclResult_t r = begin(name))
    return r;
  size_t size = sizeOf(t), times = static_cast<size_t>(c->world);
  if (!c->hasArrived || c->aborted || !exists(s) ||
      !isInside(src, count * size * (kind == kScatter ? times : 1)) ||
      !isInside(dst, count * size * (kind == kGather ? times : 1)))
    return ncclInvalidArgument;
  Touches touches;
  touches.reads(src, count * size * (kind == kScatter ? times : 1));
  touches.writes(dst, count * size * (kind == kGather ? times : 1));
  return enqueue(c, s, [=] { return collect(*c, kind, src, dst, count, t); });
}

/// Between ncclGroupStart and ncclGroupEnd, on one thread.
struct Group {
  bool isOpen = false;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Message> messages;
};
thread_local Group group;

ncclResult_t message(const char *name, bool sends, void *data, size_t bytes, int peer, ncclComm_t c,
                     cudaStream_t s) {
  if (ncclResult_t r = begin(name))
    return r;
  if (!group.isOpen || !c->hasArrived || c->aborted || peer < 0 || peer >= c->world ||
      peer == c->rank || !exists(s) || !isInside(data, bytes))
    return ncclInvalidArgument;
  group.comm = c;
  group.stream = s;
  group.messages.push_back({peer, sends, static_cast<char *>(data), bytes});
  return ncclSuccess;
}

} // namespace

ncclResult_t ncclGetVersion(int *version) {
  *version = static_cast<int>(fromEnvironment("DS_EMULATED_NCCL", 22809));
  return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t r) {
  switch (r) {
  case ncclSystemError:
    return "unhandled system error";
  case ncclInternalError:
    return "internal error";
  case ncclInvalidArgument:
    return "invalid argument";
  default:
    return "no error";
  }
}
const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  if (ncclResult_t r = begin("ncclGetUniqueId"))
    return r;
  std::random_device random;
  std::snprintf(id->internal, sizeof id->internal, "/dev/shm/ds-emulated-nccl-%d-%08x", getpid(),
                random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int world, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  if (ncclResult_t r = begin("ncclCommInitRankConfig"))
    return r;
  if (config->blocking || rank < 0 || rank >= world)
    return ncclInvalidArgument;
  auto c = std::make_unique<NcclRank>();
  c->world = world;
  c->rank = rank;
  c->file = id.internal;
  c->bytes = 4096 + sizeof(Mailbox) * static_cast<size_t>(world) * static_cast<size_t>(world);
  int file = open(c->file.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(c->bytes)) != 0)
    return ncclSystemError;
  void *p = mmap(nullptr, c->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (p == MAP_FAILED)
    return ncclSystemError;
  c->memory = static_cast<char *>(p);
  ++c->header().arrived;
  *out = c.release();
  countObject(1);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state) {
  if (ncclResult_t r = begin("ncclCommGetAsyncError"))
    return r;
  c->hasArrived |= c->header().arrived == c->world;
  *state = c->hasArrived ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}

static ncclResult_t end(const char *name, ncclComm_t c, bool aborts) {
  ncclResult_t r = begin(name);
  c->aborted = aborts;
  while (c->working > 0)
    rest();
  delete c;
  countObject(-1);
  return r;
}
ncclResult_t ncclCommAbort(ncclComm_t c) { return end("ncclCommAbort", c, true); }
ncclResult_t ncclCommFinalize(ncclComm_t) { return begin("ncclCommFinalize"); }
ncclResult_t ncclCommDestroy(ncclComm_t c) { return end("ncclCommDestroy", c, false); }

ncclResult_t ncclAllGather(const void *src, void *dst, size_t count, ncclDataType_t t, ncclComm_t c,
                           cudaStream_t s) {
  return collective("ncclAllGather", kGather, src, dst, count, t, c, s);
}
ncclResult_t ncclReduceScatter(const void *src, void *dst, size_t count, ncclDataType_t t,
                               ncclRedOp_t, ncclComm_t c, cudaStream_t s) {
  return collective("ncclReduceScatter", kScatter, src, dst, count, t, c, s);
}
ncclResult_t ncclAllReduce(const void *src, void *dst, size_t count, ncclDataType_t t, ncclRedOp_t,
                           ncclComm_t c, cudaStream_t s) {
  return collective("ncclAllReduce", kReduce, src, dst, count, t, c, s);
}
ncclResult_t ncclSend(const void *src, size_t count, ncclDataType_t t, int peer, ncclComm_t c,
                      cudaStream_t s) {
  return message("ncclSend", true, const_cast<void *>(src), count * sizeOf(t), peer, c, s);
}
ncclResult_t ncclRecv(void *dst, size_t count, ncclDataType_t t, int peer, ncclComm_t c,
                      cudaStream_t s) {
  return message("ncclRecv", false, dst, count * sizeOf(t), peer, c, s);
}
ncclResult_t ncclGroupStart() {
  ncclResult_t r = begin("ncclGroupStart");
  group = {};
  group.isOpen = r == ncclSuccess;
  return r;
}
ncclResult_t ncclGroupEnd() {
  Group g = std::move(group);
  group = {};
  if (ncclResult_t r = begin("ncclGroupEnd"))
    return r;
  if (g.messages.empty())
    return ncclSuccess;
  Touches touches;
  for (const Message &m : g.messages)
    m.sends ? touches.reads(m.data, m.bytes) : touches.writes(m.data, m.bytes);
  return enqueue(g.comm, g.stream, [c = g.comm, messages = std::move(g.messages)] {
    return exchange(*c, messages, kMessages * 1000003);
  });
}
