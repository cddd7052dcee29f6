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

void parseFlags(const Args &args, const char *overview,
                llvm::ArrayRef<const cl::OptionCategory *> groups) {
  cl::HideUnrelatedOptions(groups);
  llvm::StringMap<cl::Option *> &all = cl::getRegisteredOptions();
  all.erase("help-list"); // with groups, --help would show it again
  if (cl::Option *o = all.lookup("version"))
    o->setHiddenFlag(cl::Hidden);
  if (cl::Option *o = all.lookup("help"))
    o->setDescription("Show this text");
  cl::SetVersionPrinter([](llvm::raw_ostream &out) { out << DS_BUILD << "\n"; });
  cl::ParseCommandLineOptions(args.argc(), args.argv(), overview);
}

} // namespace ds
