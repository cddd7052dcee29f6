// SPDX-License-Identifier: Apache-2.0
//
// Shared by the fuzz targets. Each is one file NameFuzz.cpp with the entry point of libFuzzer, reads its input
// the way the tools would, and calls require() for what must hold whatever the input is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

namespace ds::fuzz {

inline std::string_view textOf(const uint8_t *data, size_t size) {
  return {reinterpret_cast<const char *>(data), size};
}

/// Stops the run with the texts, so that libFuzzer keeps the input as a finding.
inline void require(bool holds, const char *what, std::string_view a = {},
                    std::string_view b = {}) {
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %s\n---- one\n%.*s\n---- other\n%.*s\n", what,
               static_cast<int>(a.size()), a.data(), static_cast<int>(b.size()), b.data());
  std::abort();
}

/// A file in a folder of its own, for readers that take a path; the folder goes when the process does.
class InputFile {
public:
  explicit InputFile(const std::string &name) {
    std::string pattern = (std::filesystem::temp_directory_path() / "ds-fuzz-XXXXXX").string();
    folder = mkdtemp(pattern.data()) ? pattern : ".";
    file = folder + "/" + name;
  }
  ~InputFile() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  InputFile(const InputFile &) = delete;

  const std::string &directory() const { return folder; }
  const std::string &path() const { return file; }
  void fill(std::string_view bytes) const {
    std::ofstream(file, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

private:
  std::string folder, file;
};

} // namespace ds::fuzz
