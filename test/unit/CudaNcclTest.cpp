// SPDX-License-Identifier: Apache-2.0
//
// The NCCL engine on the emulated library: exact sums have the bits of rank order, native ones are near them, and whatever
// fails or stays away, all ranks end with an error that says so.
#include "runtime/CommNccl.h"
#include "runtime/Convert.h"
#include "test/emulation/Machine.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>

extern "C" const DsPlugin *ds_plugin_entry(uint32_t abi, const char *build);

namespace ds::test {
namespace {

using testing::HasSubstr;

const DsDeviceApi &api() { return *ds_plugin_entry(DS_ABI, DS_BUILD)->api; }

// Their sum depends on the order.
double value(int rank, int64_t i) {
  return (rank % 2 ? -1.0 : 1.0) * (1.0 + static_cast<double>(i % 97) * 0.37) *
         (rank == 0 ? 1e6 : 1.1 + 0.3 * rank);
}

/// A collective of every kind, with results as doubles.
struct Job {
  DType type = DType::F32;
  int64_t elems = 0; // of the reduce_scatter and the all_reduce
  bool inPlace = false;
  bool exact = true;
};

struct Rank {
  std::string error; // of bind or run
  std::vector<double> scattered, gathered, reduced;
};

std::vector<double> copyOut(const DeviceSide &side, const void *p, DType t, int64_t n) {
  std::vector<std::byte> bytes(static_cast<size_t>(n * byteSize(t)));
  EXPECT_TRUE(side.copyNow(bytes.data(), p, static_cast<int64_t>(bytes.size())).ok());
  std::vector<double> out;
  for (int64_t i = 0; i < n; ++i)
    out.push_back(toDouble(t, bytes.data(), i));
  return out;
}

Status work(NcclComm &comm, std::unique_ptr<DeviceSide> &side, const Job &job, int lengthens,
            Rank &out) {
  TRY_ASSIGN(side, DeviceSide::open(api(), comm.rank(), 0));
  DType sum = isFloat(job.type) ? accumType(job.type) : job.type;
  int64_t n = job.elems, slice = n / comm.world();
  TRY_ASSIGN(std::byte * src, side->allocate(n * 8, 0));
  TRY_ASSIGN(std::byte * again, side->allocate(n * 8, 0));
  TRY_ASSIGN(std::byte * results, side->allocate(n * 24, 0xff));
  std::byte *scattered = results, *gathered = results + n * 8, *reduced = results + n * 16;
  if (job.inPlace) {
    scattered = src + comm.rank() * slice * byteSize(sum);
    gathered = src; // where its slice lies already
    reduced = again;
  }
  std::vector<std::byte> start(static_cast<size_t>(n * byteSize(job.type)));
  for (int64_t i = 0; i < n; ++i) {
    double v = value(comm.rank(), i);
    convert(job.type, start.data() + i * byteSize(job.type), DType::F64, &v, 1);
  }
  for (std::byte *to : {src, again})
    TRY(side->copyNow(to, start.data(), static_cast<int64_t>(start.size())));
  comm.attach(*side);
  TRY(comm.bind({{InstrKind::ReduceScatter, "p: #1", "l", job.type, n, src, scattered},
                 {InstrKind::AllGather, "p: #2", "l", sum, n, scattered, gathered},
                 {InstrKind::AllReduce, "p: #3", "r", job.type, n + lengthens, again, reduced}},
                {}));
  for (size_t i = 0; i < 3; ++i)
    if (!comm.run(i)) {
      Status s = Status::error(comm.message());
      comm.close();
      return s;
    }
  Status s = deviceStatus(api().streamSync(side->stream(Stream::Comm)));
  if (s.ok()) {
    out.scattered = copyOut(*side, scattered, sum, slice);
    out.gathered = copyOut(*side, gathered, sum, n);
    out.reduced = copyOut(*side, reduced, sum, n);
  }
  comm.close();
  return s;
}

/// absent: a rank that never comes; longer: one whose all_reduce has another length.
std::vector<Rank> runRanks(int world, const Job &job, Abort &abort, int absent = -1,
                           int longer = -1) {
  std::vector<Rank> out(static_cast<size_t>(world));
  auto exchanges = makeThreadExchanges(world, abort);
  std::vector<std::thread> threads;
  for (int r = 0; r < world; ++r)
    threads.emplace_back([&, r] {
      if (r == absent)
        return;
      auto self = static_cast<size_t>(r);
      std::unique_ptr<DeviceSide> side; // outlives comm
      NcclComm comm(std::move(exchanges[self]), abort, job.exact);
      Status s = work(comm, side, job, r == longer, out[self]);
      out[self].error = s.str();
      if (!s.ok())
        abort.raise(std::move(s));
    });
  for (std::thread &t : threads)
    t.join();
  return out;
}

double sumOf(DType t, int world, int64_t i) {
  auto stored = [&](int r) {
    double v = value(r, i);
    uint64_t bits = 0;
    convert(t, &bits, DType::F64, &v, 1);
    return toDouble(t, &bits, 0);
  };
  double sum = stored(0);
  for (int r = 1; r < world; ++r)
    sum = isFloat(t) && t != DType::F64 ? static_cast<float>(sum) + static_cast<float>(stored(r))
                                        : sum + stored(r);
  return sum;
}

TEST(CudaNccl, ExactSumsAreInRankOrder) {
  for (int world : {2, 3, 4})
    for (DType t : {DType::F32, DType::BF16, DType::F64, DType::I64})
      for (int64_t slice : {5, 128, 60000}) // everything to all, and parts
        for (bool inPlace : {false, true}) {
          if (inPlace && (isFloat(t) && accumType(t) != t))
            continue; // never in place
          Abort abort;
          Job job{t, slice * world, inPlace};
          std::vector<Rank> ranks = runRanks(world, job, abort);
          for (int r = 0; r < world; ++r) {
            const Rank &rank = ranks[static_cast<size_t>(r)];
            ASSERT_EQ(rank.error, "");
            for (int64_t i = 0; i < job.elems; ++i) {
              auto k = static_cast<size_t>(i);
              ASSERT_EQ(rank.reduced[k], sumOf(t, world, i)) << text(t) << " " << i;
              ASSERT_EQ(rank.gathered[k], sumOf(t, world, i)) << text(t) << " " << i;
            }
            for (int64_t i = 0; i < slice; ++i)
              ASSERT_EQ(rank.scattered[static_cast<size_t>(i)], sumOf(t, world, r * slice + i));
          }
        }
  EXPECT_EQ(emulated::liveAllocations(), 0);
}

TEST(CudaNccl, NativeSumsAreNearAndTheSameOnAllRanks) {
  for (DType t : {DType::F32, DType::BF16, DType::I64}) {
    Abort abort;
    Job job{t, 4 * 700};
    job.exact = false;
    std::vector<Rank> ranks = runRanks(4, job, abort);
    bool differs = false;
    double allowed = t == DType::BF16 ? 0.02 : 1e-6;
    for (int64_t i = 0; i < job.elems; ++i) {
      auto k = static_cast<size_t>(i);
      double want = sumOf(t, 4, i);
      ASSERT_NEAR(ranks[0].reduced[k], want, allowed * 4e7) << text(t) << " " << i;
      differs |= ranks[0].reduced[k] != want;
      for (const Rank &r : ranks) {
        ASSERT_EQ(r.reduced[k], ranks[0].reduced[k]);
        ASSERT_EQ(r.gathered[k], ranks[0].reduced[k]) << "the scattered sums are the same";
      }
    }
    EXPECT_EQ(differs, isFloat(t)) << text(t);
  }
}

TEST(CudaNccl, EachFailingCallEndsAllRanks) {
  struct Call {
    const char *name;
    bool exact, native; // who calls it
  };
  for (const Call &call : std::vector<Call>{{"ncclGetUniqueId", true, true},
                                            {"ncclCommInitRankConfig", true, true},
                                            {"ncclCommGetAsyncError", true, true},
                                            {"ncclAllGather", true, true},
                                            {"ncclReduceScatter", false, true},
                                            {"ncclAllReduce", false, true},
                                            {"ncclSend", true, false},
                                            {"ncclRecv", true, false},
                                            {"ncclGroupStart", true, false},
                                            {"ncclGroupEnd", true, false}})
    for (bool exact : {true, false}) {
      Abort abort;
      emulated::failCall(call.name, 1);
      runRanks(3, {DType::F32, 3 * 256, false, exact}, abort);
      emulated::failCall("", 0);
      EXPECT_EQ(emulated::liveAllocations(), 0) << call.name;
      ASSERT_EQ(abort.raised(), exact ? call.exact : call.native) << call.name;
      if (!abort.raised())
        continue;
      EXPECT_THAT(abort.status().str(), HasSubstr(std::string(call.name) + ": internal error"));
    }
}

TEST(CudaNccl, AnAbsentRankEndsTheOthers) {
  Abort abort;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    abort.raise(Status::error("rank 2 is gone"));
  });
  std::vector<Rank> ranks = runRanks(4, {DType::F32, 4 * 128}, abort, /*absent=*/2);
  for (size_t r : {0, 1, 3})
    EXPECT_THAT(ranks[r].error, HasSubstr("stopped"));
  other.join();
  EXPECT_EQ(emulated::liveAllocations(), 0);
}

