// SPDX-License-Identifier: Apache-2.0
#include "tools/Args.h"

#include "kernels/Kernel.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace cl = llvm::cl;

namespace ds {

Args::Args(int argc, char **argv) : words(argv, argv + argc) {
  bool flags = true;
  for (size_t i = 1; i < words.size(); ++i) {
    std::string &w = words[i];
    if (w == "--")
      flags = false; // only positional arguments follow
    if (!flags || w.size() < 2 || w[0] != '-')
      continue;
    auto end = std::find(w.begin(), w.end(), '=');
    std::replace(w.begin(), end, '_', '-');
  }
  for (const std::string &w : words)
    pointers.push_back(w.c_str());
}

// What later work brings is refused by name, not as an unknown flag.
static constexpr struct {
  const char *flag, *what;
} kPostponed[] = {
    {"hostfile", "ranks on several hosts"},
    {"include", "ranks on several hosts"},
    {"exclude", "ranks on several hosts"},
    {"master-port", "ranks on several hosts"},
};

static Status refusePostponed(const Args &args) {
  Status s;
  for (int i = 1; i < args.argc(); ++i) {
    llvm::StringRef word = args.argv()[i];
    if (word == "--")
      break;
    if (!word.consume_front("-"))
      continue;
    word.consume_front("-");
    word = word.split('=').first;
    for (auto [flag, what] : kPostponed)
      if (word == flag)
        s.merge(Status::error("--" + word.str() + " is not supported yet: " + what +
                              " will come later"));
  }
  return s;
}

Status parseFlags(const Args &args, const char *overview,
                  llvm::ArrayRef<const cl::OptionCategory *> groups) {
  TRY(refusePostponed(args));
  cl::HideUnrelatedOptions(groups);
  llvm::StringMap<cl::Option *> &all = cl::getRegisteredOptions();
  all.erase("help-list"); // with groups, --help would show it again
  if (cl::Option *o = all.lookup("version"))
    o->setHiddenFlag(cl::Hidden);
  if (cl::Option *o = all.lookup("help"))
    o->setDescription("Show this text");
  cl::SetVersionPrinter([](llvm::raw_ostream &out) { out << DS_BUILD << "\n"; });
  cl::ParseCommandLineOptions(args.argc(), args.argv(), overview);
  return {};
}

} // namespace ds
