// SPDX-License-Identifier: Apache-2.0
//
// A folder of its own for a test, removed with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ds::test {

class TempDir {
public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "dsXXXXXX").string();
    if (!mkdtemp(pattern.data()))
      std::abort();
    path = pattern;
  }
  ~TempDir() {
    std::error_code e;
    std::filesystem::remove_all(path, e);
  }
  TempDir(const TempDir &) = delete;

  std::string operator/(const std::string &name) const { return path + "/" + name; }
  template <typename T> std::string write(const std::string &name, const std::vector<T> &v) const {
    std::ofstream(path + "/" + name, std::ios::binary)
        .write(reinterpret_cast<const char *>(v.data()),
               static_cast<std::streamsize>(v.size() * sizeof(T)));
    return path + "/" + name;
  }
  std::string write(const std::string &name, const std::string &text) const {
    return write(name, std::vector<char>(text.begin(), text.end()));
  }

  std::string path;
};

inline std::string readAll(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

} // namespace ds::test
