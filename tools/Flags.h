// SPDX-License-Identifier: Apache-2.0
//
// Command-line flags of the tools: groups for --help, `--flag value` and `--flag=value`, hyphens and underscores
// equal, nearest known flag in errors.
#pragma once

#include "ir/Status.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ds {

class Flags {
public:
  /// usage is the first line of --help, examples its last lines.
  Flags(std::string tool, std::string usage, std::string examples)
      : tool(std::move(tool)), usage(std::move(usage)), examples(std::move(examples)) {}

  void group(std::string title) { rows.push_back({true, std::move(title), "", "", {}}); }
  using Setter = std::function<Status(const std::string &)>;
  /// names: "world-size|num-gpus|ranks"; arg: "N", or "" for a flag without a value.
  void add(const std::string &names, std::string arg, std::string help, Setter set);
  void add(const std::string &names, std::string help, bool *v);
  void add(const std::string &names, std::string arg, std::string help, std::string *v);
  void add(const std::string &names, std::string arg, std::string help, std::optional<int64_t> *v);
  void add(const std::string &names, std::string arg, std::string help, std::optional<double> *v);
  void add(const std::string &names, std::string arg, std::string help, std::vector<std::string> *v);

  /// Sets everything that was given. All errors at once. --help and --version set the fields below.
  Status parse(int argc, const char *const *argv, std::vector<std::string> &positional);
  bool helpAsked = false, versionAsked = false;
  std::string help() const;
  /// Names (as declared first) of the flags that were given, in order.
  const std::vector<std::string> &given() const { return givenNames; }

private:
  struct Row {
    bool isGroup;
    std::string names, arg, help;
    Setter set;
  };
  std::string tool, usage, examples;
  std::vector<Row> rows;
  std::map<std::string, size_t> byName;
  std::vector<std::string> givenNames;
};

/// "12", "1e9", "5e8": whole numbers only.
StatusOr<int64_t> parseInt(const std::string &text);
StatusOr<double> parseDouble(const std::string &text);
/// "24GiB", "80GB", "123456": bytes.
StatusOr<int64_t> parseBytes(const std::string &text);
/// "12.3 GiB", "4.0 KiB", "17 B".
std::string bytesText(int64_t bytes);
/// "124.4 M", "7.0 B", "896".
std::string countText(int64_t n);

} // namespace ds
