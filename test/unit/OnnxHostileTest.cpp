// SPDX-License-Identifier: Apache-2.0
//
// Models that no exporter writes, as the fuzz targets found them (tools/dev/fuzz): each is refused with a message, or
// imported to a valid module.
#include "frontend/OnnxConvert.h"
#include "frontend/OnnxImport.h"
#include "ir/GraphText.h"
#include "test/unit/RuntimeTestFiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

using namespace ds;
using testing::HasSubstr;

namespace {

// The errors of a model in ONNX text, or of the module that it becomes; "" if there are none.
std::string errors(const std::string &graph) {
  test::TempDir dir;
  std::string path =
      dir.write("m.onnxtext", "<ir_version: 10, opset_import: [\"\" : 20]>\n" + graph);
  auto m = importOnnx(path, {});
  return m.ok() ? verifyModule(**m).str() : m.status().str();
}

} // namespace

// A tensor of an attribute that says its data lies elsewhere has no bytes to read.
TEST(OnnxHostile, ExternalFillValue) {
  EXPECT_THAT(errors(R"(g (float[2] x) => (float[2] y) <int64[1] n = {2}> {
    c = ConstantOfShape <value: tensor = float[1] v = ["location": "w", "offset": "0"]> (n)
    y = Add(x, c)
  })"),
              HasSubstr("ConstantOfShape: value lies in another file"));
}

TEST(OnnxHostile, EmptyDiagonal) {
  EXPECT_THAT(
      errors(R"(g (float[2] x) => (float[2,2] y) <float[2,2] m = {1,2,3,4}, int64[0] k = {}> {
    t = Trilu(m, k)
    y = Add(t, x)
  })"),
      HasSubstr("Trilu: k has 0 elements, expected 1"));
}

TEST(OnnxHostile, SequenceOfSequences) {
  EXPECT_THAT(errors(R"(g (float[2] x) => (float[2] y) <int64 i = {0}> {
    s = SequenceConstruct(x)
    t = SequenceConstruct(s)
    u = SequenceAt(t, i)
    y = SequenceAt(u, i)
  })"),
              HasSubstr("SequenceConstruct: input 0 is a sequence, expected a tensor"));
}

// The difference of neighbours does not fit an integer; no run of equal steps is seen in it.
TEST(OnnxHostile, FarNeighbours) {
  EXPECT_EQ(errors(R"(g (int64[3] x) => (int64[3] y)
    <int64[3] c = {-9223372036854775808, 9223372036854775807, 0}> { y = Add(x, c) })"),
            "");
}

// Floats where integers are expected, too large for them or none at all.
TEST(OnnxHostile, FloatsAsIntegers) {
  for (const char *value : {"1e30", "-1e30", "inf", "nan"}) {
    std::string shape = std::string("<float[1] s = {") + value + "}>";
    EXPECT_THAT(errors("g (float[2] x) => (float[2] y) " + shape + " { y = Reshape(x, s) }"),
                HasSubstr("Reshape: "))
        << value;
    EXPECT_THAT(errors("g (float[2] x) => (float[2] y) " + shape +
                       " { c = ConstantOfShape(s)\n y = Add(x, c) }"),
                HasSubstr("ConstantOfShape: "))
        << value;
  }
}

// Integers are clipped as integers: no bound goes through a double.
TEST(OnnxHostile, ClipOfLargeIntegers) {
  test::TempDir dir;
  std::string path = dir.write("m.onnxtext", R"(<ir_version: 10, opset_import: ["" : 20]>
g (int64[2] x) => (int64[2] y)
<int64[2] c = {9007199254740995, 3}, int64 lo = {4}, int64 hi = {9007199254740993}>
{ d = Clip(c, lo, hi)
  y = Add(x, d) })");
  auto m = importOnnx(path, {});
  ASSERT_TRUE(m.ok()) << m.status().str();
  EXPECT_THAT(printModule(**m), HasSubstr("= hex \"01000000000020000400000000000000\""));
}

TEST(OnnxHostile, NodesWithoutOutputs) {
  EXPECT_EQ(errors(R"(g (float[2] x) => (float[2] y) <bool yes = {1}, float[2] w = {1,2}> {
    y = If (yes) <
      then_branch = a () => (float[2] t) { = Constant <value_int = 1> ()
        = Identity(w)
        t = Add(x, w) },
      else_branch = b () => (float[2] e) { e = Identity(x) }
    >
  })"),
            "");
}

