// SPDX-License-Identifier: Apache-2.0
#include "ir/ScheduleNames.h"

#include "ir/Attr.h"

namespace ds {

std::string nameText(const std::string &name) {
  for (std::string_view clause : {"over", "work", "carry", "wait", "own", "inf", "nan"})
    if (name == clause)
      return quoted(name);
  bool bare = isName(name) && !(name[0] >= '0' && name[0] <= '9');
  return bare ? name : quoted(name);
}

StatusOr<std::string> parseName(Lexer &lex) {
  return lex.peek().kind == Tok::String ? lex.string() : lex.name();
}

} // namespace ds
