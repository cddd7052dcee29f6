// SPDX-License-Identifier: Apache-2.0
//
// Files by byte range, with errors that name the file. Paths of a model's data are relative to the model's
// directory and may not leave it, neither by "..", nor absolutely, nor through a symbolic link.
#pragma once

#include "ir/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace ds {

class File {
public:
  File() = default;
  File(File &&other) noexcept;
  File &operator=(File &&other) noexcept;
  ~File();

  static StatusOr<File> openRead(const std::string &path);
  /// Makes or empties the file.
  static StatusOr<File> create(const std::string &path);
  /// An existing file, for writing into it.
  static StatusOr<File> openWrite(const std::string &path);

  const std::string &path() const { return name; }
  int64_t size() const { return length; } // when it was opened
  /// Exactly [offset, offset + bytes); a short file is an error with both numbers.
  Status read(void *to, int64_t bytes, int64_t offset) const;
  Status write(const void *from, int64_t bytes, int64_t offset) const;
  Status resize(int64_t bytes) const; // with disk space reserved where the file system can
  Status sync() const;
  Status close();

private:
  static StatusOr<File> open(const std::string &path, int flags);
  std::string name;
  int fd = -1;
  int64_t length = 0;
};

/// Renames and syncs the directory, so that the new name survives a crash.
Status renameFile(const std::string &from, const std::string &to);
/// The same for a folder. One that has the name already is exchanged in one step, and is called `from` then, where the
/// file system can; else it is removed.
Status renameFolder(const std::string &from, const std::string &to);
void removeFile(const std::string &path);

/// Held by the one run that writes into a folder, until it ends in whatever way. Leaves nothing in the folder.
class FolderLock {
public:
  /// Makes the folder if there is none. Errors: it cannot be written, another run has it.
  static StatusOr<FolderLock> take(const std::string &folder);
  FolderLock(FolderLock &&other) noexcept;
  FolderLock &operator=(FolderLock &&other) = delete;
  ~FolderLock();

private:
  FolderLock() = default;
  int fd = -1;
};

/// directory/path, or why it is refused.
StatusOr<std::string> pathInside(const std::string &directory, const std::string &path);

} // namespace ds
