// SPDX-License-Identifier: Apache-2.0
#include "frontend/Units.h"

#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace ds {

StatusOr<double> parseDouble(const std::string &text) {
  char *end = nullptr;
  double v = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(v))
    return Status::error("'" + text + "' is not a number");
  return v;
}

// text: what v was read from. Above 9e15 doubles are no longer all whole numbers.
static StatusOr<int64_t> whole(double v, const std::string &text) {
  if (v != std::floor(v) || std::fabs(v) > 9e15)
    return Status::error("'" + text + "' is not a whole number");
  return static_cast<int64_t>(v);
}

StatusOr<int64_t> parseInt(const std::string &text) {
  TRY_ASSIGN(double v, parseDouble(text));
  return whole(v, text);
}

StatusOr<int64_t> parseCount(const std::string &text) {
  static const std::string units = "KMBT";
  double scale = 1;
  std::string digits = text;
  char last = text.empty() ? ' ' : static_cast<char>(std::toupper(text.back()));
  if (size_t unit = units.find(last); unit != std::string::npos) {
    scale = std::pow(1000, unit + 1);
    digits.pop_back();
  }
  TRY_ASSIGN(double v, parseDouble(digits));
  return whole(v * scale, text);
}

StatusOr<int64_t> parseBytes(const std::string &text) {
  static const std::pair<const char *, double> units[] = {
      {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}, {"KB", 1e3},
      {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},    {"B", 1},        {"", 1}};
  for (auto [unit, scale] : units) {
    std::string u = unit;
    if (text.size() < u.size() || text.compare(text.size() - u.size(), u.size(), u) != 0)
      continue;
    TRY_ASSIGN(double v, parseDouble(text.substr(0, text.size() - u.size())));
    if (v < 0 || v * scale >= 0x1p63)
      break;
    return static_cast<int64_t>(v * scale);
  }
  return Status::error("'" + text + "' is not a size; expected e.g. 24GiB or 80GB");
}

static std::string scaled(double v, double base, const char *const *units) {
  int u = 0;
  for (; v >= base && units[u + 1]; ++u)
    v /= base;
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, u == 0 ? "%.0f%s" : "%.1f%s", v, units[u]);
  return buffer;
}

std::string bytesText(int64_t bytes) {
  static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", nullptr};
  std::string size = scaled(std::fabs(static_cast<double>(bytes)), 1024, units);
  return bytes < 0 ? "-" + size : size;
}
std::string countText(int64_t n) {
  static const char *const units[] = {"", " K", " M", " B", " T", nullptr};
  return scaled(static_cast<double>(n), 1000, units);
}

std::string secondsText(double seconds) {
  static const char *const units[] = {" us", " ms", nullptr};
  if (seconds < 1)
    return scaled(seconds * 1e6, 1000, units);
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.1f s", seconds);
  return buffer;
}

} // namespace ds
