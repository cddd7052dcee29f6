// SPDX-License-Identifier: Apache-2.0
//
// The tolerant JSON reader: what it takes, where it says an error is, and that garbage cannot hurt it.
#include "ir/Json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace ds;
using testing::HasSubstr;
using testing::StartsWith;

static std::string why(const std::string &text) {
  StatusOr<JsonValue> v = parseJson(text, "f.json");
  return v.ok() ? "" : v.status().str();
}

TEST(Json, Values) {
  StatusOr<JsonValue> v =
      parseJson("\xef\xbb\xbf {\"a\": [1, -2.5e+3, \"x\\n\\u00e9\\ud83d\\ude00\"], // c\n"
                " \"b\": {}, \"c\": null, \"d\": true, /* e */ }",
                "f.json");
  ASSERT_TRUE(v.ok()) << v.status().str();
  ASSERT_EQ(v->members.size(), 4u);
  const JsonValue &a = *v->find("a");
  ASSERT_EQ(a.members.size(), 3u);
  EXPECT_EQ(a.members[1].key, "[1]");
  EXPECT_EQ(a.members[1].value.text, "-2.5e+3");
  EXPECT_EQ(a.members[2].value.text, "x\n\xc3\xa9\xf0\x9f\x98\x80");
  EXPECT_EQ(v->find("d")->kind, JsonValue::Kind::Bool);
  EXPECT_EQ(v->find("e"), nullptr);
  EXPECT_EQ(parseJson(jsonQuoted("a\"\\\n\x01"), "")->text, "a\"\\\n\x01");
}

TEST(Json, ErrorsNameTheirPlace) {
  EXPECT_THAT(why("{\"a\": 1\n \"b\": 2}"),
              StartsWith("f.json:2:2: error: expected ',' or '}', found '\"'"));
  EXPECT_THAT(why("{\"a\": {\"b\": 1, \"b\": 2}, \"a\": 3}"),
              testing::AllOf(HasSubstr("f.json:1:16: error: a.b: this key is given twice"),
                             HasSubstr("f.json:1:25: error: a: this key is given twice")));
  EXPECT_THAT(why("{\"a\": yes}"),
              HasSubstr("expected a value, found 'yes'; text stands in quotes"));
  EXPECT_THAT(why("{a: 1}"), HasSubstr("expected a key in quotes or '}'"));
  EXPECT_THAT(why("\"x"), HasSubstr("this string does not end on its line"));
  EXPECT_THAT(why("\"\\ud800\""), HasSubstr("half a surrogate pair"));
  EXPECT_THAT(why("\"\\q\""), HasSubstr("unknown escape"));
  EXPECT_THAT(why("/* x"), HasSubstr("this comment does not end"));
  EXPECT_THAT(why("1 2"), HasSubstr("expected the end of the file, found '2'"));
  EXPECT_THAT(why(""), HasSubstr("expected a value, found the end of the file"));
  EXPECT_THAT(why("{\"a\":"), HasSubstr("expected a value, found the end of the file"));
  for (const char *number : {"01x", "1.", ".5", "-", "+1", "1e", "NaN", "0x10", "1_000"})
    EXPECT_THAT(why(number), HasSubstr("expected a value")) << number;
}

TEST(Json, DepthIsLimited) {
  EXPECT_THAT(why(std::string(1 << 20, '[')), HasSubstr("nested more than 64 deep"));
  EXPECT_EQ(why(std::string(64, '[') + std::string(64, ']')), "");
}

TEST(Json, GarbageIsAnErrorOrAValue) {
  uint32_t state = 1; // a fixed sequence, biased towards what the grammar knows
  const std::string alphabet = "{}[]\",:\\u0129eE+-.truefalsn/*# \n\x01\xff";
  size_t errors = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int n = 0; n < 24; ++n) {
      state = state * 1664525u + 1013904223u;
      text += alphabet[(state >> 16) % alphabet.size()];
    }
    errors += !why(text).empty();
  }
  EXPECT_GT(errors, 1900u);
}
