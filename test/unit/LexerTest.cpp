// SPDX-License-Identifier: Apache-2.0
#include "ir/Lexer.h"

#include <gtest/gtest.h>

using namespace ds;

namespace {

// "kind text" of every token, joined by '|'.
std::string tokens(std::string_view text, bool newlines = false) {
  constexpr const char *kinds[] = {"eof",   "name", "%", "@",     "int",
                                   "float", "str",  "p", "arrow", "nl"};
  Lexer lex(text, "t");
  lex.setNewlines(newlines);
  std::string out;
  while (true) {
    Token t = lex.next();
    if (t.kind == Tok::Eof)
      return out;
    out += (out.empty() ? "" : "|") + std::string(kinds[static_cast<int>(t.kind)]);
    if (t.kind != Tok::Newline)
      out += " " + std::string(t.text);
  }
}

TEST(Lexer, NamesEndBeforePunctuation) {
  EXPECT_EQ(tokens("forward:\n%x: f32[8,64]"),
            "name forward|p :|% x|p :|name f32|p [|int 8|p ,|int 64|p ]");
  EXPECT_EQ(tokens("@l0.grad.shard, %a/b:0 place-collectives"),
            "@ l0.grad.shard|p ,|% a/b:0|name place-collectives");
  EXPECT_EQ(tokens("a->b a.b. %5"), "name a|arrow ->|name b|name a.b|p .|% 5");
  EXPECT_EQ(tokens("device+4096"), "name device|p +|int 4096");
}

TEST(Lexer, Numbers) {
  EXPECT_EQ(tokens("7 -7 0.5 -1e-05 1e5 3.25E+2 -inf inf"),
            "int 7|int -7|float 0.5|float -1e-05|float 1e5|float 3.25E+2|float -inf|name inf");
  EXPECT_EQ(tokens("1. 1e 8x4"), "int 1|p .|int 1|name e|int 8|name x4");
}

TEST(Lexer, CommentsAndNewlines) {
  EXPECT_EQ(tokens("a // b\nc"), "name a|name c");
  EXPECT_EQ(tokens("a // b\nc\n", /*newlines=*/true), "name a|nl|name c|nl");
  EXPECT_EQ(tokens("// only"), "");
  EXPECT_EQ(tokens("a/b a//b"), "name a/b|name a");
}

TEST(Lexer, NewlinesCanBeSwitchedAtAnyToken) {
  Lexer lex("a\n  b\nc", "t");
  EXPECT_EQ(lex.next().text, "a");
  EXPECT_EQ(lex.peek().text, "b");
  lex.setNewlines(true);
  EXPECT_EQ(lex.next().kind, Tok::Newline);
  EXPECT_EQ(lex.next().text, "b");
  EXPECT_EQ(lex.peek().kind, Tok::Newline);
  lex.setNewlines(false);
  EXPECT_EQ(lex.next().text, "c");
}

TEST(Lexer, ErrorsHavePlaceLineAndCaret) {
  Lexer lex("a\n  b 7\n", "f.dsir");
  ASSERT_TRUE(lex.name().ok());
  ASSERT_TRUE(lex.name().ok());
  Status s = lex.expect(",");
  ASSERT_EQ(s.entries().size(), 1u);
  EXPECT_EQ(s.str(), "f.dsir:2:5: error: expected ',', found '7'\n    b 7\n      ^\n");
  EXPECT_EQ(lex.place(0), "f.dsir:1:1"); // places may go back
}

TEST(Lexer, BadTokensAreErrorsNotCrashes) {
  auto error = [](std::string_view text, auto read) {
    Lexer lex(text, "t");
    return (lex.*read)().status().entries().at(0).text;
  };
  EXPECT_EQ(error("\"open", &Lexer::string),
            "expected a string, found a string without its closing quote");
  EXPECT_EQ(error("\"a\\q\"", &Lexer::string),
            "unknown escape in a string, expected \\n, \\\", \\\\ or \\xNN");
  EXPECT_EQ(error("\"a\\x1\"", &Lexer::string),
            "unknown escape in a string, expected \\n, \\\", \\\\ or \\xNN");
  EXPECT_EQ(error("9223372036854775808", &Lexer::integer), "the integer does not fit in 64 bits");
  EXPECT_EQ(error("1e999", &Lexer::number), "the number is outside the range of a double");
  EXPECT_EQ(error("\x01", &Lexer::name), "expected a name, found byte 1");
  EXPECT_EQ(error("", &Lexer::local), "expected a value (%name), found the end of the file");
}

TEST(Lexer, LongLinesAreCutAroundThePlace) {
  std::string line(100000, 'x');
  std::string s = snippet(line, 50000);
  EXPECT_LT(s.size(), 250u);
  EXPECT_EQ(s.back(), '^');
}

TEST(Lexer, IsName) {
  for (const char *good : {"a", "_", "l0.grad", "a/b", "a:0", "5"})
    EXPECT_TRUE(isName(good)) << good;
  for (const char *bad : {"", ".a", "a.", "a b", "a//b", "%a", "-a"})
    EXPECT_FALSE(isName(bad)) << bad;
}

} // namespace
