// SPDX-License-Identifier: Apache-2.0
//
// NCCL, with communicators that do not block: whoever calls looks at poll() until what was begun is through, so that a rank which
// is gone ends the run and does not hang it.
#include "kernels/cuda/Nccl.h"

#include "ir/DType.h"
#include "kernels/cuda/Check.h"
#include "kernels/cuda/Library.h"

#if !__has_include(<nccl.h>)

namespace ds::cuda {
const DsCommApi *const kComm = nullptr;
std::string describeNccl() { return "this plugin was built without NCCL's header"; }
} // namespace ds::cuda

#else

#include <chrono>
#include <cstring>
#include <memory>
#include <nccl.h>
#include <thread>

namespace ds::cuda {

namespace {

#define DS_NCCL_FUNCTIONS(F)                                                                       \
  F(ncclGetVersion)                                                                                \
  F(ncclGetErrorString)                                                                            \
  F(ncclGetLastError)                                                                              \
  F(ncclGetUniqueId)                                                                               \
  F(ncclCommInitRankConfig)                                                                        \
  F(ncclCommGetAsyncError)                                                                         \
  F(ncclCommAbort)                                                                                 \
  F(ncclCommFinalize)                                                                              \
  F(ncclCommDestroy)                                                                               \
  F(ncclAllGather)                                                                                 \
  F(ncclReduceScatter)                                                                             \
  F(ncclAllReduce)                                                                                 \
  F(ncclSend)                                                                                      \
  F(ncclRecv)                                                                                      \
  F(ncclGroupStart)                                                                                \
  F(ncclGroupEnd)

// 2.14 is the first whose communicators do not block.
constexpr LibraryName kName{"nccl", "NCCL", "", 21400};

struct Nccl : LibraryState {
#define DS_MEMBER(f) decltype(&::f) f;
  DS_NCCL_FUNCTIONS(DS_MEMBER)
#undef DS_MEMBER
};

Nccl open() {
  Nccl n = {};
#ifdef DS_CUDA_EMULATED
  n.isThere = emulated::hasLibrary("nccl");
#define DS_ROW(name) n.name = ::name;
  DS_NCCL_FUNCTIONS(DS_ROW)
#undef DS_ROW
#else
  Library l{"nccl", {"libnccl.so.2"}, {}};
#define DS_ROW(name) l.functions.push_back({#name, reinterpret_cast<void **>(&n.name)});
  DS_NCCL_FUNCTIONS(DS_ROW)
#undef DS_ROW
  n.isThere = !openLibrary(l, &n.error).empty();
#endif
  int version = 0;
  if (n.isThere)
    n.setVersion(kName,
                 n.ncclGetVersion(&version) == ncclSuccess ? static_cast<size_t>(version) : 0);
  return n;
}

const Nccl &nccl() {
  static const Nccl n = open();
  return n;
}

const LibraryState &state() { return nccl(); }

struct Communicator {
  ncclComm_t comm = nullptr;
  bool ended = false; // by abort
  int32_t world = 1;
};

// "call: what happened (what NCCL says about it)"; what is under way is no error.
const char *checkedNccl(ncclResult_t r, const char *call, ncclComm_t comm) {
  if (r == ncclSuccess || r == ncclInProgress)
    return nullptr;
  auto name = static_cast<int>(std::strcspn(call, "("));
  const char *more = nccl().ncclGetLastError(comm);
  bool says = more && *more;
  return failure("%.*s: %s%s%s%s", name, call, nccl().ncclGetErrorString(r), says ? " (" : "",
                 says ? more : "", says ? ")" : "");
}
#define NCCL_TRY(comm, call)                                                                       \
  if (const char *dsMessage = checkedNccl(nccl().call, #call, comm))                               \
  return dsMessage

ncclDataType_t dataType(uint8_t t) {
  switch (static_cast<DType>(t)) {
  case DType::F64:
    return ncclFloat64;
  case DType::BF16:
    return ncclBfloat16;
  case DType::F16:
    return ncclFloat16;
  case DType::I64:
    return ncclInt64;
  default:
    return ncclFloat32;
  }
}

const char *find(int32_t *found) {
  bool use = false;
  const char *message = findLibrary(kName, state, &use);
  *found = use;
  return message;
}

const char *newId(void *id) {
  static_assert(sizeof(ncclUniqueId) == DS_COMM_ID);
  NCCL_TRY(nullptr, ncclGetUniqueId(static_cast<ncclUniqueId *>(id)));
  return nullptr;
}

const char *create(void **out, const void *id, int32_t world, int32_t rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclUniqueId unique;
  std::memcpy(&unique, id, sizeof unique);
  auto c = std::make_unique<Communicator>();
  c->world = world;
  ncclResult_t made = nccl().ncclCommInitRankConfig(&c->comm, world, unique, rank, &config);
  const char *message = checkedNccl(made, "ncclCommInitRankConfig", nullptr);
  if (message && c->comm) // it may be there in spite of the error
    nccl().ncclCommAbort(c->comm);
  *out = message ? nullptr : c.release();
  return message;
}

const char *poll(void *comm, int32_t *busy) {
  auto *c = static_cast<Communicator *>(comm)->comm;
  ncclResult_t state = ncclSuccess;
  NCCL_TRY(c, ncclCommGetAsyncError(c, &state));
  *busy = state == ncclInProgress;
  return checkedNccl(state, "ncclCommGetAsyncError", c);
}

const char *collective(void *comm, int32_t kind, void *dst, const void *src, int64_t elems,
                       uint8_t dtype, void *stream) {
  auto [c, ended, world] = *static_cast<Communicator *>(comm);
  auto *s = static_cast<cudaStream_t>(stream);
  auto n = static_cast<size_t>(elems), slice = n / static_cast<size_t>(world);
  size_t bytes = slice * static_cast<size_t>(byteSize(static_cast<DType>(dtype)));
  switch (kind) {
  case DsAllGather: // of bytes: nothing is computed
    NCCL_TRY(c, ncclAllGather(src, dst, bytes, ncclUint8, c, s));
    break;
  case DsReduceScatter:
    NCCL_TRY(c, ncclReduceScatter(src, dst, slice, dataType(dtype), ncclSum, c, s));
    break;
  default:
    NCCL_TRY(c, ncclAllReduce(src, dst, n, dataType(dtype), ncclSum, c, s));
    break;
  }
  return nullptr;
}

const char *exchange(void *comm, const DsMessage *messages, int32_t count, void *stream) {
  auto *c = static_cast<Communicator *>(comm)->comm;
  auto *s = static_cast<cudaStream_t>(stream);
  NCCL_TRY(c, ncclGroupStart());
  const char *first = nullptr;
  for (int32_t i = 0; i < count && !first; ++i) {
    const DsMessage &m = messages[i];
    first =
        m.sends
            ? checkedNccl(nccl().ncclSend(m.data, m.bytes, ncclUint8, m.peer, c, s), "ncclSend", c)
            : checkedNccl(nccl().ncclRecv(m.data, m.bytes, ncclUint8, m.peer, c, s), "ncclRecv", c);
  }
  const char *end = checkedNccl(nccl().ncclGroupEnd(), "ncclGroupEnd", c);
  return first ? first : end;
}

const char *abort(void *comm) {
  auto *c = static_cast<Communicator *>(comm);
  c->ended = true;
  NCCL_TRY(nullptr, ncclCommAbort(c->comm));
  return nullptr;
}

// NCCL waits for the others here, but not for ever.
const char *destroy(void *comm) {
  std::unique_ptr<Communicator> c(static_cast<Communicator *>(comm));
  if (c->ended)
    return nullptr;
  using Clock = std::chrono::steady_clock;
  const char *message = checkedNccl(nccl().ncclCommFinalize(c->comm), "ncclCommFinalize", c->comm);
  int32_t busy = 1;
  for (auto end = Clock::now() + std::chrono::seconds(5); !message && busy && Clock::now() < end;) {
    message = poll(c.get(), &busy);
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (!message && !busy)
    return checkedNccl(nccl().ncclCommDestroy(c->comm), "ncclCommDestroy", nullptr);
  nccl().ncclCommAbort(c->comm);
  return message;
}

} // namespace

static const DsCommApi kNccl = {find, newId, create, poll, collective, exchange, abort, destroy};
const DsCommApi *const kComm = &kNccl;

std::string describeNccl() { return describeLibrary(kName, state); }

} // namespace ds::cuda

#endif
