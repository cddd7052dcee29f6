// SPDX-License-Identifier: Apache-2.0
//
// The token stream that both text forms share, with places for errors. Comments run from // to the line's
// end. Names: letters, digits, '_', '.', '/', '-', ':' after a first letter or '_'; %x and @x keep their sigil.
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

  /// The current token, and advancing. Newlines are tokens only when asked for.
  const Token &peek();
  Token next();
  bool at(std::string_view punctOrName);
  bool accept(std::string_view punctOrName);
  /// Errors: "expected ',' or ']', found 'x'".
  Status expect(std::string_view punctOrName);
  StatusOr<std::string> name();
  StatusOr<int64_t> integer();
  StatusOr<double> number();
  StatusOr<std::string> string(); // unescaped

  /// "path:line:col" of a byte offset, and an error there with the source line and a caret as notes.
  std::string place(size_t pos) const;
  Status error(size_t pos, std::string text) const;
  Status errorHere(std::string text) { return error(peek().pos, std::move(text)); }

private:
  Token lex();
  std::string_view src;
  std::string path;
  size_t cursor = 0;
  Token current;
  bool have = false;
};

} // namespace ds
