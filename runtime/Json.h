// SPDX-License-Identifier: Apache-2.0
//
// The little JSON that the runtime writes.
#pragma once

#include <string>
#include <string_view>

namespace ds {

/// The text in quotes, escaped.
std::string jsonString(std::string_view text);
/// Shortest text that reads back to the same double; null for what JSON cannot say (NaN, infinities).
std::string jsonNumber(double v);

} // namespace ds
