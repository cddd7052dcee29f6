// SPDX-License-Identifier: Apache-2.0
#include "runtime/File.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace ds {

namespace fs = std::filesystem;

static Status failed(const std::string &path, std::string_view what) {
  return Status::error(fmt::format("cannot {}: {}", what, std::strerror(errno))).at(path);
}

File::File(File &&other) noexcept { *this = std::move(other); }

File &File::operator=(File &&other) noexcept {
  std::swap(name, other.name);
  std::swap(fd, other.fd);
  std::swap(length, other.length);
  return *this;
}

File::~File() {
  if (fd >= 0)
    ::close(fd);
}

StatusOr<File> File::open(const std::string &path, int flags) {
  File f;
  f.name = path;
  f.fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  struct stat st;
  if (f.fd < 0 || fstat(f.fd, &st) != 0)
    return failed(path, (flags & O_CREAT) ? "create" : "open");
  if (!S_ISREG(st.st_mode))
    return Status::error("not a regular file").at(path);
  f.length = st.st_size;
  return f;
}

StatusOr<File> File::openRead(const std::string &path) { return open(path, O_RDONLY | O_NONBLOCK); }
StatusOr<File> File::create(const std::string &path) {
  return open(path, O_RDWR | O_CREAT | O_TRUNC);
}
StatusOr<File> File::openWrite(const std::string &path) { return open(path, O_RDWR); }

Status File::read(void *to, int64_t bytes, int64_t offset) const {
  int64_t done = 0;
  while (done < bytes) {
    ssize_t n =
        pread(fd, static_cast<char *>(to) + done, static_cast<size_t>(bytes - done), offset + done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return failed(name, "read");
    if (n == 0)
      return Status::error(fmt::format("{} bytes at {} are wanted, the file ends after {}", bytes,
                                       offset, offset + done))
          .at(name);
    done += n;
  }
  return {};
}

Status File::write(const void *from, int64_t bytes, int64_t offset) const {
  int64_t done = 0;
  while (done < bytes) {
    ssize_t n = pwrite(fd, static_cast<const char *>(from) + done,
                       static_cast<size_t>(bytes - done), offset + done);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return failed(name, "write");
    done += n;
  }
  return {};
}

Status File::resize(int64_t bytes) const {
  if (ftruncate(fd, bytes) != 0)
    return failed(name, "resize");
  if (bytes == 0)
    return {};
  // Reserving finds a full disk before hours of writing do; not every file system can.
  int e = posix_fallocate(fd, 0, bytes);
  if (e != 0 && e != EOPNOTSUPP && e != EINVAL) {
    errno = e;
    return failed(name, fmt::format("reserve {} bytes", bytes));
  }
  return {};
}

Status File::sync() const { return fsync(fd) == 0 ? Status() : failed(name, "sync"); }

Status File::close() {
  int old = std::exchange(fd, -1);
  return old < 0 || ::close(old) == 0 ? Status() : failed(name, "close");
}

static void syncFolderOf(const std::string &path) {
  fs::path parent = fs::path(path).parent_path();
  int dir = ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir >= 0) {
    fsync(dir); // some file systems refuse; the rename itself has happened
    ::close(dir);
  }
}

Status renameFile(const std::string &from, const std::string &to) {
  if (rename(from.c_str(), to.c_str()) != 0)
    return failed(to, fmt::format("rename {} to it", from));
  syncFolderOf(to);
  return {};
}

Status renameFolder(const std::string &from, const std::string &to) {
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) != 0) {
    std::error_code ignored; // nothing there to exchange, or the file system cannot
    fs::remove_all(to, ignored);
    return renameFile(from, to);
  }
  syncFolderOf(to);
  return {};
}

StatusOr<FolderLock> FolderLock::take(const std::string &folder) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (!e && access(folder.c_str(), W_OK | X_OK) != 0)
    e = std::error_code(errno, std::generic_category());
  if (e)
    return Status::error(fmt::format("this folder cannot be written: {}", e.message())).at(folder);
  FolderLock lock;
  lock.fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some network file systems cannot lock; then there is no protection.
  if (lock.fd >= 0 && flock(lock.fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Status::error("another run writes its checkpoints into this folder").at(folder);
  return lock;
}

FolderLock::FolderLock(FolderLock &&other) noexcept : fd(std::exchange(other.fd, -1)) {}
FolderLock::~FolderLock() {
  if (fd >= 0)
    ::close(fd);
}

void removeFile(const std::string &path) { unlink(path.c_str()); }

StatusOr<std::string> pathInside(const std::string &directory, const std::string &path) {
  fs::path relative(path);
  auto refuse = [&](const char *why) {
    return Status::error(fmt::format("data file '{}' {}; it must lie in the model's directory {}",
                                     path, why, directory.empty() ? "." : directory));
  };
  if (path.empty() || path.find('\0') != std::string::npos)
    return refuse("has no usable name");
  if (relative.is_absolute())
    return refuse("is an absolute path");
  for (const fs::path &part : relative)
    if (part == "..")
      return refuse("leads outside through '..'");
  fs::path base = directory.empty() ? fs::path(".") : fs::path(directory);
  std::error_code e;
  fs::path realBase = fs::canonical(base, e);
  if (e)
    return Status::error(fmt::format("cannot open directory: {}", e.message())).at(base.string());
  fs::path real = fs::canonical(base / relative, e);
  if (e)
    return Status::error(fmt::format("cannot open: {}", e.message()))
        .at((base / relative).string());
  auto mismatch = std::mismatch(realBase.begin(), realBase.end(), real.begin(), real.end());
  if (mismatch.first != realBase.end())
    return refuse("leads outside through a symbolic link");
  return real.string();
}

} // namespace ds
