// SPDX-License-Identifier: Apache-2.0
#include "ir/Attr.h"
#include "ir/Lexer.h"
#include "ir/Ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

using namespace ds;

namespace {

TEST(Attr, DoublesReadBackToTheSameBits) {
  for (double v : {0.0, 1.0, -1.0, 0.1, 1e-5, 1e300, 5e-324, 123456789.125, 1.0 / 3}) {
    std::string s = doubleText(v);
    Lexer lex(s, "t");
    StatusOr<double> back = lex.number();
    ASSERT_TRUE(back.ok()) << s;
    EXPECT_EQ(*back, v) << s;
    EXPECT_NE(s.find_first_of(".e"), std::string::npos) << s << " looks like an integer";
  }
  EXPECT_EQ(doubleText(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(doubleText(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(doubleText(std::nan("")), "nan");
  EXPECT_TRUE(std::signbit(*Lexer(doubleText(-0.0), "t").number()));
}

TEST(Attr, StringsReadBackAndNeverConfuseFileCheck) {
  for (std::string s : {std::string("plain"), std::string("a\"b\\c\nd\te"), std::string("[[{{}}]]"),
                        std::string("\0\x01\x7f\xff", 4), std::string()}) {
    std::string q = ds::quoted(s);
    for (const char *bad : {"[[", "{{", "}}", "\n"})
      EXPECT_EQ(q.find(bad), std::string::npos) << q;
    StatusOr<std::string> back = Lexer(q, "t").string();
    ASSERT_TRUE(back.ok()) << q;
    EXPECT_EQ(*back, s);
  }
}

TEST(Attr, SpecsHaveKindsAndDefaults) {
  std::vector<AttrSpec> specs = parseAttrSpecs("a:b b:b=true c:i d:i=-1 e:f=1e-05 f:s=\"x\" g:is");
  ASSERT_EQ(specs.size(), 7u);
  EXPECT_EQ(std::get<bool>(*specs[0].def), false);
  EXPECT_EQ(std::get<bool>(*specs[1].def), true);
  EXPECT_FALSE(specs[2].def);
  EXPECT_EQ(std::get<int64_t>(*specs[3].def), -1);
  EXPECT_EQ(std::get<double>(*specs[4].def), 1e-5);
  EXPECT_EQ(std::get<std::string>(*specs[5].def), "x");
  EXPECT_EQ(specs[6].kind, 'l');
  EXPECT_FALSE(specs[6].def);
}

TEST(Attr, CompletingFillsDefaultsAndPrintingDropsThem) {
  std::vector<AttrSpec> specs = parseAttrSpecs("flag:b on:b=true n:i=3 x:f=0.5 perm:is");
  Attrs attrs{{"perm", std::vector<int64_t>{1, 0}}, {"x", int64_t(2)}, {"on", false}};
  ASSERT_TRUE(completeAttrs(attrs, specs, "op").ok());
  EXPECT_EQ(attrs.i("n"), 3);
  EXPECT_EQ(attrs.f("x"), 2.0); // an integer is a fine number
  EXPECT_EQ(attrsText(attrs, specs), " {on=false, x=2.0, perm=[1,0]}");
  attrs = Attrs{{"perm", std::vector<int64_t>{}}, {"flag", true}};
  ASSERT_TRUE(completeAttrs(attrs, specs, "op").ok());
  EXPECT_EQ(attrsText(attrs, specs), " {flag, perm=[]}");
  EXPECT_EQ(attrsText(Attrs{{"n", int64_t(3)}}, specs), "");
}

std::string completionError(Attrs attrs) {
  Status s = completeAttrs(attrs, parseAttrSpecs("axis:i name:s=\"\""), "op");
  return s.ok() ? "" : s.entries()[0].text;
}

TEST(Attr, CompletingReportsWhatIsWrong) {
  EXPECT_EQ(completionError({}), "op: attribute 'axis' is missing");
  EXPECT_EQ(completionError({{"axs", int64_t(1)}}),
            "op: unknown attribute 'axs'; did you mean 'axis'?");
  EXPECT_EQ(completionError({{"axis", 1.5}}), "op: attribute 'axis' is 1.5, expected an integer");
  EXPECT_EQ(completionError({{"axis", int64_t(1)}, {"name", true}}),
            "op: attribute 'name' is true, expected a string");
}

TEST(Attr, EveryRowOfTheOpTableParses) {
  for (const std::string &text : opTexts()) {
    const OpInfo &op = info(*opFromText(text));
    EXPECT_EQ(op.text, text);
    EXPECT_TRUE(op.maxIn < 0 || op.minIn <= op.maxIn) << text;
    EXPECT_GE(op.outs, 1) << text;
    for (const AttrSpec &s : op.attrs)
      EXPECT_NE(std::string("bifsl").find(s.kind), std::string::npos) << text << " " << s.name;
  }
}

} // namespace
