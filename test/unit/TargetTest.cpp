// SPDX-License-Identifier: Apache-2.0
//
// Target descriptions, and whether plans fit them.
#include "frontend/Target.h"
#include "passes/Cost.h"
#include "tools/Fit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

using namespace ds;
using testing::HasSubstr;

namespace {

constexpr int64_t kGiB = int64_t{1} << 30;

std::string errors(const std::string &text) {
  StatusOr<Target> t = parseTarget(text, "t.json");
  return t.ok() ? "" : t.status().str();
}

Schedule arenas(std::vector<std::pair<Space, int64_t>> all) {
  Schedule s;
  for (auto [space, bytes] : all) {
    ArenaInfo a;
    a.space = space;
    a.bytes = bytes;
    s.arenas.push_back(a);
  }
  return s;
}

std::string verdict(const Schedule &s, const PlanConfig &c) { return checkFits(s, c).str(); }

} // namespace

TEST(Target, RowsAreComplete) {
  for (const Target &t : targetTable()) {
    SCOPED_TRACE(t.name);
    StatusOr<Target> found = findTarget(t.name);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->deviceMemory, t.deviceMemory);
    EXPECT_GT(t.deviceBytes(1), t.reserve);
    EXPECT_GT(t.reserve, 0);
    bool rates = t.memoryRate > 0;
    for (double rate : {t.linkRate, t.flopsF32, t.flops16Bit})
      EXPECT_EQ(rate > 0, rates) << "all or none";
    EXPECT_GE(t.flops16Bit, t.flopsF32);
    Target d = t.withDefaults();
    for (double value : {d.hostLinkRate, d.hostMemoryRate, d.nvmeReadRate, d.nvmeWriteRate,
                         d.launchSeconds, d.collectiveSeconds, d.hopSeconds})
      EXPECT_GT(value, 0);
    for (double part : {d.productFraction, d.memoryFraction, d.linkFraction})
      EXPECT_TRUE(part > 0 && part <= 1) << part;
  }
  EXPECT_EQ(targetTable()[0].withDefaults().productFraction, 0.7);
  EXPECT_EQ(findTarget("A100-80")->deviceMemory, int64_t{81251} << 20);
  EXPECT_EQ(findTarget("h100-80")->flops16Bit, 989e12);
}

TEST(Target, TheMachinesMemoryIsShared) {
  const Target cpu = *findTarget("cpu");
  EXPECT_EQ(cpu.deviceBytes(4), cpu.deviceBytes(1) / 4);
  EXPECT_EQ(findTarget("a10-24")->deviceBytes(4), int64_t{23028} << 20);
}

// A ring of more ranks than a machine has runs over the network: at its rate, with a longer step per machine.
TEST(Target, MoreRanksThanAMachineHasUseTheNetwork) {
  const Target t = *findTarget("a100-80");
  EXPECT_EQ(t.perMachine(4), 4);
  EXPECT_EQ(t.perMachine(64), 8);
  EXPECT_EQ(findTarget("cpu")->perMachine(64), 64);
  EXPECT_DOUBLE_EQ(ratesOf(t, 8).link, 0.8 * 300e9);
  EXPECT_DOUBLE_EQ(ratesOf(t, 8).hop, 3.4e-6);
  EXPECT_DOUBLE_EQ(ratesOf(t, 16).link, 0.8 * 8 * 25e9);
  EXPECT_DOUBLE_EQ(ratesOf(t, 16).hop, (7 * 3.4e-6 + 14e-6) / 8);
  PlanConfig c;
  c.target = "a100-80";
  c.ranksPerMachine = 1;
  EXPECT_DOUBLE_EQ(ratesOf(**targetOf(c), 2).link, 0.8 * 25e9);
  StatusOr<Target> file =
      parseTarget(R"({"device_memory": "1GiB", "machine_ranks": 2, "link_bytes_per_second": 1e10,
    "network_bytes_per_second": 1e9})",
                  "ours.json");
  ASSERT_TRUE(file.ok()) << file.status().str();
  EXPECT_DOUBLE_EQ(ratesOf(*file, 4).link, 0.8 * 2e9);
}

