// SPDX-License-Identifier: Apache-2.0
//
// The reader of .dsched text: words and tables in ScheduleParse.cpp, programs in ScheduleParseProgram.cpp.
#pragma once

#include "ir/Schedule.h"
#include "ir/ScheduleNames.h"
#include "ir/SourceText.h"

#include <unordered_map>

namespace ds {

/// Line by line: the first word says what a line declares.
class ScheduleParser {
public:
  ScheduleParser(std::string_view text, std::string_view path) : src(text), lex(text, path) {
    lex.setNewlines(true);
    s.path = path;
  }
  StatusOr<Schedule> run();

private:
  using Index = std::unordered_map<std::string, int>;
  /// A name, and where it stands.
  struct Named {
    std::string name;
    size_t pos;
  };
  Status header();
  Status table();
  Status arena();
  Status buffer(SchedProgram *p);
  Status bucket();
  Status segment(BucketInfo &b);
  Status init();
  Status input();
  Status origin();
  Status program();
  Status programLine(SchedProgram &p);
  Status view(SchedProgram &p);
  Status carriedLine(SchedProgram &p);
  Status instr(SchedProgram &p, Stream stream);
  Status destinations(SchedProgram &p, Instr &i);
  Status operation(Instr &i, const Named &word);
  Status clauses(SchedProgram &p, Instr &i);
  Status returns(SchedProgram &p);

  /// Skips blank lines and comments; then the lexer stands at a line's first token.
  void skipLines() {
    while (lex.peek().kind == Tok::Newline)
      lex.next();
  }
  Status endOfLine() {
    const Token &t = lex.peek();
    if (t.kind == Tok::Newline || t.kind == Tok::Eof)
      return {};
    return lex.errorHere("expected the end of the line, found '" + std::string(t.text) + "'");
  }
  /// The line of the current token; asked for in increasing order only.
  int line() {
    size_t pos = lex.peek().pos;
    for (; counted < pos; ++counted)
      lineNumber += src[counted] == '\n';
    return lineNumber;
  }
  static std::string shown(const Token &t); // for messages
  StatusOr<int64_t> number(int64_t low, int64_t high, std::string_view what);
  StatusOr<int64_t> keyed(std::string_view key, int64_t low, int64_t high);
  StatusOr<DType> dtype();
  StatusOr<Space> space();
  StatusOr<Named> named();
  StatusOr<PlaceRef> place(const SchedProgram &p, const Named &word);
  Status places(const SchedProgram &p, std::vector<PlaceRef> &list);
  StatusOr<int> bufferRef(const SchedProgram &p);
  StatusOr<int> labelIndex(const SchedProgram &p, const Named &use);
  Status declare(Index &names, const std::string &name, int index, size_t pos);

  std::string_view src;
  Lexer lex;
  Schedule s;
  Index persistent;             // name -> buffer
  Index own, views;             // of the current program; own in the numbering of SchedProgram
  Index labels, carried;        // of the current program; carried: what the one before left running
  std::vector<Named> intervals; // two labels for each own buffer, in order
  std::vector<std::pair<int, Named>> waits; // instruction, and a label it waits for
  size_t counted = 0;
  int lineNumber = 1;
};

} // namespace ds
