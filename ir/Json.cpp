// SPDX-License-Identifier: Apache-2.0
#include "ir/Json.h"

#include "ir/Lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <map>

namespace ds {

static constexpr size_t kMaxShown = 100; // characters of a key or string

const JsonValue *JsonValue::find(std::string_view key) const {
  for (const JsonMember &m : members)
    if (m.key == key)
      return &m.value;
  return nullptr;
}

std::string JsonValue::shown() const {
  switch (kind) {
  case Kind::Null:
    return "null";
  case Kind::Bool:
  case Kind::Number:
    return text;
  case Kind::String:
    return jsonQuoted(text.size() <= kMaxShown ? text : text.substr(0, kMaxShown) + "...");
  case Kind::Array:
    return "an array";
  case Kind::Object:
    return "an object";
  }
  return "";
}

std::string jsonPath(const std::string &parent, const std::string &key) {
  std::string path = parent.empty() || key.starts_with("[") ? parent : parent + ".";
  for (char c :
       std::string_view(key).substr(0, kMaxShown)) // into messages: nothing that moves a cursor
    path += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  return path;
}

std::string jsonQuoted(std::string_view s) {
  std::string out = "\"";
  for (char c : s)
    if (c == '"' || c == '\\')
      out += std::string("\\") + c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += std::string("\\u00") + "0123456789abcdef"[c >> 4] + "0123456789abcdef"[c & 15];
    else
      out += c;
  return out + "\"";
}

std::string jsonNumber(double v) {
  char text[40];
  auto r = std::to_chars(text, text + sizeof text, v, std::chars_format::general);
  return std::isfinite(v) ? std::string(text, r.ptr) : "null";
}

namespace {

constexpr int kMaxDepth = 64;
constexpr size_t kMaxDuplicates = 50; // reported

class Parser {
public:
  Parser(std::string_view s, std::string_view path) : src(s), places(s, path) {}

  StatusOr<JsonValue> parse() {
    if (src.starts_with("\xef\xbb\xbf"))
      cursor = 3;
    JsonValue v;
    TRY(value(v, "", 0));
    TRY(skip());
    if (cursor < src.size())
      return errorHere("expected the end of the file");
    TRY(std::move(duplicates));
    return v;
  }

private:
  Status error(size_t pos, std::string text) { return places.error(pos, std::move(text)); }

  Status errorHere(std::string expected) {
    if (cursor >= src.size())
      return error(src.size(), expected + ", found the end of the file");
    unsigned char c = src[cursor];
    std::string found =
        c >= 0x20 && c < 0x7f ? std::string("'") + src[cursor] + "'" : "byte " + std::to_string(c);
    return error(cursor, expected + ", found " + found);
  }

  bool at(char c) const { return cursor < src.size() && src[cursor] == c; }
  bool accept(char c) { return at(c) ? ++cursor, true : false; }

  // Blanks and comments.
  Status skip() {
    for (;;) {
      while (cursor < src.size() && (src[cursor] == ' ' || src[cursor] == '\t' ||
                                     src[cursor] == '\n' || src[cursor] == '\r'))
        ++cursor;
      std::string_view rest = src.substr(cursor);
      if (rest.starts_with("//") || rest.starts_with("#")) {
        cursor = std::min(src.find('\n', cursor), src.size());
      } else if (rest.starts_with("/*")) {
        size_t end = src.find("*/", cursor + 2);
        if (end == src.npos)
          return error(cursor, "this comment does not end");
        cursor = end + 2;
      } else {
        return {};
      }
    }
  }

  Status value(JsonValue &v, const std::string &path, int depth) {
    TRY(skip());
    v.pos = cursor;
    if (depth > kMaxDepth)
      return error(cursor, "nested more than " + std::to_string(kMaxDepth) + " deep");
    if (at('{') || at('['))
      return members(v, path, depth);
    if (at('"')) {
      v.kind = JsonValue::Kind::String;
      return string(v.text);
    }
    return word(v);
  }

