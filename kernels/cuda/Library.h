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

/// A library in messages. Versions are major * 10000 + minor * 100 + patch.
struct LibraryName {
  const char *title;   // as in DS_CUDA_LIBRARIES
  const char *name;    // "cuBLASLt"
  const char *instead; // what is done without it, for "cuBLASLt is missing: ..."; may be ""
  size_t oldest;
};
/// What became of opening it, once for the process.
struct LibraryState {
  bool isThere = false;
  size_t version = 0;
  std::string error; // there, and cannot be used
  /// The version, and an error where it is too old.
  void setVersion(const LibraryName &n, size_t v);
};

/// *use: whether its functions are there, and DS_CUDA_LIBRARIES, as it is now, allows it; it is not opened otherwise. Returns a
/// message if it is there and cannot be used.
const char *findLibrary(const LibraryName &n, const LibraryState &(*opened)(), bool *use);
/// For DsDeviceInfo::libraries.
std::string describeLibrary(const LibraryName &n, const LibraryState &(*opened)());

} // namespace ds::cuda
