// SPDX-License-Identifier: Apache-2.0
//
// Command lines: hyphen and underscore spellings of a flag are one flag, and --help shows our flags only.
#pragma once

#include "ir/Status.h"

#include "llvm/Support/CommandLine.h"

#include <string>
#include <vector>

namespace ds {

/// argv with '_' turned into '-' in flag names (not in values): --log_json=a_b is --log-json=a_b.
class Args {
public:
  Args(int argc, char **argv);
  int argc() const { return static_cast<int>(pointers.size()); }
  const char *const *argv() const { return pointers.data(); }

private:
  std::vector<std::string> words;
  std::vector<const char *> pointers;
};

/// Parses the command line. --help prints these groups and nothing of LLVM's own. Exits on unknown flags, --help
/// and --version; returns an error for flags, and for ways of being started, that later work brings.
Status parseFlags(const Args &args, const char *overview,
                  llvm::ArrayRef<const llvm::cl::OptionCategory *> groups);

} // namespace ds