TEST(Target, FilesAreReadAsTheConfigIs) {
  StatusOr<Target> t = parseTarget(R"({ // ours
    "device_memory": "48GiB", "reserve": 1e9, "link_bytes_per_second": 25e9, "flops_f32": 1e13,})",
                                   "dir/ours.json");
  ASSERT_TRUE(t.ok()) << t.status().str();
  EXPECT_EQ(t->name, "ours.json");
  EXPECT_EQ(t->deviceMemory, 48 * kGiB);
  EXPECT_EQ(t->reserve, 1'000'000'000);
  EXPECT_EQ(t->linkRate, 25e9);
  EXPECT_EQ(t->flopsF32, 1e13);
  EXPECT_EQ(t->memoryRate, 0);
}

TEST(Target, MeasuredRatesAreRead) {
  StatusOr<Target> t = parseTarget(R"({"device_memory": "1GiB", "ranks": 2, "launch_seconds": 1e-7,
    "curves": {"softmax f32": [[1e6, 9e9], [1e8, 5e9]], "matmul bf16": [[1, 2]]}})",
                                   "ours.json");
  ASSERT_TRUE(t.ok()) << t.status().str();
  EXPECT_EQ(t->ranks, 2);
  EXPECT_EQ(t->launchSeconds, 1e-7);
  ASSERT_EQ(t->curves.size(), 2u);
  ASSERT_EQ(t->curves["softmax f32"].size(), 2u);
  EXPECT_EQ(t->curves["softmax f32"][1].amount, 1e8);
  EXPECT_EQ(t->curves["softmax f32"][1].perSecond, 5e9);
  auto curves = [](const std::string &value) {
    return errors("{\"device_memory\": 1, \"curves\": " + value + "}");
  };
  for (const char *bad : {"[]", "[[1]]", "[[1,2,3]]", "[[1,0]]", "[[2,1],[1,1]]", "[[1,1],[1,2]]",
                          "3", "[[1,\"2\"]]", "{}", "[[1e400,1]]", "[7]"})
    EXPECT_THAT(curves("{\"add f32\": " + std::string(bad) + "}"),
                HasSubstr("curves.add f32 is not a list of pairs"))
        << bad;
  EXPECT_THAT(curves("[1]"), HasSubstr("curves is an array, expected an object"));
  EXPECT_THAT(errors("{\"device_memory\": 1, \"ranks\": 0}"),
              HasSubstr("ranks is 0, expected a whole number above 0"));
}

TEST(Target, ProblemsOfAFileAreToldAtOnce) {
  std::string text =
      errors("{\"device_memry\": 1, \"reserve\": \"much\",\n \"flops_f32\": -1, \"name\": 3}");
  EXPECT_THAT(
      text, HasSubstr("t.json:1:2: error: device_memry: unknown key; did you mean device_memory?"));
  EXPECT_THAT(text, HasSubstr("t.json:1:32: error: reserve is \"much\", expected a size such as"));
  EXPECT_THAT(text, HasSubstr("t.json:2:15: error: flops_f32 is -1, expected a number above 0"));
  EXPECT_THAT(text, HasSubstr("name is 3, expected text"));
  EXPECT_THAT(text, HasSubstr("t.json:1:1: error: device_memory is missing"));
  EXPECT_THAT(errors("[1]"), HasSubstr("the target is an array, expected an object"));
  EXPECT_THAT(errors("{\"device_memory\": 1, \"device\": \"gpu\"}"),
              HasSubstr("t.json:1:32: error: device is \"gpu\", expected \"cuda\" or \"cpu\""));
  EXPECT_THAT(errors("{\"device_memory\": 0}"), HasSubstr("device_memory is 0, expected a size"));
  EXPECT_THAT(errors("{\"device_memory\": 1, \"device_memory\": 2}"),
              HasSubstr("given twice, first at t.json:1:2"));
  EXPECT_THAT(errors("{\"device_memory\": \"1GiB\", \"reserve\": \"1GiB\"}"),
              HasSubstr("reserve is 1.0 GiB, not less than device_memory, 1.0 GiB"));
  EXPECT_THAT(findTarget("h100").status().str(), HasSubstr("unknown target 'h100'"));
  EXPECT_THAT(findTarget("a10024").status().str(), HasSubstr("did you mean a10-24?"));
  EXPECT_THAT(findTarget("none.json").status().str(),
              HasSubstr("none.json: error: the target cannot be read: No such file"));
}

