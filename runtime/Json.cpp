// SPDX-License-Identifier: Apache-2.0
#include "runtime/Json.h"

#include <cmath>
#include <fmt/format.h>

namespace ds {

std::string jsonString(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
  return out + '"';
}

std::string jsonNumber(double v) { return std::isfinite(v) ? fmt::format("{}", v) : "null"; }

} // namespace ds
