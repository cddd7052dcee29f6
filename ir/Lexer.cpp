// SPDX-License-Identifier: Apache-2.0
#include "ir/Lexer.h"

#include <algorithm>
#include <charconv>

namespace ds {

static bool isDigit(char c) { return c >= '0' && c <= '9'; }
static bool isLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool isWord(char c) { return isDigit(c) || isLetter(c); }

// One past the end of the name whose first character, already judged, is at pos.
static size_t nameEnd(std::string_view s, size_t pos) {
  auto joins = [](char c) { return c == '.' || c == '/' || c == '-' || c == ':'; };
  for (++pos; pos < s.size(); ++pos)
    if (!isWord(s[pos]) && !(joins(s[pos]) && pos + 1 < s.size() && isWord(s[pos + 1])))
      break;
  return pos;
}

bool isName(std::string_view s) { return !s.empty() && isWord(s[0]) && nameEnd(s, 0) == s.size(); }

void Lexer::setNewlines(bool on) {
  if (newlines != on && have) {
    // Look again: the blanks in front of the current token may hold a newline that now counts.
    cursor = current.pos;
    while (on && cursor > 0 && (src[cursor - 1] == ' ' || src[cursor - 1] == '\t'))
      --cursor;
    if (on && cursor > 0 && src[cursor - 1] == '\n')
      --cursor;
    have = false;
  }
  newlines = on;
}

const Token &Lexer::peek() {
  if (!have) {
    current = lex();
    have = true;
  }
  return current;
}

Token Lexer::next() {
  Token t = peek();
  have = false;
  return t;
}

Token Lexer::lexNumber(size_t start) {
  size_t p = start;
  bool isFloat = false;
  if (src[p] == '-')
    ++p;
  if (src.substr(p, 3) == "inf") {
    cursor = p + 3;
    return {Tok::Float, src.substr(start, cursor - start), start};
  }
  auto digits = [&] {
    while (p < src.size() && isDigit(src[p]))
      ++p;
  };
  digits();
  if (p + 1 < src.size() && src[p] == '.' && isDigit(src[p + 1])) {
    isFloat = true;
    ++p;
    digits();
  }
  if (p < src.size() && (src[p] == 'e' || src[p] == 'E')) {
    size_t q = p + 1;
    if (q < src.size() && (src[q] == '-' || src[q] == '+'))
      ++q;
    if (q < src.size() && isDigit(src[q])) {
      isFloat = true;
      p = q;
      digits();
    }
  }
  cursor = p;
  return {isFloat ? Tok::Float : Tok::Int, src.substr(start, p - start), start};
}

Token Lexer::lexString(size_t start) {
  size_t p = start + 1;
  while (p < src.size() && src[p] != '"' && src[p] != '\n')
    p += src[p] == '\\' && p + 1 < src.size() && src[p + 1] != '\n' ? 2 : 1;
  if (p >= src.size() || src[p] != '"') { // unterminated: the lone quote is what no rule expects
    cursor = start + 1;
    return {Tok::Punct, src.substr(start, 1), start};
  }
  cursor = p + 1;
  return {Tok::String, src.substr(start + 1, p - start - 1), start};
}

Token Lexer::lex() {
  for (; cursor < src.size(); ++cursor) {
    char c = src[cursor];
    if (src.substr(cursor, 2) == "//")
      cursor = std::min(src.find('\n', cursor), src.size()) - 1;
    else if (c == '\n' && newlines)
      return {Tok::Newline, src.substr(cursor++, 1), cursor - 1};
    else if (c != ' ' && c != '\t' && c != '\r' && c != '\n')
      break;
  }
  size_t start = cursor;
  if (start >= src.size()) // its place is behind the last line that says something
    return {Tok::Eof, {}, src.find_last_not_of(" \t\r\n") + 1};
  char c = src[start], after = start + 1 < src.size() ? src[start + 1] : '\0';
  if ((c == '%' || c == '@') && isWord(after)) {
    cursor = nameEnd(src, start + 1);
    return {c == '%' ? Tok::Local : Tok::Global, src.substr(start + 1, cursor - start - 1), start};
  }
  if (isLetter(c)) {
    cursor = nameEnd(src, start);
    return {Tok::Name, src.substr(start, cursor - start), start};
  }
  if (isDigit(c) || (c == '-' && (isDigit(after) || src.substr(start + 1, 3) == "inf")))
    return lexNumber(start);
  if (c == '"')
    return lexString(start);
  if (c == '-' && after == '>') {
    cursor = start + 2;
    return {Tok::Arrow, src.substr(start, 2), start};
  }
  cursor = start + 1;
  return {Tok::Punct, src.substr(start, 1), start};
}

bool Lexer::at(std::string_view s) {
  const Token &t = peek();
  return (t.kind == Tok::Punct || t.kind == Tok::Name || t.kind == Tok::Arrow) && t.text == s;
}

bool Lexer::accept(std::string_view s) {
  if (!at(s))
    return false;
  have = false;
  return true;
}

static std::string describe(const Token &t) {
  switch (t.kind) {
  case Tok::Eof:
    return "the end of the file";
  case Tok::Newline:
    return "the end of the line";
  case Tok::Local:
    return "'%" + std::string(t.text) + "'";
  case Tok::Global:
    return "'@" + std::string(t.text) + "'";
  case Tok::String:
    return "a string";
  default:
    break;
  }
  if (t.text == "\"")
    return "a string without its closing quote";
  auto u = static_cast<unsigned char>(t.text[0]);
  return u < 0x20 || u >= 0x7f ? "byte " + std::to_string(u) : "'" + std::string(t.text) + "'";
}

Status Lexer::expected(std::string_view what) {
  return errorHere("expected " + std::string(what) + ", found " + describe(peek()));
}

Status Lexer::expect(std::string_view s) {
  if (accept(s))
    return {};
  return expected("'" + std::string(s) + "'");
}

StatusOr<std::string> Lexer::text(Tok kind, std::string_view what) {
  if (peek().kind != kind)
    return expected(what);
  return std::string(next().text);
}

StatusOr<std::string> Lexer::name() { return text(Tok::Name, "a name"); }
StatusOr<std::string> Lexer::local() { return text(Tok::Local, "a value (%name)"); }
StatusOr<std::string> Lexer::global() { return text(Tok::Global, "a symbol (@name)"); }

StatusOr<int64_t> Lexer::integer() {
  if (peek().kind != Tok::Int)
    return expected("an integer");
  Token t = next();
  int64_t v = 0;
  auto r = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
  if (r.ec != std::errc() || r.ptr != t.text.data() + t.text.size())
    return error(t.pos, "the integer does not fit in 64 bits");
  return v;
}

StatusOr<double> Lexer::number() {
  const Token &p = peek();
  bool word = p.kind == Tok::Name && (p.text == "inf" || p.text == "nan");
  if (p.kind != Tok::Int && p.kind != Tok::Float && !word)
    return expected("a number");
  Token t = next();
  double v = 0;
  auto r = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
  if (r.ec != std::errc())
    return error(t.pos, "the number is outside the range of a double");
  return v;
}

StatusOr<std::string> Lexer::string() {
  if (peek().kind != Tok::String)
    return expected("a string");
  Token t = next();
  std::string out;
  for (size_t i = 0; i < t.text.size(); ++i) {
    char c = t.text[i];
    if (c != '\\') {
      out += c;
      continue;
    }
    char e = ++i < t.text.size() ? t.text[i] : '\0';
    if (e == 'n') {
      out += '\n';
    } else if (e == '"' || e == '\\') {
      out += e;
    } else {
      unsigned byte = 0;
      std::string_view hex = e == 'x' ? t.text.substr(i + 1, 2) : std::string_view();
      auto r = std::from_chars(hex.data(), hex.data() + hex.size(), byte, 16);
      if (hex.size() != 2 || r.ptr != hex.data() + 2)
        return error(t.pos + i, "unknown escape in a string, expected \\n, \\\", \\\\ or \\xNN");
      out += static_cast<char>(byte);
      i += 2;
    }
  }
  return out;
}

std::string Lexer::place(size_t pos) const {
  pos = std::min(pos, src.size());
  if (pos < countedTo)
    countedTo = countedLines = lineStart = 0;
  for (; countedTo < pos; ++countedTo)
    if (src[countedTo] == '\n') {
      ++countedLines;
      lineStart = countedTo + 1;
    }
  return path + ":" + std::to_string(countedLines + 1) + ":" + std::to_string(pos - lineStart + 1);
}

Status Lexer::error(size_t pos, std::string text) const {
  pos = std::min(pos, src.size());
  return Status::error(std::move(text)).at(place(pos)).note(snippet(src, pos));
}

std::string snippet(std::string_view src, size_t pos) {
  constexpr size_t width = 96; // long lines are cut around the place
  size_t begin = src.substr(0, pos).rfind('\n') + 1;
  size_t end = std::min(src.find('\n', pos), src.size());
  if (pos - begin > width / 2 && end - begin > width)
    begin = std::max(begin, std::min(pos - width / 2, end - width));
  end = std::min(end, begin + width);
  std::string line, caret;
  for (size_t i = begin; i < end; ++i) {
    auto u = static_cast<unsigned char>(src[i]);
    line += u == '\t' || u >= 0x20 ? src[i] : ' ';
    if (i < pos)
      caret += u == '\t' ? '\t' : ' ';
  }
  return "  " + line + "\n  " + caret + "^";
}

} // namespace ds
