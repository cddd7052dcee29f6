// SPDX-License-Identifier: Apache-2.0
//
// Samples, their order, and everything that can be wrong with data files.
#include "runtime/Data.h"
#include "runtime/Feeder.h"
#include "runtime/Permutation.h"

#include "test/unit/RuntimeModel.h"
#include "test/unit/RuntimeTestFiles.h"

#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

using namespace ds;
using namespace ds::test;

namespace {

DataInput input(const char *name, DType t, std::vector<int64_t> row, bool label = false,
                int64_t bound = 0) {
  DataInput in;
  in.name = name;
  in.dtype = t;
  in.row = std::move(row);
  in.label = label;
  in.bound = bound;
  return in;
}

std::vector<DataInput> textInputs(int64_t bound = 0) {
  return {input("ids", DType::I64, {4}, false, bound),
          input("labels", DType::I64, {4}, true, bound)};
}

std::string errorOf(const std::string &spec, std::vector<DataInput> in) {
  auto d = openData(spec, std::move(in));
  return d.ok() ? "" : d.status().str();
}

template <typename T> std::string npy(const char *descr, const char *shape, std::vector<T> data) {
  std::string head =
      std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(head.size() & 0xff);
  out += static_cast<char>(head.size() >> 8);
  out += head;
  out.append(reinterpret_cast<const char *>(data.data()), data.size() * sizeof(T));
  return out;
}

TEST(RuntimeData, PermutationIsOneForEverySize) {
  for (uint64_t n : {1u, 2u, 3u, 5u, 16u, 17u, 1000u}) {
    Permutation p(n, 3, 0), next(n, 3, 1);
    std::set<uint64_t> seen;
    uint64_t moved = 0, differs = 0;
    for (uint64_t i = 0; i < n; ++i) {
      EXPECT_LT(p(i), n);
      seen.insert(p(i));
      moved += p(i) != i;
      differs += p(i) != next(i);
    }
    EXPECT_EQ(seen.size(), n);
    if (n == 1000) {
      EXPECT_GT(moved, 900u);
      EXPECT_GT(differs, 900u);
    }
  }
}

TEST(RuntimeData, TokensAreShiftedByOneForLabels) {
  TempDir dir;
  std::vector<uint16_t> tokens(14);
  std::iota(tokens.begin(), tokens.end(), 0);
  auto d = openData("tokens:" + dir.write("t.bin", tokens), textInputs(14));
  ASSERT_TRUE(d.ok()) << d.status().str();
  EXPECT_EQ((*d)->samples(), 3); // the 14th token is the last label
  std::vector<int64_t> x(4), y(4);
  void *rows[] = {x.data(), y.data()};
  ASSERT_TRUE((*d)->read(2, rows).ok());
  EXPECT_EQ(x, (std::vector<int64_t>{8, 9, 10, 11}));
  EXPECT_EQ(y, (std::vector<int64_t>{9, 10, 11, 12}));
}

TEST(RuntimeData, WideTokensAndHeaders) {
  TempDir dir;
  std::vector<uint32_t> tokens = {70000, 1, 2, 3, 4, 5};
  auto d = openData("tokens:" + dir.write("t.bin", tokens) + ",uint32", textInputs());
  ASSERT_TRUE(d.ok()) << d.status().str();
  std::vector<int64_t> x(4), y(4);
  void *rows[] = {x.data(), y.data()};
  ASSERT_TRUE((*d)->read(0, rows).ok());
  EXPECT_EQ(x[0], 70000);

  std::vector<uint16_t> withHeader(512 + 9, 7); // 256 int32, then tokens
  int32_t head[3] = {20240520, 1, 9};
  std::memcpy(withHeader.data(), head, sizeof head);
  auto h = openData("tokens:" + dir.write("h.bin", withHeader), textInputs());
  ASSERT_TRUE(h.ok()) << h.status().str();
  EXPECT_EQ((*h)->samples(), 2);
  ASSERT_TRUE((*h)->read(0, rows).ok());
  EXPECT_EQ(x[0], 7);
}

TEST(RuntimeData, TokenErrorsNameFileIndexValueAndBound) {
  TempDir dir;
  std::string path = dir.write("t.bin", std::vector<uint16_t>{1, 2, 3, 4, 5, 65, 7, 8, 9});
  EXPECT_EQ(errorOf("tokens:" + path, textInputs(65)),
            path + ": error: ids: token 5 is 65, expected a value in [0, 65)\n");
  EXPECT_NE(errorOf("tokens:" + dir / "none.bin", textInputs()).find("No such file"),
            std::string::npos);
  std::string odd = dir.write("odd.bin", std::string("abc"));
  EXPECT_NE(
      errorOf("tokens:" + odd, textInputs()).find("3 bytes are no whole number of u16 tokens"),
      std::string::npos);
  std::string tiny = dir.write("tiny.bin", std::vector<uint16_t>{1, 2});
  EXPECT_NE(errorOf("tokens:" + tiny, textInputs()).find("has 2 tokens, one sample needs 5"),
            std::string::npos);
  EXPECT_NE(errorOf("tokens:" + path + ",uint8", textInputs()).find("expected uint16 or uint32"),
            std::string::npos);
  EXPECT_NE(errorOf("tokens:" + path, {input("x", DType::F32, {4})}).find("integer inputs"),
            std::string::npos);
  EXPECT_NE(errorOf("words:" + path, textInputs()).find("unknown kind of data 'words'"),
            std::string::npos);
}

TEST(RuntimeData, NpyReadsRowsAndWidensIntegers) {
  TempDir dir;
  dir.write("x.npy", npy<float>("<f4", "(3, 2)", {1, 2, 3, 4, 5, 6}));
  dir.write("y.npy", npy<int32_t>("<i4", "(3,)", {7, 8, -100}));
  DataInput y = input("y", DType::I64, {}, true, 10);
  y.hasIgnore = true;
  y.ignore = -100;
  auto d = openData("npy:" + dir.path, {input("x", DType::F32, {2}), y});
  ASSERT_TRUE(d.ok()) << d.status().str();
  EXPECT_EQ((*d)->samples(), 3);
  float x[2];
  int64_t label;
  void *rows[] = {x, &label};
  ASSERT_TRUE((*d)->read(2, rows).ok());
  EXPECT_EQ(x[1], 6);
  EXPECT_EQ(label, -100); // ignored labels need not be below the bound
}

// Nothing is read into nothing, without touching either.
TEST(RuntimeData, NpyRowsWithoutElements) {
  TempDir dir;
  dir.write("x.npy", npy<float>("<f4", "(2, 0, 3)", {}));
  auto d = openData("npy:" + dir.path, {input("x", DType::F32, {0, 3})});
  ASSERT_TRUE(d.ok()) << d.status().str();
  EXPECT_EQ((*d)->samples(), 2);
  void *rows[] = {nullptr};
  EXPECT_TRUE((*d)->read(1, rows).ok());
}

TEST(RuntimeData, NpyErrors) {
  TempDir dir;
  auto x = [] { return std::vector<DataInput>{input("x", DType::F32, {2})}; };
  std::string spec = "npy:" + dir.path;
  auto expect = [&](std::string file, const char *text) {
    dir.write("x.npy", file);
    std::string e = errorOf(spec, x());
    EXPECT_NE(e.find(text), std::string::npos) << e;
    EXPECT_NE(e.find(dir / "x.npy"), std::string::npos) << e;
  };
  EXPECT_NE(errorOf(spec, x()).find("cannot open"), std::string::npos);
  expect("", "0 bytes are too short");
  expect("not an array", "magic number is missing");
  expect(npy<float>("<f4", "(3, 2)", {1, 2}), "needs 24 bytes, the file has 8");
  expect(npy<float>("<f4", "(2, 1)", {1, 2}),
         "the array is [2,1], expected [samples] followed by [2]");
  expect(npy<double>("<f8", "(1, 2)", {1, 2}), "elements are f64, expected f32");
  expect(npy<float>(">f4", "(1, 2)", {1, 2}), "element type '>f4'");
  expect(npy<float>("<f4", "(99999999999, 99999999999)", {}), "overflows");
  expect(npy<float>("<f4", "(1, 2", {1, 2}), "not a dict");
  expect(npy<float>("<f4", "(0, 2)", {}), "no samples");
  std::string fortran = npy<float>("<f4", "(1, 2)", {1, 2});
  fortran.replace(fortran.find("False"), 5, "True ");
  expect(fortran, "Fortran order");
  std::string longHeader = npy<float>("<f4", "(1, 2)", {1, 2});
  longHeader[9] = 0x7f;
  expect(longHeader, "the .npy header has");
}

// One window on two ranks, two micro-batches of two rows: sample numbers are where the design puts them.
Schedule countingPlan() {
  ScheduleMaker m(2, 2, 2, 0);
  InputMeta label, count, micros;
  label.role = InputMeta::Role::Label;
  count.role = micros.role = InputMeta::Role::Count;
  count.countOf = "y";
  count.hasIgnore = true;
  count.ignoreIndex = 3;
  m.input("x", Type(DType::I32, {2, 1}), {});
  m.input("y", Type(DType::I64, {2, 2}), label);
  m.input("n", Type(DType::I64, {}), count);
  m.input("micros", Type(DType::F64, {}), micros);
  return m.finish();
}

TEST(RuntimeData, FeederPlacesSamplesAndCountsLabels) {
  TempDir dir;
  std::vector<int32_t> x(18);
  std::vector<int64_t> y(36, 1);
  std::iota(x.begin(), x.end(), 0);
  y[2 * 2] = 3; // sample 2: rank 1, micro 0
  y[2 * 6] = 3; // sample 6: rank 1, micro 1
  y[2 * 4] = 3; // sample 4: rank 0, micro 1
  dir.write("x.npy", npy("<i4", "(18, 1)", x));
  dir.write("y.npy", npy("<i8", "(18, 2)", y));
  Schedule s = countingPlan();
  auto inputs = dataInputs(s);
  ASSERT_TRUE(inputs.ok());
  auto data = openData("npy:" + dir.path, *inputs);
  ASSERT_TRUE(data.ok()) << data.status().str();
  FeedOptions o;
  o.shuffle = false;
  auto feeder = Feeder::create(s, std::move(data).take(), o);
  ASSERT_TRUE(feeder.ok()) << feeder.status().str();
  EXPECT_EQ((*feeder)->updatesPerEpoch(), 2);
  EXPECT_EQ((*feeder)->droppedSamples(), 2);
  ASSERT_TRUE((*feeder)->start().ok());
  Abort abort;
  for (int64_t update = 0; update < 5; ++update) // also over the epoch's end
    for (int rank = 0; rank < 2; ++rank) {
      for (int64_t micro = 0; micro < 2; ++micro) {
        auto *rows = static_cast<const int32_t *>((*feeder)->data(rank, micro, 0, abort));
        ASSERT_NE(rows, nullptr);
        for (int64_t r = 0; r < 2; ++r)
          EXPECT_EQ(rows[r], update % 2 * 8 + (micro * 2 + rank) * 2 + r);
      }
      auto *count = static_cast<const int64_t *>((*feeder)->data(rank, 1, 2, abort));
      EXPECT_EQ(*count, update % 2 ? 8 : rank == 0 ? 7 : 6);
      EXPECT_EQ(*static_cast<const double *>((*feeder)->data(rank, 0, 3, abort)), 2);
      (*feeder)->release(rank);
    }
}

TEST(RuntimeData, FeederTellsDataErrorsWhenTheyAreReached) {
  TempDir dir;
  std::vector<int32_t> x(16, 1);
  x[9] = 50; // second window
  dir.write("x.npy", npy("<i4", "(16, 1)", x));
  dir.write("y.npy", npy("<i8", "(16, 2)", std::vector<int64_t>(32, 1)));
  Schedule s = countingPlan();
  s.inputs[0].meta.bound = 10;
  auto data = openData("npy:" + dir.path, *dataInputs(s));
  ASSERT_TRUE(data.ok());
  FeedOptions o;
  o.shuffle = false;
  auto feeder = Feeder::create(s, std::move(data).take(), o);
  ASSERT_TRUE(feeder.ok());
  ASSERT_TRUE((*feeder)->start().ok());
  Abort abort;
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_NE((*feeder)->data(rank, 0, 0, abort), nullptr);
    (*feeder)->release(rank);
  }
  EXPECT_EQ((*feeder)->data(0, 0, 0, abort), nullptr);
  EXPECT_EQ((*feeder)->error().str(),
            dir / "x.npy" + ": error: x: element 9 is 50, expected a value in [0, 10)\n");
}

TEST(RuntimeData, TooFewSamplesForAnUpdate) {
  TempDir dir;
  dir.write("x.npy", npy("<i4", "(7, 1)", std::vector<int32_t>(7)));
  dir.write("y.npy", npy("<i8", "(7, 2)", std::vector<int64_t>(14)));
  Schedule s = countingPlan();
  auto feeder = Feeder::create(s, openData("npy:" + dir.path, *dataInputs(s)).take(), {});
  ASSERT_FALSE(feeder.ok());
  EXPECT_NE(feeder.status().str().find("has 7 samples, one update needs 8"), std::string::npos);
}

} // namespace