TEST(Fit, TheReserveIsDeducted) {
  PlanConfig c;
  c.deviceMemory = 10 * kGiB;
  EXPECT_EQ(verdict(arenas({{Space::Device, 10 * kGiB}}), c), "");
  c.memoryReserve = kGiB;
  EXPECT_EQ(verdict(arenas({{Space::Device, 9 * kGiB}}), c), "");
  Status s = checkFits(arenas({{Space::Device, 9 * kGiB + kGiB / 2}}), c);
  EXPECT_EQ(s.code(), Code::DoesNotFit);
  EXPECT_THAT(s.str(), HasSubstr("a rank needs 9.5 GiB of the device's device memory (10.0 GiB, "
                                 "less 1.0 GiB for library contexts): short 512.0 MiB"));
  c.target = "a10-24"; // the flags win
  EXPECT_EQ(verdict(arenas({{Space::Device, 9 * kGiB}}), c), "");
  c.deviceMemory = c.memoryReserve = -1;
  EXPECT_EQ(memoryLimit(c).take()->available(), int64_t{23028 - 1024} << 20);
}

TEST(Fit, HostMemoryIsALimitWhereItIsStated) {
  PlanConfig c;
  c.target = "a100-40"; // 128 GiB
  EXPECT_THAT(verdict(arenas({{Space::Device, 1}, {Space::Host, 129 * kGiB}}), c),
              HasSubstr("a rank needs 129.0 GiB of a100-40's host memory (128.0 GiB)"));
  EXPECT_EQ(verdict(arenas({{Space::Device, 1}, {Space::Host, 128 * kGiB}}), c), "");
  c.target = "l40s";
  EXPECT_EQ(verdict(arenas({{Space::Device, 1}, {Space::Host, 129 * kGiB}}), c), "");
}

TEST(Fit, ALimitMustLeaveSomething) {
  PlanConfig c;
  c.memoryReserve = kGiB;
  EXPECT_THAT(memoryLimit(c).status().str(), HasSubstr("needs --target or --device-memory"));
  c.deviceMemory = kGiB;
  EXPECT_THAT(memoryLimit(c).status().str(), HasSubstr("nothing is left"));
}

TEST(Fit, VerdictsNameWhatMakesUpTheShortage) {
  MemoryReport m;
  m.persistent = {{BufferKind::Param, 4 * kGiB}, {BufferKind::State, 8 * kGiB}};
  for (int layer = 0; layer < 12; ++layer)
    m.peak.live.push_back({"h." + std::to_string(layer) + ".softmax", kGiB});
  m.peak.live.push_back({"logits", 3 * kGiB});
  m.arena = 27 * kGiB;
  MemoryLimit limit{"box", 30 * kGiB, kGiB};
  EXPECT_EQ(verdictText(m, limit), "fits, 2.0 GiB spare");
  limit.capacity = 20 * kGiB;
  EXPECT_EQ(verdictText(m, limit), "short 8.0 GiB: h.*.softmax (12) 12.0 GiB");
  limit.capacity = 11 * kGiB;
  EXPECT_EQ(verdictText(m, limit),
            "short 17.0 GiB: h.*.softmax (12) 12.0 GiB, optimizer states 8.0 GiB");
  EXPECT_EQ(withoutLayer("a.b"), "a.b");
  EXPECT_EQ(withoutLayer("h.95.4.grad"), "h.*.4.grad");
}
