// SPDX-License-Identifier: Apache-2.0
//
// Numbers, sizes and times as people write and read them.
#pragma once

#include "ir/Status.h"

#include <cstdint>
#include <string>

namespace ds {

/// "12", "1e9", "5e8": whole numbers only.
StatusOr<int64_t> parseInt(const std::string &text);
/// "7e9", "7B", "124M": whole numbers, K, M, B and T for powers of 1000.
StatusOr<int64_t> parseCount(const std::string &text);
StatusOr<double> parseDouble(const std::string &text);
/// "24GiB", "80GB", "123456": bytes.
StatusOr<int64_t> parseBytes(const std::string &text);
/// "12.3 GiB", "4.0 KiB", "17 B".
std::string bytesText(int64_t bytes);
/// "124.4 M", "7.0 B", "896".
std::string countText(int64_t n);
/// "1.5 s", "23.4 ms", "120 us".
std::string secondsText(double seconds);

} // namespace ds
