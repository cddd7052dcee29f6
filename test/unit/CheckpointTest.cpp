// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint's files come from outside: damage of any kind is an error, never a crash or other numbers.
#include "runtime/Manifest.h"
#include "runtime/PieceFile.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unistd.h>

using namespace ds;

namespace {

Manifest sample() {
  Manifest m;
  m.model = "a \"model\"";
  m.update = 12, m.world = 2, m.microBatch = 3, m.gradAccum = 4, m.stage = 3;
  m.data = "tokens:x\\y.bin";
  m.seed = UINT64_MAX;
  m.shuffle = false;
  m.tensors.push_back({"h.0.w", "weight", DType::F32, {7, 5}, {{0, 20, "r0"}, {20, 35, "r1"}}});
  m.tensors.push_back({"h.0.w", "exp_avg", DType::F64, {}, {{0, 1, "r0"}}});
  m.tensors.push_back({"none", "weight", DType::F32, {0, 4}, {}});
  m.scalars.push_back({"step", Type(DType::I64, {}), {1, 2, 3, 4, 5, 6, 7, 255}});
  return m;
}

TEST(Checkpoint, ManifestReadsBack) {
  std::string text = printManifest(sample());
  auto m = parseManifest(text, "manifest.json");
  ASSERT_TRUE(m.ok()) << m.status().str();
  EXPECT_EQ(printManifest(*m), text);
  EXPECT_EQ(m->globalBatch(), 24);
  EXPECT_EQ(m->tensors[0].key(), "weight/h.0.w");
}

TEST(Checkpoint, DamagedManifests) {
  std::string text = printManifest(sample());
  for (size_t n = 0; n + 3 < text.size(); ++n) // the last bytes are "}\n" and a blank
    EXPECT_FALSE(parseManifest(std::string_view(text).substr(0, n), "m").ok()) << n;
  for (size_t n = 0; n < text.size(); ++n)
    for (char c : {'0', '"', '}', '-', '\xff'}) {
      std::string bad = text;
      bad[n] = c;
      auto m = parseManifest(bad, "m");
      if (!m.ok())
        continue;
      for (const CheckpointTensor &t : m->tensors) { // whatever is accepted is consistent
        EXPECT_EQ(t.pieces.empty() ? 0 : t.pieces.back().end, Type(t.dtype, t.shape).elems());
      }
    }
  auto expectError = [&](std::string from, const std::string &to, const std::string &message) {
    std::string bad = text;
    ASSERT_NE(bad.find(from), std::string::npos) << from;
    bad.replace(bad.find(from), from.size(), to);
    auto m = parseManifest(bad, "m");
    ASSERT_FALSE(m.ok()) << message;
    EXPECT_NE(m.status().str().find(message), std::string::npos) << m.status().str();
  };
  expectError("[20, 35, \"r1\"]", "[21, 35, \"r1\"]", "expected an integer in [20, 20], found 21");
  expectError("[20, 35, \"r1\"]", "[20, 34, \"r1\"]", "weight/h.0.w: the pieces end at 34 of 35");
  expectError("\"r1\"", "\"../r1\"", "\"../r1\" is not one of this folder");
  expectError("[7, 5]", "[1152921504606846976, 5]", "the shape is out of range");
  expectError("07ff\"", "07\"", "step needs 8 bytes of hex");
  expectError("checkpoint 1", "checkpoint 2", "expected \"dsplan checkpoint 1\"");
}

class PieceFileTest : public ::testing::Test {
protected:
  std::string path = ::testing::TempDir() + "ds-pieces-" + std::to_string(::getpid());
  std::vector<float> w = {1, 2, 3, 4, 5};
  std::vector<double> m = {0.5, -0.25};

  void SetUp() override {
    Status s =
        writePieces(path, "update 12",
                    {{"weight/w", DType::F32, 0, 5,
                      [&](const PieceData::Take &take) { return take(w.data(), 20); }},
                     {"exp_avg/w", DType::F64, 7, 2, [&](const PieceData::Take &take) -> Status {
                        TRY(take(m.data(), 8)); // a sum of parts is that of the whole
                        return take(m.data() + 1, 8);
                      }}});
    ASSERT_TRUE(s.ok()) << s.str();
  }
  void TearDown() override { std::remove(path.c_str()); }
  std::string bytes() const {
    std::stringstream s;
    s << std::ifstream(path, std::ios::binary).rdbuf();
    return s.str();
  }
  void write(const std::string &b) const { std::ofstream(path, std::ios::binary) << b; }
};

TEST_F(PieceFileTest, ReadsBack) {
  auto f = PieceFile::open(path);
  ASSERT_TRUE(f.ok()) << f.status().str();
  DType t;
  EXPECT_EQ(f->owner(), "update 12");
  auto b = f->read("exp_avg/w", 7, 9, &t);
  ASSERT_TRUE(b.ok()) << b.status().str();
  EXPECT_EQ(t, DType::F64);
  EXPECT_EQ(std::memcmp(b->data(), m.data(), b->size()), 0);
  EXPECT_FALSE(f->read("exp_avg/w", 7, 10, &t).ok());
  EXPECT_FALSE(f->read("exp_avg/w", 0, 2, &t).ok()); // as many elements, but not these
  EXPECT_FALSE(f->read("exp_avg/v", 7, 9, &t).ok());
}

// Every flipped bit and every cut is found by opening the file or by reading its pieces.
TEST_F(PieceFileTest, EveryDamageIsFound) {
  std::string good = bytes();
  auto intact = [&] {
    auto f = PieceFile::open(path);
    DType a, b;
    if (!f.ok())
      return false;
    auto x = f->read("weight/w", 0, 5, &a), y = f->read("exp_avg/w", 7, 9, &b);
    return x.ok() && y.ok() && a == DType::F32 && b == DType::F64 &&
           std::memcmp(x->data(), w.data(), x->size()) == 0 &&
           std::memcmp(y->data(), m.data(), y->size()) == 0;
  };
  ASSERT_TRUE(intact());
  size_t data = good.size() - 5 * 4 - 2 * 8;
  for (size_t n = data; n < good.size(); ++n)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[n] = static_cast<char>(bad[n] ^ (1 << bit));
      write(bad);
      EXPECT_FALSE(intact()) << n;
    }
  for (size_t n = 0; n < data;
       ++n) { // of the header: an error, or harmless (a blank, the format's name)
    std::string bad = good;
    bad[n] = static_cast<char>(bad[n] ^ 4);
    write(bad);
    intact();
  }
  for (size_t n = 0; n < good.size(); ++n) {
    write(good.substr(0, n));
    EXPECT_FALSE(intact()) << n;
  }
}

} // namespace