TEST(OnnxHostile, DeepBrackets) {
  std::string types;
  for (int i = 0; i < 100'000; ++i)
    types += "seq(";
  EXPECT_THAT(errors("g (" + types), HasSubstr("brackets are nested more than 256 deep"));
}

// A small file that asks for much: 16 Mi equal elements in 200 shapes took 7 GB.
TEST(OnnxHostile, ReshapesOfEqualElementsCostNothing) {
  std::string reshapes;
  for (int i = 0; i < 200; ++i)
    reshapes += "r" + std::to_string(i) + " = Reshape(" +
                (i == 0 ? "e" : "r" + std::to_string(i - 1)) + ", " + (i % 2 ? "s" : "f") + ")\n";
  EXPECT_EQ(errors("g (float[4096,4096] x) => (float[4096,4096] y)"
                   "<int64[2] s = {4096, 4096}, int64[1] f = {16777216}, float one = {1}> {"
                   "e = Expand(one, s)\n" +
                   reshapes + "y = Add(x, r199) }"),
            "");
  rusage usage = {};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  EXPECT_LT(usage.ru_maxrss, 2 << 20) << "KiB";
}

TEST(OnnxHostile, ManyUnknownOperators) {
  std::string nodes = "v0 = Neg(x)\n";
  for (int i = 1; i <= 2000; ++i)
    nodes += "v" + std::to_string(i) + " = Made" + std::to_string(i) + "Up(v" +
             std::to_string(i - 1) + ")\n";
  std::string all = errors("g (float[2] x) => (float[2] v2000) {" + nodes + "}");
  EXPECT_THAT(all, HasSubstr("2000 operators are not supported"));
  EXPECT_THAT(all, HasSubstr("note: Made1000Up: 1 node, first Made1000Up v1000\n"));
  EXPECT_THAT(all, HasSubstr("note: and 1950 more\n"));
}

// Two calls in each of 40 functions that call the next: 2^40 nodes.
TEST(OnnxHostile, FunctionsThatDouble) {
  std::string functions;
  for (int i = 1; i < 40; ++i) {
    std::string inner = "d.f" + std::to_string(i - 1);
    functions += "<domain: \"d\", opset_import: [\"\" : 20, \"d\" : 1]>\nf" + std::to_string(i) +
                 " (a) => (b) { t = " + inner + "(a)\n b = " + inner + "(t) }\n";
  }
  functions += "<domain: \"d\", opset_import: [\"\" : 20]>\nf0 (a) => (b) { b = Neg(a) }\n";
  EXPECT_THAT(errors("g (float[2] x) => (float[2] y) { y = d.f39(x) }\n" + functions),
              HasSubstr("more than 100000 function calls"));
}

// Every operator on known inputs of any type and rank: a message or a module, and no access outside a value, which the
// libraries' own assertions (CMakeLists.txt) would end.
TEST(OnnxHostile, EveryOperatorOnAnyConstants) {
  const char *constants[] = {"float", "int64", "bool", "double", "int32", "uint8"};
  const std::pair<const char *, const char *> shapes[] = {{"", "{1}"},         {"[1]", "{1}"},
                                                          {"[2]", "{0, 1}"},   {"[0]", "{}"},
                                                          {"[1,2]", "{1, 1}"}, {"[2,1]", "{1, 0}"}};
  std::string all;
  std::vector<std::string> names;
  for (const char *type : constants)
    for (size_t s = 0; s < std::size(shapes); ++s) {
      names.push_back(std::string(type) + std::to_string(s));
      all += std::string(names.size() > 1 ? ", " : "") + type + shapes[s].first + " " +
             names.back() + " = " + shapes[s].second;
    }
  uint32_t random = 1;
  auto pick = [&](size_t n) { return ((random = random * 1664525u + 1013904223u) >> 8) % n; };
  for (const OnnxOpInfo &info : onnxOpTable()) {
    if (!info.eval)
      continue;
    for (int i = 0; i < 80; ++i) {
      std::string inputs = names[pick(names.size())];
      for (size_t n = pick(5); n > 0; --n)
        inputs += ", " + names[pick(names.size())];
      std::string text = "g (float[2] x) => (float[2] y, v) <" + all + "> { v = " + info.op + "(" +
                         inputs + ")\n y = Neg(x) }";
      errors(text);
    }
  }
}

TEST(OnnxHostile, RangeOfMixedTypes) {
  EXPECT_THAT(errors(R"(g (float[2] x) => (float[2] y) <float a = {0}, int64 b = {2}> {
    r = Range(a, b, a)
    y = Add(x, r)
  })"),
              HasSubstr("Range: start is f32, limit i64 and delta f32, expected one type"));
}

TEST(OnnxHostile, FloatIndices) {
  EXPECT_THAT(errors(R"(g (float[2] x) => (float[2] y) <float[2] d = {1,2}, float[2,1] i = {0,1}> {
    r = GatherND(d, i)
    y = Add(x, r)
  })"),
              HasSubstr("GatherND: indices are f32, expected integers"));
}
