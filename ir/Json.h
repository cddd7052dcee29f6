// SPDX-License-Identifier: Apache-2.0
//
// A tolerant JSON reader that keeps positions: comments (//, /* */, #) and trailing commas are fine, as in the
// config files people have; a key that stands twice in one object is not.
#pragma once

#include "ir/Status.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct JsonMember;

struct JsonValue {
  enum class Kind { Null, Bool, Number, String, Array, Object } kind = Kind::Null;
  std::string text; // as written; of a string: decoded, in UTF-8; of arrays and objects: empty
  size_t pos = 0;   // byte offset of the first character
  std::vector<JsonMember> members; // of objects and arrays, in the file's order

  const JsonValue *find(std::string_view key) const;
  /// For messages: 3, true, "text", an array, an object.
  std::string shown() const;
};

struct JsonMember {
  std::string key; // of array elements "[0]", "[1]", ...
  size_t pos = 0;  // of the key; of array elements: of the value
  JsonValue value;
};

/// "zero_optimization" and "stage" make "zero_optimization.stage"; array elements follow without a dot.
std::string jsonPath(const std::string &parent, const std::string &key);

/// Parses one value with nothing but blanks and comments around it. Syntax errors end the parse; all duplicate
/// keys are reported. Errors carry path:line:col with the line and a caret. Nesting is at most 64 deep.
StatusOr<JsonValue> parseJson(std::string_view text, std::string_view path);

/// Text as a JSON string with quotes.
std::string jsonQuoted(std::string_view s);
/// Shortest text that reads back to the same double; null for what JSON cannot say (NaN, infinities).
std::string jsonNumber(double v);

} // namespace ds
