// SPDX-License-Identifier: Apache-2.0
//
// .dsched text: what is printed reads back, and no text at all makes the parser or the verifier stumble.
#include "test/unit/ScheduleSamples.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

using namespace ds;

namespace {

std::string goodText() {
  std::ifstream file("test/schedule/stage3.dsched");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Schedule parsed(const std::string &text) {
  StatusOr<Schedule> s = parseSchedule(text, "test.dsched");
  EXPECT_TRUE(s.ok()) << s.status().str() << text;
  return s.ok() ? std::move(*s) : Schedule();
}

std::string errorOf(const std::string &text) {
  StatusOr<Schedule> s = parseSchedule(text, "test.dsched");
  return s.ok() ? "" : s.status().str();
}

TEST(ScheduleText, PrintReadsBack) {
  for (const Schedule &s : {parsed(goodText()), bigSchedule(200), randomSchedule(5, 40)}) {
    std::string text = printSchedule(s);
    EXPECT_EQ(printSchedule(parsed(text)), text);
  }
}

TEST(ScheduleText, OddNamesAreQuoted) {
  Schedule s = bigSchedule(9);
  std::string odd = "a \"b\"\n[[{{";
  s.name = "two words";
  s.buckets[0].name = s.persistent[0].name = "over";
  SchedProgram &p = s.programs[0];
  p.own[0].name = p.instrs[0].label = odd;
  p.own[1].name = p.instrs[1].label = "9lives";
  p.instrs[2].label = "wait";
  std::string text = printSchedule(s);
  Schedule again = parsed(text);
  EXPECT_EQ(printSchedule(again), text);
  EXPECT_EQ(again.name, s.name);
  ASSERT_EQ(again.programs.size(), 2u);
  EXPECT_EQ(again.programs[0].instrs[0].label, odd);
  EXPECT_EQ(again.programs[0].own[1].name, "9lives");
  EXPECT_EQ(again.persistent[0].name, "over");
}

TEST(ScheduleText, EverythingSurvives) {
  Schedule s = parsed(goodText());
  EXPECT_EQ(s.world(), 2);
  EXPECT_EQ(s.step.microBatch, 8);
  EXPECT_EQ(s.arenas[0].persistentBytes, 300000);
  EXPECT_EQ(s.buckets[0].segments[0].source.path, "m.data");
  EXPECT_EQ(s.buckets[0].segments[0].exportName, "fc1.weight");
  EXPECT_EQ(s.buckets[0].segments[1].source.seed, 7u);
  EXPECT_EQ(s.inits[1].source.bytes.size(), 8u);
  EXPECT_EQ(s.inputs[2].meta.ignoreIndex, -100);
  EXPECT_EQ(s.origins[1].module, "fc1");
  const SchedProgram *micro = s.program("micro.only");
  ASSERT_NE(micro, nullptr);
  EXPECT_EQ(micro->own[0].last, 2);
  EXPECT_EQ(micro->instrs[2].waits.size(), 2u);
  EXPECT_TRUE(micro->instrs[2].attrs.flag("trans_b"));
  EXPECT_EQ(micro->instrs[4].elems, 33024);
  const SchedProgram *update = s.program("update");
  ASSERT_NE(update, nullptr);
  EXPECT_EQ(update->instrs[2].label, "adam.l0");
  EXPECT_EQ(update->instrs[2].named, 0);
  EXPECT_EQ(update->instrs[2].attrs.f("b2"), 0.999); // defaults are filled in
  EXPECT_EQ(update->returnNames[0], "grad_norm");
}

TEST(ScheduleText, ErrorsNameThePlace) {
  std::string head = "schedule @t stage 0 micro_batch 1 grad_accum 1 {\n";
  EXPECT_NE(errorOf(head + "  bufer x\n}").find("test.dsched:2:3"), std::string::npos);
  EXPECT_NE(errorOf(head + "  buffer x param device+-4 8 : f32[2]\n}").find("must lie in [0, "),
            std::string::npos);
  EXPECT_NE(
      errorOf(head + "  buffer x param device+0 8 : f32[99999999999,99999999999]\n}").find("2^48"),
      std::string::npos);
  EXPECT_NE(
      errorOf(head + "  program p {\n    compute h = nge h\n  }\n}").find("no buffer or view h"),
      std::string::npos);
  EXPECT_NE(
      errorOf(head + "  program p {\n    compute l : gelo\n  }\n}").find("did you mean 'gelu'"),
      std::string::npos);
  EXPECT_NE(errorOf("schedule @t mesh(a=1000000,b=1000000) stage 0").find("mesh axis"),
            std::string::npos);
  EXPECT_NE(errorOf("").find("expected 'schedule'"), std::string::npos);
  EXPECT_NE(errorOf(head).find("end of"), std::string::npos);
}

/// Whatever comes out must print and read back, and must not make the verifier stumble.
void feed(const std::string &text) {
  StatusOr<Schedule> s = parseSchedule(text, "fuzz");
  if (!s.ok()) {
    EXPECT_FALSE(s.status().entries().empty());
    return;
  }
  std::string printed = printSchedule(*s);
  StatusOr<Schedule> again = parseSchedule(printed, "printed");
  ASSERT_TRUE(again.ok()) << again.status().str() << printed;
  EXPECT_EQ(printSchedule(*again), printed);
  Status verdict = verifySchedule(*s);
  EXPECT_EQ(verdict.ok(), verdict.entries().empty());
}

TEST(ScheduleText, GarbageNeverCrashes) {
  std::string good = goodText();
  ASSERT_GT(good.size(), 1000u);
  good = printSchedule(parsed(good)); // without comments: mutations hit what matters
  std::minstd_rand random(1);
  auto below = [&](size_t n) { return static_cast<size_t>(random()) % n; };
  const std::string pieces[] = {"\n",
                                "}",
                                "{",
                                "[",
                                "-1",
                                "9223372036854775807",
                                "9223372036854775808",
                                " ",
                                "=",
                                "->",
                                ":",
                                "\"",
                                "wait h",
                                "own ",
                                "0",
                                ",",
                                "h",
                                "+",
                                "@9",
                                "strides [0]"};
  for (int round = 0; round < 4000; ++round) {
    std::string text = good;
    for (size_t edits = 1 + below(3); edits > 0; --edits) {
      size_t at = below(text.size());
      switch (below(5)) {
      case 0:
        text.erase(at, 1 + below(12));
        break;
      case 1:
        text.insert(at, pieces[below(std::size(pieces))]);
        break;
      case 2:
        text[at] = static_cast<char>(random() & 0xff);
        break;
      case 3:
        text.resize(std::max<size_t>(at, 1));
        break;
      default: { // a number becomes another one
        size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos)
          text.replace(digit, 1, pieces[4 + below(3)]);
      }
      }
      if (text.empty())
        text = "}";
    }
    feed(text);
    if (HasFatalFailure())
      FAIL() << "round " << round;
  }
}

TEST(ScheduleText, IndicesOutOfRangePrintAndFail) {
  Schedule s = bigSchedule(9);
  SchedProgram &p = s.programs[0];
  p.instrs[1].ins[0].index = 1 << 30;
  p.instrs[2].outs[0] = {true, -5};
  p.instrs[3].waits = {99, -1};
  p.instrs[4].work = 12345;
  p.instrs[5].named = 7;
  p.own[0].last = 1 << 20;
  p.returns.push_back({false, -1});
  s.inits.push_back({-3, {}});
  EXPECT_NE(printSchedule(s).find("?"), std::string::npos);
  EXPECT_NE(verifySchedule(s).str().find("[S1]"), std::string::npos);
}

} // namespace
