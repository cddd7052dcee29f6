// SPDX-License-Identifier: Apache-2.0
#include "tools/Flags.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace ds {

static std::string normal(std::string s) {
  for (char &c : s)
    if (c == '_')
      c = '-';
  return s;
}

static std::vector<std::string> split(const std::string &s, char at) {
  std::vector<std::string> out;
  size_t begin = 0;
  for (size_t end; (end = s.find(at, begin)) != std::string::npos; begin = end + 1)
    out.push_back(s.substr(begin, end - begin));
  out.push_back(s.substr(begin));
  return out;
}

void Flags::add(const std::string &names, std::string arg, std::string help, Setter set) {
  for (const std::string &n : split(names, '|'))
    byName[normal(n)] = rows.size();
  rows.push_back({false, names, std::move(arg), std::move(help), std::move(set)});
}
void Flags::add(const std::string &names, std::string help, bool *v) {
  add(names, "", std::move(help), Setter([v](const std::string &) -> Status {
        *v = true;
        return {};
      }));
}
void Flags::add(const std::string &names, std::string arg, std::string help, std::string *v) {
  add(names, std::move(arg), std::move(help), Setter([v](const std::string &s) -> Status {
        *v = s;
        return {};
      }));
}
void Flags::add(const std::string &names, std::string arg, std::string help,
                std::optional<int64_t> *v) {
  add(names, std::move(arg), std::move(help), Setter([v](const std::string &s) -> Status {
        TRY_ASSIGN(int64_t n, parseInt(s));
        *v = n;
        return {};
      }));
}
void Flags::add(const std::string &names, std::string arg, std::string help,
                std::optional<double> *v) {
  add(names, std::move(arg), std::move(help), Setter([v](const std::string &s) -> Status {
        TRY_ASSIGN(double n, parseDouble(s));
        *v = n;
        return {};
      }));
}
void Flags::add(const std::string &names, std::string arg, std::string help,
                std::vector<std::string> *v) {
  add(names, std::move(arg), std::move(help), Setter([v](const std::string &s) -> Status {
        v->push_back(s);
        return {};
      }));
}

Status Flags::parse(int argc, const char *const *argv, std::vector<std::string> &positional) {
  Status all;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word.size() < 2 || word[0] != '-') {
      positional.push_back(word);
      continue;
    }
    size_t eq = word.find('=');
    bool hasValue = eq != std::string::npos;
    std::string value = hasValue ? word.substr(eq + 1) : "";
    std::string spelled = word.substr(0, eq);
    std::string name = normal(spelled.substr(spelled.find_first_not_of('-') == std::string::npos
                                                 ? spelled.size()
                                                 : spelled.find_first_not_of('-')));
    if (name == "help" || name == "h") {
      helpAsked = true;
      continue;
    }
    if (name == "version") {
      versionAsked = true;
      continue;
    }
    auto it = byName.find(name);
    if (it == byName.end()) {
      std::vector<std::string> known;
      for (const auto &[n, row] : byName)
        known.push_back(n);
      std::string near = nearest(name, known);
      all.merge(Status::error(spelled + ": unknown flag" +
                              (near.empty() ? "" : "; did you mean --" + near + "?")));
      continue;
    }
    Row &row = rows[it->second];
    if (row.arg.empty() && hasValue) {
      all.merge(Status::error(spelled + " takes no value, found '" + value + "'"));
      continue;
    }
    if (!row.arg.empty() && !hasValue) {
      if (i + 1 >= argc) {
        all.merge(Status::error(spelled + " needs a value: " + spelled + " " + row.arg));
        continue;
      }
      value = argv[++i];
    }
    givenNames.push_back(split(row.names, '|')[0]);
    all.merge(row.set(value).at(spelled));
  }
  return std::move(all).in(tool);
}

std::string Flags::help() const {
  std::string out = usage + "\n";
  for (const Row &r : rows) {
    if (r.isGroup) {
      out += "\n" + r.names + ":\n";
      continue;
    }
    std::string left = "  ";
    for (const std::string &n : split(r.names, '|'))
      left += (left.size() > 2 ? ", --" : "--") + n;
    left += r.arg.empty() ? "" : " " + r.arg;
    if (left.size() > 34)
      out += left + "\n" + std::string(36, ' ') + r.help + "\n";
    else
      out += left + std::string(36 - left.size(), ' ') + r.help + "\n";
  }
  return out + "\nExamples:\n" + examples;
}

StatusOr<double> parseDouble(const std::string &text) {
  char *end = nullptr;
  double v = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || !std::isfinite(v))
    return Status::error("'" + text + "' is not a number");
  return v;
}

StatusOr<int64_t> parseInt(const std::string &text) {
  TRY_ASSIGN(double v, parseDouble(text));
  if (v != std::floor(v) || std::fabs(v) > 9e15)
    return Status::error("'" + text + "' is not a whole number");
  return static_cast<int64_t>(v);
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
    if (v < 0)
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
  return scaled(static_cast<double>(bytes), 1024, units);
}
std::string countText(int64_t n) {
  static const char *const units[] = {"", " K", " M", " B", " T", nullptr};
  return scaled(static_cast<double>(n), 1000, units);
}

} // namespace ds