  Status members(JsonValue &v, const std::string &path, int depth) {
    bool object = accept('{');
    if (!object)
      ++cursor;
    v.kind = object ? JsonValue::Kind::Object : JsonValue::Kind::Array;
    const char close = object ? '}' : ']';
    std::map<std::string, size_t> keys; // with their places
    for (;;) {
      TRY(skip());
      if (accept(close))
        return {};
      JsonMember m;
      m.pos = cursor;
      if (object) {
        if (!at('"'))
          return errorHere("expected a key in quotes or '}'");
        TRY(string(m.key));
        auto [first, isNew] = keys.emplace(m.key, m.pos);
        if (!isNew && duplicates.entries().size() < kMaxDuplicates)
          duplicates.merge(error(m.pos, jsonPath(path, m.key) +
                                            ": this key is given twice, first at " +
                                            places.place(first->second)));
        TRY(skip());
        if (!accept(':'))
          return errorHere("expected ':' after the key");
      } else {
        m.key = "[" + std::to_string(v.members.size()) + "]";
      }
      TRY(value(m.value, jsonPath(path, m.key), depth + 1));
      v.members.push_back(std::move(m));
      TRY(skip());
      if (!accept(',') && !at(close))
        return errorHere(std::string("expected ',' or '") + close + "'");
    }
  }

  // A number, true, false or null.
  Status word(JsonValue &v) {
    size_t start = cursor;
    auto isWord = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
             c == '-' || c == '+' || c == '.' || c == '_';
    };
    while (cursor < src.size() && isWord(src[cursor]))
      ++cursor;
    std::string_view w = src.substr(start, cursor - start);
    v.text = w;
    if (w == "null") {
      v.kind = JsonValue::Kind::Null;
      return {};
    }
    if (w == "true" || w == "false") {
      v.kind = JsonValue::Kind::Bool;
      return {};
    }
    v.kind = JsonValue::Kind::Number;
    if (isNumber(w))
      return {};
    if (w.empty())
      return errorHere("expected a value");
    return error(start, "expected a value, found '" + std::string(w.substr(0, 40)) +
                            "'; text stands in quotes");
  }

  // -?digits[.digits][e[+-]digits]
  static bool isNumber(std::string_view w) {
    size_t p = 0;
    auto digits = [&] {
      size_t from = p;
      while (p < w.size() && w[p] >= '0' && w[p] <= '9')
        ++p;
      return p > from;
    };
    p += w.starts_with("-");
    if (!digits())
      return false;
    if (p < w.size() && w[p] == '.' && (++p, !digits()))
      return false;
    if (p < w.size() && (w[p] == 'e' || w[p] == 'E')) {
      ++p;
      if (p < w.size() && (w[p] == '+' || w[p] == '-'))
        ++p;
      if (!digits())
        return false;
    }
    return p == w.size();
  }

  Status string(std::string &out) {
    size_t start = cursor++;
    for (;;) {
      if (cursor >= src.size() || src[cursor] == '\n')
        return error(start, "this string does not end on its line");
      char c = src[cursor++];
      if (c == '"')
        return {};
      if (c != '\\') {
        out += c;
        continue;
      }
      TRY(escape(out));
    }
  }

  Status escape(std::string &out) {
    size_t pos = cursor - 1;
    char c = cursor < src.size() ? src[cursor++] : ' ';
    static constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (size_t i = from.find(c); i != from.npos) {
      out += to[i];
      return {};
    }
    uint32_t code = 0, low = 0;
    if (c != 'u' || !hex4(code))
      return error(pos, "unknown escape");
    if (code >= 0xd800 && code < 0xe000) { // a surrogate pair
      bool pair = code < 0xdc00 && src.substr(cursor, 2) == "\\u";
      cursor += pair ? 2 : 0;
      if (!pair || !hex4(low) || low < 0xdc00 || low >= 0xe000)
        return error(pos, "half a surrogate pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    appendUtf8(out, code);
    return {};
  }

  bool hex4(uint32_t &code) {
    code = 0;
    for (int i = 0; i < 4; ++i) {
      static constexpr std::string_view digits = "0123456789abcdefABCDEF";
      size_t digit = cursor < src.size() ? digits.find(src[cursor]) : digits.npos;
      if (digit == digits.npos)
        return false;
      code = code * 16 + static_cast<uint32_t>(digit < 16 ? digit : digit - 6);
      ++cursor;
    }
    return true;
  }

  static void appendUtf8(std::string &out, uint32_t code) {
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static constexpr uint32_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    out += static_cast<char>(lead[more] | code >> (6 * more));
    while (more-- > 0)
      out += static_cast<char>(0x80 | ((code >> (6 * more)) & 0x3f));
  }

  std::string_view src;
  Lexer places;
  size_t cursor = 0;
  Status duplicates;
};

} // namespace

StatusOr<JsonValue> parseJson(std::string_view text, std::string_view path) {
  return Parser(text, path).parse();
}

} // namespace ds
