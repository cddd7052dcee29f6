// SPDX-License-Identifier: Apache-2.0
//
// Every wait of planned schedules is taken out, one at a time, and the emulated device must say so where it matters, and only
// there. What matters, the verifier decides, which shares nothing with the emulation.
#include "runtime/CommDevice.h"
#include "runtime/DeviceExecutor.h"
#include "runtime/Loader.h"
#include "test/emulation/include/cuda_runtime.h"
#include "test/unit/DamageBases.h"
#include "test/unit/EmulatedDevice.h"
#include "test/unit/RuntimeTestFiles.h"
#include "test/unit/ScheduleDamages.h"

#include <gmock/gmock.h>

#include <thread>

namespace ds::test {
namespace {

/// Zeros for every input.
class Zeros final : public FeedSource {
public:
  explicit Zeros(const Schedule &s) {
    for (const InputInfo &i : s.inputs) {
      const Buffer &b = s.persistent[static_cast<size_t>(s.findPersistent(i.name))];
      bytes.resize(std::max(bytes.size(), static_cast<size_t>(b.bytes)));
    }
  }
  const void *data(int, int64_t, int, const Abort &) override { return bytes.data(); }

private:
  std::vector<char> bytes;
};

/// Two updates of a schedule that need not be sound: "", or the error that ended them.
std::string run(const Schedule &s) {
  const int world = static_cast<int>(s.world());
  Device device = emulatedDevice();
  TempDir disk;
  auto sequence = updateSequence(s);
  EXPECT_TRUE(sequence.ok());
  Abort abort;
  Zeros zeros(s);
  std::vector<std::unique_ptr<DeviceComm>> comms = makeDeviceComms(world, abort);
  std::vector<std::unique_ptr<LoadedRank>> ranks(static_cast<size_t>(world));
  std::vector<std::unique_ptr<DeviceExecutor>> executors(static_cast<size_t>(world));
  Counter loaded, stepped;
  auto load = [&](size_t r) -> Status {
    LoadOptions o;
    o.rank = static_cast<int>(r);
    o.nvmePath = disk.path;
    TRY_ASSIGN(ranks[r], LoadedRank::load(s, device, o));
    comms[r]->attach(*ranks[r]->deviceSide());
    TRY(comms[r]->bind(std::move(ranks[r]->commOps), {}));
    executors[r] = std::make_unique<DeviceExecutor>(s, *ranks[r], *sequence, *comms[r], &zeros,
                                                    abort, nullptr);
    return executors[r]->prepare();
  };
  auto thread = [&](size_t r, Stream stream) {
    if (stream == Stream::Compute) {
      if (Status status = load(r); !status.ok())
        abort.raise(std::move(status));
      loaded.add();
    }
    if (!loaded.wait(static_cast<uint32_t>(world), abort))
      return;
    for (uint32_t update = 0; update < 2;
         ++update) { // none begins before compute has ended the last one
      if (!stepped.wait(update * static_cast<uint32_t>(world), abort) || abort.raised())
        return;
      executors[r]->runUpdate(stream, update);
      if (stream == Stream::Compute)
        stepped.add();
    }
  };
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks.size(); ++r)
    for (Stream stream : {Stream::Compute, Stream::Feed, Stream::Host, Stream::Read, Stream::Write})
      threads.emplace_back([&, r, stream] { thread(r, stream); });
  for (std::thread &t : threads)
    t.join();
  for (const auto &rank : ranks)
    if (rank)
      rank->deviceSide()->drain();
  executors.clear();
  ranks.clear();
  std::string broken = emulated::brokenBy();
  emulated::failCall("", 0); // it has stuck
  // Whichever rank comes to a call first tells it, and a library's call in its own words.
  return !broken.empty() ? broken : abort.raised() ? abort.status().str() : "";
}

void dropWaits(const std::vector<Base> &bases, int stride, int leastTold) {
  emulated::setChecks(false); // of kernels
  int told = 0, harmless = 0;
  for (const Base &b : bases) {
    SCOPED_TRACE(b.str());
    Schedule good = planned(b);
    ASSERT_EQ(run(good), "");
    for (Damage d : {Damage::DropWait, Damage::DropCarriedWait})
      forEachDamage(good, d, 1, stride, [&](const Damaged &bad) {
        bool matters = !verifySchedule(bad.schedule).ok();
        std::string error = run(bad.schedule);
        if (matters)
          EXPECT_THAT(error, testing::HasSubstr("nothing orders the two")) << bad.what;
        else
          EXPECT_EQ(error, "") << bad.what;
        ++(matters ? told : harmless);
      });
  }
  emulated::setChecks(true);
  std::printf("%d dropped waits told, %d harmless\n", told, harmless);
  EXPECT_GE(told, leastTold);
}

TEST(CudaOrder, DroppedWaitsAreTold) {
  dropWaits(
      {{.stage = 3, .world = 2},
       {.stage = 2, .gradAccum = 2, .world = 1, .optimizer = true},
       {.stage = 2, .gradAccum = 2, .world = 1, .carry = true, .optimizer = true, .nvme = true}},
      5, 10);
}

TEST(CudaOrderSlow, EveryDroppedWaitIsTold) {
  std::vector<Base> bases;
  for (int stage = 0; stage < 4; ++stage)
    bases.push_back({.stage = stage, .gradAccum = stage % 2 + 1, .world = 2});
  bases.push_back({.stage = 3, .gradAccum = 2, .world = 3, .carry = true});
  bases.push_back({.stage = 1, .gradAccum = 3, .world = 1, .optimizer = true});
  bases.push_back({.stage = 3, .gradAccum = 1, .world = 2, .optimizer = true, .param = true});
  bases.push_back({.stage = 2, .gradAccum = 2, .world = 2, .optimizer = true, .nvme = true});
  bases.push_back({.stage = 1, .world = 1, .optimizer = true, .slices = true});
  bases.push_back({.tied = true, .stage = 3, .world = 2, .half = true});
  dropWaits(bases, 1, 100);
}

} // namespace
} // namespace ds::test
