// SPDX-License-Identifier: Apache-2.0
//
// The token stream that both text forms share, with places for errors. Comments run from // to the line's
// end. Names: letters, digits and '_', with '.', '/', '-', ':' between two of them; the first character is a
// letter or '_', after % and @ also a digit.
#pragma once

#include "ir/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace ds {

enum class Tok : uint8_t { Eof, Name, Local, Global, Int, Float, String, Punct, Arrow, Newline };

struct Token {
  Tok kind = Tok::Eof;
  std::string_view text; // without sigil or quotes; punctuation as written
  size_t pos = 0;        // byte offset into the source
};

class Lexer {
public:
  Lexer(std::string_view source, std::string_view path) : src(source), path(path) {}

  /// Newlines are tokens only when asked for; may be switched at any token.
  void setNewlines(bool on);
  /// The current token, and advancing.
  const Token &peek();
  Token next();
  bool at(std::string_view punctOrName);
  bool accept(std::string_view punctOrName);
  /// Errors: "expected ',' or ']', found 'x'".
  Status expect(std::string_view punctOrName);
  StatusOr<std::string> name(); // a Name token, likewise local (%x) and global (@x)
  StatusOr<std::string> local();
  StatusOr<std::string> global();
  StatusOr<int64_t> integer();
  StatusOr<double> number();
  StatusOr<std::string> string(); // unescaped

  /// "path:line:col" of a byte offset, and an error there with the source line and a caret as notes.
  std::string place(size_t pos) const;
  Status error(size_t pos, std::string text) const;
  Status errorHere(std::string text) { return error(peek().pos, std::move(text)); }

private:
  Token lex();
  Token lexNumber(size_t start);
  Token lexString(size_t start);
  StatusOr<std::string> text(Tok kind, std::string_view what);
  Status expected(std::string_view what);
  std::string_view src;
  std::string path;
  size_t cursor = 0;
  Token current;
  bool have = false;
  bool newlines = false;
  mutable size_t countedTo = 0, countedLines = 0, lineStart = 0; // place() goes on from here
};

/// The source line around a byte offset, indented, and a second line with a caret under it. As a note of a
/// Status it prints without "note:".
std::string snippet(std::string_view source, size_t pos);

/// Whether s can stand behind % or @ (importers turn other names into such ones).
bool isName(std::string_view s);

} // namespace ds