TEST(CudaNccl, DifferentSequencesRefuseToStart) {
  Abort abort;
  std::vector<Rank> ranks = runRanks(2, {DType::F32, 256}, abort, -1, /*longer=*/1);
  EXPECT_THAT(ranks[1].error, HasSubstr("its sequence of collectives differs from rank 0's"));
  EXPECT_THAT(ranks[0].error, HasSubstr("stopped"));
  EXPECT_EQ(emulated::liveAllocations(), 0);
}

// What a broken device does not do any more counts as done, or abort would wait for it for ever.
TEST(CudaNccl, AbortEndsBehindABrokenDevice) {
  const DsCommApi &comms = *api().comm;
  char id[DS_COMM_ID];
  void *comm = nullptr, *stream = nullptr, *p = nullptr;
  ASSERT_EQ(api().open(0, nullptr), nullptr);
  ASSERT_EQ(api().streamCreate(&stream), nullptr);
  ASSERT_EQ(api().allocate(DsMemoryDevice, 256, &p), nullptr);
  ASSERT_EQ(comms.newId(id), nullptr);
  ASSERT_EQ(comms.create(&comm, id, 1, 0), nullptr);
  for (int32_t busy = 1; busy;)
    ASSERT_EQ(comms.poll(comm, &busy), nullptr);
  emulated::addWork(static_cast<cudaStream_t>(stream), [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return std::string("it breaks");
  });
  EXPECT_EQ(comms.collective(comm, DsAllGather, p, p, 64, static_cast<uint8_t>(DType::F32), stream),
            nullptr);
  while (emulated::brokenBy().empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  comms.abort(comm);
  comms.destroy(comm);
  emulated::failCall("", 0); // it has stuck
  api().streamDestroy(stream);
  api().release(DsMemoryDevice, p);
  EXPECT_EQ(emulated::liveAllocations(), 0);
}

} // namespace
} // namespace ds::test
