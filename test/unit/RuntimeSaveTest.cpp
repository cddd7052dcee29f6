// SPDX-License-Identifier: Apache-2.0
//
// Weights in and out: sources by byte range, safetensors files that do not depend on the stage, clean failures.
#include "runtime/Convert.h"
#include "runtime/Sources.h"
#include "runtime/Trainer.h"

#include "test/unit/RuntimeModel.h"
#include "test/unit/RuntimeTestFiles.h"

#include <cmath>
#include <csignal>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/resource.h>

using namespace ds;
using namespace ds::test;

namespace {

std::unique_ptr<Trainer> trainer(Schedule s) {
  RunOptions o;
  o.data = "synthetic:1";
  auto t = Trainer::create(std::move(s), refDevice(), o);
  EXPECT_TRUE(t.ok()) << t.status().str();
  return t.ok() ? std::move(t).take() : nullptr;
}

TEST(RuntimeSave, FilesAreEqualForAllStagesAndHoldTheWeights) {
  TempDir dir;
  std::string stage3, stage0;
  {
    auto t = trainer(makeMlp(3, 1, 3));
    ASSERT_TRUE(t->step().ok());
    ASSERT_TRUE(t->saveModel(dir / "m.safetensors").ok());
    stage3 = readAll(dir / "m.safetensors");
    uint64_t length;
    std::memcpy(&length, stage3.data(), 8);
    EXPECT_EQ(length % 8, 0u);
    std::string json = stage3.substr(8, length);
    EXPECT_EQ(json.substr(0, json.find_last_of('}') + 1),
              R"({"__metadata__":{"format":"pt"},"fc1.weight":{"dtype":"F32","shape":[8,16],)"
              R"("data_offsets":[0,512]},"w2.weight":{"dtype":"F32","shape":[16,4],)"
              R"("data_offsets":[512,768]}})");
    ASSERT_EQ(stage3.size(), 8 + length + 768);
    auto w2 = t->readParam("w2.weight");
    ASSERT_TRUE(w2.ok());
    for (int64_t i = 0; i < 64; ++i)
      EXPECT_EQ(toDouble(DType::F32, stage3.data() + 8 + length + 512, i), (*w2)[i]);
  }
  auto t = trainer(makeMlp(3, 1, 0));
  ASSERT_TRUE(t->step().ok());
  ASSERT_TRUE(t->saveModel(dir / "n.safetensors").ok());
  stage0 = readAll(dir / "n.safetensors");
  EXPECT_TRUE(stage0 == stage3);
}

TEST(RuntimeSave, FailuresLeaveNothingBehindAndTrainingGoesOn) {
  TempDir dir;
  auto t = trainer(makeMlp(2, 1, 3));
  Status s = t->saveModel(dir / "no/such/folder.safetensors");
  EXPECT_NE(s.str().find("cannot create: No such file or directory"), std::string::npos) << s.str();

  rlimit old, small; // as a full disk, for the file's size
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  small = old;
  small.rlim_cur = 500;
  auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  s = t->saveModel(dir / "large.safetensors");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_NE(s.str().find("large.safetensors.tmp: error: cannot resize: File too large"),
            std::string::npos)
      << s.str();
  EXPECT_FALSE(std::filesystem::exists(dir / "large.safetensors.tmp"));

  std::filesystem::create_directory(dir / "taken.safetensors");
  s = t->saveModel(dir / "taken.safetensors"); // found by the last step, the rename
  EXPECT_NE(s.str().find("taken.safetensors"), std::string::npos) << s.str();
  EXPECT_FALSE(std::filesystem::exists(dir / "taken.safetensors.tmp"));
  EXPECT_TRUE(t->step().ok());
  EXPECT_TRUE(t->saveModel(dir / "m.safetensors").ok());
}

TEST(RuntimeSources, RanksReadTheirRangesOfAFile) {
  TempDir dir;
  std::vector<double> weights(2 + 192);
  for (size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<double>(i) / 8;
  dir.write("m.data", weights);
  for (int64_t stage : {0, 3}) {
    Schedule s = makeMlp(2, 1, stage);
    for (SegmentInfo &g : s.buckets[0].segments) {
      g.source = {};
      g.source.kind = Source::Kind::File;
      g.source.path = "m.data";
      g.source.stored = DType::F64; // converted on load, and back on save
      g.source.offset = 8 * (2 + g.at);
    }
    s.directory = dir.path;
    auto t = trainer(std::move(s));
    ASSERT_NE(t, nullptr);
    auto w1 = t->readParam("fc1.weight"), w2 = t->readParam("w2.weight");
    ASSERT_TRUE(w1.ok() && w2.ok());
    for (size_t i = 0; i < 192; ++i)
      EXPECT_EQ(i < 128 ? (*w1)[i] : (*w2)[i - 128], weights[i + 2]);
    ASSERT_TRUE(t->saveModel(dir / "m.safetensors").ok());
    std::string saved = readAll(dir / "m.safetensors");
    EXPECT_EQ(saved.substr(saved.size() - 192 * 8),
              std::string(reinterpret_cast<char *>(weights.data() + 2), 192 * 8));
  }
}

TEST(RuntimeSources, BadFilesAreNamedBeforeAnythingIsLoaded) {
  TempDir dir;
  dir.write("short.data", std::vector<float>(100));
  std::filesystem::create_symlink("/etc/hostname", dir / "link.data");
  auto errorFor = [&](const char *path, int64_t offset) {
    Schedule s = makeMlp(2, 1, 3);
    s.directory = dir.path;
    Source &source = s.buckets[0].segments[0].source;
    source.kind = Source::Kind::File;
    source.path = path;
    source.offset = offset;
    return checkSources(s).str();
  };
  std::string e = errorFor("short.data", 16);
  EXPECT_NE(e.find("short.data: error: w1.weight: wants 512 bytes at 16, the file has 400 bytes"),
            std::string::npos)
      << e;
  EXPECT_NE(errorFor("none.data", 0).find("No such file"), std::string::npos);
  EXPECT_NE(errorFor("../x", 0).find("leads outside through '..'"), std::string::npos);
  EXPECT_NE(errorFor("/etc/hostname", 0).find("is an absolute path"), std::string::npos);
  EXPECT_NE(errorFor("link.data", 0).find("through a symbolic link"), std::string::npos);
  EXPECT_NE(errorFor("short.data", INT64_MAX).find("wants 512 bytes"), std::string::npos);
}

TEST(RuntimeSources, NormalValuesAreAFunctionOfTheElement) {
  Source s;
  s.kind = Source::Kind::Normal;
  s.seed = 5;
  s.value = 2;
  constexpr int64_t n = 20000;
  std::vector<double> all(n), part(n);
  SourceTensor t{"w", &s, n, DType::F64};
  ASSERT_TRUE(readSource(t, "", 0, n, all.data()).ok());
  for (int64_t begin : {1, 2, 3, 4, 777})
    for (int64_t count : {1, 5, 100}) {
      ASSERT_TRUE(readSource(t, "", begin, count, part.data()).ok());
      EXPECT_TRUE(std::equal(part.begin(), part.begin() + count, all.begin() + begin));
    }
  double mean = 0, square = 0;
  for (double v : all) {
    mean += v / n;
    square += v * v / n;
  }
  EXPECT_NEAR(mean, 0, 0.05);
  EXPECT_NEAR(std::sqrt(square), 2, 0.05);
}

TEST(RuntimeConvert, SixteenBitFloatsRoundToNearestEven) {
  EXPECT_EQ(floatToF16(1.0f), 0x3c00);
  EXPECT_EQ(floatToF16(65504.0f), 0x7bff);
  EXPECT_EQ(floatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(floatToF16(0x1p-24f), 1);
  EXPECT_EQ(floatToF16(0x1p-25f), 0);
  EXPECT_EQ(floatToBf16(1.00390625f), 0x3f80); // halfway: to even
  EXPECT_EQ(floatToBf16(1.01171875f), 0x3f82);
  for (uint32_t v = 0; v < 0x10000; ++v) {
    float f = f16ToFloat(static_cast<uint16_t>(v)), b = bf16ToFloat(static_cast<uint16_t>(v));
    if (!std::isnan(f)) {
      EXPECT_EQ(floatToF16(f), v);
    }
    if (!std::isnan(b)) {
      EXPECT_EQ(floatToBf16(b), v);
    }
  }
}

} // namespace
