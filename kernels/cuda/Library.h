// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's libraries, which are opened when they are first needed and never linked: the plugin loads without them, and own
// kernels do their work where they are missing. One that is there but cannot be used is an error.
//   DS_CUDA_LIBRARIES       which ones may be used: names separated by commas, or "none"; unset: all
//   DS_CUDA_LIBRARY_PATH    folders to look in first, separated by colons
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace ds::cuda {

/// A function of a library, and where its address goes.
struct LibraryFunction {
  const char *name;
  void **address;
};

struct Library {
  const char *title;              // "cublasLt", as in DS_CUDA_LIBRARIES
  std::vector<std::string> files; // names that the loader knows, best first
  std::vector<LibraryFunction> functions;
};

/// Opens the first of the files that is there, for as long as the process lives. Returns its path, or "" if none is; *error tells
/// what is wrong with one that is.
std::string openLibrary(const Library &l, std::string *error);

/// "13.1.0", of major * 10000 + minor * 100 + patch.
std::string versionText(size_t v);

/// Whether DS_CUDA_LIBRARIES, as it is now, allows the library.
bool mayUse(const char *title);

} // namespace ds::cuda
