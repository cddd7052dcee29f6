// SPDX-License-Identifier: Apache-2.0
//
// The tables agree with each other: every launchable op has a ref kernel, every kernel row names an op, every
// attribute spec parses to usable defaults, and the pages generated from the tables list every op.
#include "ir/Ops.h"
#include "ir/Schedule.h"
#include "kernels/Registry.h"

#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>

namespace ds {
namespace {

std::vector<OpInfo> allOps() {
  std::vector<OpInfo> ops;
  for (const std::string &text : opTexts())
    ops.push_back(info(*opFromText(text)));
  return ops;
}

std::vector<KernelTable> tables() {
  return {
      refKernels(),
#ifdef DS_HAVE_CPU_DEVICE
      cpuKernels(),
#endif
  };
}

bool rowFor(KernelTable t, std::string_view op) {
  for (size_t i = 0; i < t.count; ++i)
    if (op == t.rows[i].op)
      return true;
  return false;
}

TEST(Tables, EveryLaunchedOpHasARefKernel) {
  for (const OpInfo &op : allOps())
    EXPECT_EQ(rowFor(refKernels(), op.text), op.isLaunch()) << op.text;
}

TEST(Tables, CollectivesAndTransfersAreInstructionsOfTheirName) {
  for (const OpInfo &op : allOps()) {
    int found = 0;
    for (int k = 0; k <= static_cast<int>(InstrKind::Write); ++k)
      found += text(static_cast<InstrKind>(k)) == op.text;
    EXPECT_EQ(found, op.isCollective() || op.isTransfer()) << op.text;
  }
}

TEST(Tables, KernelRowsNameOpsAndDTypes) {
  for (KernelTable t : tables())
    for (size_t i = 0; i < t.count; ++i) {
      const DsKernel &row = t.rows[i];
      SCOPED_TRACE(row.op);
      std::optional<OpKind> op = opFromText(row.op);
      ASSERT_TRUE(op);
      EXPECT_TRUE(info(*op).isLaunch());
      EXPECT_NE(row.run, nullptr);
      EXPECT_EQ(row.prepare == nullptr && row.destroy != nullptr, false);
      std::istringstream words(row.dtypes);
      std::string word;
      int count = 0;
      for (; words >> word; ++count)
        EXPECT_TRUE(word == "*" || word == "float" || word == "int" || dtypeFromText(word)) << word;
      EXPECT_GT(count, 0);
    }
}

TEST(Tables, LookupMatchesTheDType) {
  EXPECT_NE(findKernel(refKernels(), "exp", DType::BF16), nullptr);
  EXPECT_EQ(findKernel(refKernels(), "exp", DType::I64), nullptr);
  EXPECT_NE(findKernel(refKernels(), "add", DType::U8), nullptr);
  EXPECT_EQ(findKernel(refKernels(), "add", DType::Bool), nullptr);
  EXPECT_NE(findKernel(refKernels(), "copy", DType::Bool), nullptr);
  EXPECT_EQ(findKernel(refKernels(), "adam", DType::F16), nullptr);
  EXPECT_EQ(findKernel(refKernels(), "view", DType::F32), nullptr);
}

TEST(Tables, OpsAreNamedOnceAndFound) {
  std::set<std::string_view> seen;
  for (const OpInfo &op : allOps()) {
    EXPECT_TRUE(seen.insert(op.text).second) << op.text;
    EXPECT_EQ(opFromText(op.text), op.kind);
    EXPECT_TRUE(op.maxIn < 0 || op.minIn <= op.maxIn) << op.text;
    EXPECT_GT(op.outs, 0) << op.text;
    for (int r = 0; r < op.outs; ++r)
      EXPECT_LT(tiedOperand(op.kind, r, op.minIn), std::max(op.minIn, 1)) << op.text;
  }
}

TEST(Tables, AttributeDefaultsHaveTheirKind) {
  for (const OpInfo &op : allOps()) {
    std::set<std::string> names;
    for (const AttrSpec &a : op.attrs) {
      SCOPED_TRACE(std::string(op.text) + "." + a.name);
      EXPECT_TRUE(names.insert(a.name).second);
      ASSERT_THAT(std::string("bifsl"), testing::HasSubstr(std::string(1, a.kind)));
      EXPECT_TRUE(a.def || a.kind != 'b') << "a bool defaults to false";
      if (!a.def)
        continue;
      EXPECT_EQ(a.def->index(), std::string("bifsl").find(a.kind));
    }
  }
}

std::string page(const char *path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path << ": the tests run in the repository's root";
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Tables, PagesListEveryOp) {
  std::string ops = page("docs/ops.md"), kernels = page("docs/kernels.md");
  for (const OpInfo &op : allOps()) {
    std::string cell = "\n| `" + std::string(op.text) + "` | ";
    EXPECT_NE(ops.find(cell), std::string::npos) << op.text << ": run tools/dev/gen-docs.py";
    EXPECT_EQ(kernels.find(cell) != std::string::npos, op.isLaunch()) << op.text;
    for (const AttrSpec &a : op.attrs) {
      size_t begin = ops.find(cell), end = ops.find('\n', begin + 1);
      EXPECT_NE(ops.substr(begin, end - begin).find("`" + a.name + "` "), std::string::npos)
          << op.text << "." << a.name;
    }
  }
}

} // namespace
} // namespace ds
