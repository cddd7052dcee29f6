// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/Library.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

namespace ds::cuda {

static std::vector<std::string> split(const char *text, char separator) {
  std::vector<std::string> parts(1);
  for (; text && *text; ++text)
    if (*text == separator)
      parts.emplace_back();
    else
      parts.back() += *text;
  std::erase(parts, "");
  return parts;
}

// Folders first, then "", which is where the system looks, then where toolkits lie.
static std::vector<std::string> folders() {
  std::vector<std::string> out = split(std::getenv("DS_CUDA_LIBRARY_PATH"), ':');
  out.emplace_back();
  if (const char *home = std::getenv("CUDA_HOME"))
    for (const char *inside : {"/lib64", "/lib"})
      out.push_back(std::string(home) + inside);
  out.emplace_back("/usr/local/cuda/lib64");
  return out;
}

std::string openLibrary(const Library &l, std::string *error) {
  for (const std::string &folder : folders())
    for (const std::string &file : l.files) {
      std::string path = folder.empty() ? file : folder + "/" + file;
      if (!folder.empty() && access(path.c_str(), F_OK) != 0)
        continue;
      void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (!library) {
        std::string message = dlerror();
        if (folder.empty() && message.starts_with(file + ": cannot open shared object file"))
          continue; // the system does not know it
        *error = message;
        return "";
      }
      for (const LibraryFunction &f : l.functions) {
        *f.address = dlsym(library, f.name);
        if (!*f.address) {
          *error = path + " has no function " + f.name;
          return "";
        }
      }
      return path;
    }
  return "";
}

// "13.1.0"
static std::string versionText(size_t v) {
  return std::to_string(v / 10000) + "." + std::to_string(v / 100 % 100) + "." +
         std::to_string(v % 100);
}

static bool mayUse(const char *title) {
  const char *given = std::getenv("DS_CUDA_LIBRARIES");
  if (!given)
    return true;
  for (const std::string &name : split(given, ','))
    if (name == title)
      return true;
  return false;
}

void LibraryState::setVersion(const LibraryName &n, size_t v) {
  version = v;
  if (v >= n.oldest)
    return;
  std::string others;
  for (const char *title : {"cublasLt", "cudnn", "nccl"})
    if (std::string_view(title) != n.title)
      others += (others.empty() ? "" : ",") + std::string(title);
  error = std::string(n.name) + " is " + versionText(v) + ", this plugin needs " +
          versionText(n.oldest) + " or newer; DS_CUDA_LIBRARIES=" + others + " runs without it";
}

const char *findLibrary(const LibraryName &n, const LibraryState &(*opened)(), bool *use) {
  *use = false;
  if (!mayUse(n.title))
    return nullptr;
  const LibraryState &s = opened();
  if (!s.error.empty())
    return s.error.c_str();
  *use = s.isThere;
  return nullptr;
}

std::string describeLibrary(const LibraryName &n, const LibraryState &(*opened)()) {
  if (!mayUse(n.title))
    return std::string(n.name) + " is not used";
  const LibraryState &s = opened();
  return std::string(n.name) +
         (s.isThere ? " " + versionText(s.version) : std::string(" is missing") + n.instead);
}

} // namespace ds::cuda
