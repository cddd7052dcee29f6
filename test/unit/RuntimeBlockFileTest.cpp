// SPDX-License-Identifier: Apache-2.0
//
// The file behind the nvme arena, with io_uring and without, with direct I/O and without: what is written is what is
// read and what lies on disk, and whatever happens to the file is an error that says what to do.
#include "runtime/BlockFile.h"

#include "test/unit/RuntimeTestFiles.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <random>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace ds;
using namespace ds::test;
using ::testing::HasSubstr;

namespace {

constexpr int64_t kPage = kBlockAlign;

struct Memory {
  explicit Memory(int64_t bytes)
      : data(static_cast<std::byte *>(
            std::aligned_alloc(kPage, static_cast<size_t>((bytes + kPage) / kPage * kPage)))) {}
  ~Memory() { std::free(data); }
  Memory(const Memory &) = delete;
  void fill(uint64_t seed, int64_t bytes) const {
    std::mt19937_64 random(seed);
    for (int64_t i = 0; i < bytes; ++i)
      data[i] = static_cast<std::byte>(random());
  }
  std::byte *const data;
};

std::unique_ptr<BlockFile> make(const std::string &folder, int64_t bytes, BlockFileOptions o = {}) {
  auto f = BlockFile::create(folder, 0, bytes, o);
  EXPECT_TRUE(f.ok()) << f.status().str();
  return f.ok() ? std::move(f).take() : nullptr;
}

std::string errorOf(const Status &s) { return s.ok() ? "no error" : s.str(); }
std::string createError(const std::string &folder, int64_t bytes) {
  auto f = BlockFile::create(folder, 0, bytes, {});
  return f.ok() ? "no error" : f.status().str();
}

class BlockFileTest : public ::testing::TestWithParam<std::tuple<bool, bool, bool>> {
protected:
  BlockFileOptions options(int64_t blockBytes = 65000, int depth = 4) const {
    auto [uring, direct, checksums] = GetParam();
    return {blockBytes, depth, checksums, direct, uring};
  }
  TempDir dir;
  Abort abort;
};

TEST_P(BlockFileTest, KeepsWhatIsWritten) {
  constexpr int64_t kSize = 2 << 20;
  auto f = make(dir.path, kSize, options());
  ASSERT_TRUE(f);
  Memory mirror(kSize), out(kSize), in(kSize);
  std::memset(mirror.data, 0, kSize);
  std::mt19937 random(7);
  for (int i = 0; i < 24; ++i) {
    int64_t offset = static_cast<int64_t>(random() % (kSize / kPage)) * kPage;
    int64_t bytes = static_cast<int64_t>(random()) % (kSize - offset) + 1;
    if (i % 2) {
      out.fill(static_cast<uint64_t>(i), bytes);
      Status s = f->write(offset, out.data, bytes, abort);
      ASSERT_TRUE(s.ok()) << s.str();
      std::memset(mirror.data + offset, 0,
                  static_cast<size_t>((bytes + kPage - 1) / kPage * kPage));
      std::memcpy(mirror.data + offset, out.data, static_cast<size_t>(bytes));
    } else {
      std::memset(in.data, 0xee, kSize);
      Status s = f->read(offset, in.data, bytes, abort);
      ASSERT_TRUE(s.ok()) << s.str();
      ASSERT_EQ(std::memcmp(in.data, mirror.data + offset, static_cast<size_t>(bytes)), 0);
      ASSERT_EQ(in.data[bytes], std::byte(0xee)) << "nothing behind the range is touched";
    }
  }
  std::string disk = readAll(f->path());
  ASSERT_EQ(disk.size(), static_cast<size_t>(kSize));
  EXPECT_EQ(std::memcmp(disk.data(), mirror.data, kSize), 0);
}

TEST_P(BlockFileTest, ReadsWhileItWrites) {
  constexpr int64_t kHalf = 1 << 20;
  auto f = make(dir.path, 2 * kHalf, options(1 << 15, 3));
  ASSERT_TRUE(f);
  Memory out(kHalf), in(kHalf);
  out.fill(1, kHalf);
  ASSERT_TRUE(f->write(0, out.data, kHalf, abort).ok());
  // Each round writes the half that the round before read.
  for (int round = 0; round < 8; ++round) {
    int64_t readAt = round % 2 * kHalf, writeAt = kHalf - readAt;
    Memory next(kHalf);
    next.fill(static_cast<uint64_t>(round) + 2, kHalf);
    Status r, w;
    std::thread reader([&] { r = f->read(readAt, in.data, kHalf, abort); });
    std::thread writer([&] { w = f->write(writeAt, next.data, kHalf, abort); });
    reader.join();
    writer.join();
    ASSERT_TRUE(r.ok() && w.ok()) << errorOf(r) << errorOf(w);
    ASSERT_EQ(std::memcmp(in.data, out.data, kHalf), 0);
    std::memcpy(out.data, next.data, kHalf);
  }
}

TEST_P(BlockFileTest, ACutFileIsAnError) {
  auto f = make(dir.path, 1 << 20, options());
  ASSERT_TRUE(f);
  Memory m(1 << 20);
  m.fill(1, 1 << 20);
  ASSERT_TRUE(f->write(0, m.data, 1 << 20, abort).ok());
  std::filesystem::resize_file(f->path(), (1 << 19) + 100);
  std::string why = errorOf(f->read(0, m.data, 1 << 20, abort));
  EXPECT_THAT(why, HasSubstr(f->path() + ": error: cannot read 1048576 bytes at 0: the file ends "
                                         "after 524388 of its 1048576 bytes; something else has "
                                         "cut it"));
  EXPECT_THAT(why, HasSubstr("go on from a checkpoint"));
  // A write would make the file whole again, with zeros.
  EXPECT_THAT(errorOf(f->write(1 << 19, m.data, 1 << 19, abort)), HasSubstr("has cut it"));
}

// A limit in the middle of a piece makes the system write a part of it; the rest then fails.
TEST_P(BlockFileTest, WritesThatFailNameThePlace) {
  auto f = make(dir.path, 1 << 20, options());
  ASSERT_TRUE(f);
  Memory m(1 << 20), in(1 << 20);
  m.fill(1, 1 << 20);
  constexpr int64_t kLimit = (1 << 18) + 3 * kPage;
  rlimit old;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  auto *handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit low = {static_cast<rlim_t>(kLimit), old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  std::string why = errorOf(f->write(0, m.data, 1 << 20, abort));
  std::string refused = createError(dir / "other", 1 << 20);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(why, ::testing::ContainsRegex("cannot write 1048576 bytes at 0, failed at [0-9]+: "
                                            "File too large"));
  EXPECT_THAT(why, HasSubstr("raise the limit of file sizes (ulimit -f)"));
  EXPECT_THAT(refused,
              HasSubstr("rank0.nvme: error: cannot reserve 1048576 bytes: File too large"));
  EXPECT_EQ(errorOf(f->read(1 << 18, in.data, kLimit - (1 << 18), abort)), "no error");
  EXPECT_EQ(std::memcmp(in.data, m.data + (1 << 18), static_cast<size_t>(kLimit - (1 << 18))), 0)
      << "the part below the limit was written";
}

TEST_P(BlockFileTest, AnAbortEndsTransfers) {
  auto f = make(dir.path, 1 << 20, options());
  ASSERT_TRUE(f);
  Memory m(1 << 20);
  m.fill(1, 1 << 20);
  abort.raise(Status::error("another rank"));
  EXPECT_TRUE(isStoppedByOther(f->write(0, m.data, 1 << 20, abort)));
  EXPECT_TRUE(isStoppedByOther(f->read(0, m.data, 1 << 20, abort)));
}

std::string caseName(const ::testing::TestParamInfo<std::tuple<bool, bool, bool>> &i) {
  auto [uring, direct, checksums] = i.param;
  return std::string(uring ? "Uring" : "Plain") + (direct ? "Direct" : "Cached") +
         (checksums ? "Sums" : "");
}
INSTANTIATE_TEST_SUITE_P(Runtime, BlockFileTest,
                         ::testing::Values(std::tuple{true, true, false},
                                           std::tuple{true, false, true},
                                           std::tuple{false, true, true},
                                           std::tuple{false, false, false}),
                         caseName);

TEST(RuntimeBlockFile, ChecksumsFindAFlippedByte) {
  TempDir dir;
  Abort abort;
  Memory m(1 << 18);
  m.fill(1, 1 << 18);
  for (bool checksums : {false, true}) {
    BlockFileOptions o;
    o.checksums = checksums;
    auto f = make(dir.path, 1 << 18, o);
    ASSERT_TRUE(f);
    ASSERT_TRUE(f->write(0, m.data, 1 << 18, abort).ok());
    int fd = open(f->path().c_str(), O_WRONLY);
    auto flipped = m.data[70000] ^ std::byte(4);
    ASSERT_EQ(pwrite(fd, &flipped, 1, 70000), 1);
    close(fd);
    Memory in(1 << 18);
    EXPECT_EQ(errorOf(f->read(0, in.data, 17 * kPage, abort)), "no error") << "before the byte";
    std::string why = errorOf(f->read(0, in.data, 1 << 18, abort));
    if (checksums)
      EXPECT_THAT(why, HasSubstr(f->path() + ": error: bytes 69632 to 73728 are not what was "
                                             "written there: their checksum differs"));
    else
      EXPECT_EQ(in.data[70000], flipped) << "nothing else notices";
  }
}

TEST(RuntimeBlockFile, IsInUseByOneRunAndRemoved) {
  TempDir dir;
  Abort abort;
  std::string path = dir / "nvme/rank0.nvme";
  {
    auto f = make(dir / "nvme", 10000);
    ASSERT_TRUE(f);
    EXPECT_EQ(f->path(), path);
    EXPECT_EQ(f->size(), 3 * kPage);
    EXPECT_THAT(createError(dir / "nvme", 10000),
                HasSubstr(path + ": error: is in use by another run; give this run another "
                                 "nvme_path"));
    EXPECT_TRUE(std::filesystem::exists(path)) << "a refused run removes nothing";
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  // What a killed run leaves is taken over, emptied.
  dir.write("nvme/rank0.nvme", std::string(50000, 'x'));
  auto f = make(dir / "nvme", 10000);
  ASSERT_TRUE(f);
  Memory m(10000);
  ASSERT_TRUE(f->read(0, m.data, 10000, abort).ok());
  EXPECT_TRUE(std::all_of(m.data, m.data + 10000, [](std::byte b) { return b == std::byte(0); }));
}

TEST(RuntimeBlockFile, RefusesWhatCannotBe) {
  TempDir dir;
  EXPECT_THAT(createError(dir.path, int64_t(1) << 50),
              HasSubstr("cannot reserve 1125899906842624 bytes, "));
  EXPECT_THAT(createError(dir.path, int64_t(1) << 50), HasSubstr("No space left on device"));
  EXPECT_THAT(createError(dir.path, int64_t(1) << 50),
              HasSubstr("free space there, give another nvme_path, or keep more in host memory"));
  dir.write("file", std::string("x"));
  EXPECT_THAT(createError(dir / "file", 4096),
              HasSubstr("cannot make this folder: Not a directory"));
  std::filesystem::create_directories(dir / "taken/rank0.nvme");
  EXPECT_THAT(createError(dir / "taken", 4096), HasSubstr("cannot create: Is a directory"));
  std::filesystem::create_directories(dir / "link");
  std::filesystem::create_symlink(dir / "file", dir / "link/rank0.nvme");
  EXPECT_THAT(createError(dir / "link", 4096), HasSubstr("Too many levels of symbolic links"));
  EXPECT_EQ(readAll(dir / "file"), "x");
}

TEST(RuntimeBlockFile, RefusesMisuse) {
  TempDir dir;
  Abort abort;
  auto f = make(dir.path, 4 * kPage);
  ASSERT_TRUE(f);
  Memory m(4 * kPage);
  EXPECT_THAT(errorOf(f->read(512, m.data, kPage, abort)), HasSubstr("both must be aligned"));
  EXPECT_THAT(errorOf(f->write(0, m.data + 64, kPage, abort)), HasSubstr("64 behind a multiple"));
  EXPECT_THAT(errorOf(f->read(kPage, m.data, 4 * kPage, abort)), HasSubstr("the file has 16384"));
  EXPECT_EQ(createError(dir.path, 0).find("no error"), std::string::npos);
}

// Runs `f` in a process of its own, which may give up rights; what it returns comes back, nothing if it cannot run.
template <typename F> std::string inChild(F f) {
  int ends[2];
  if (pipe(ends) != 0)
    return "";
  pid_t child = fork();
  if (child == 0) {
    std::string text = f();
    ssize_t n = write(ends[1], text.data(), text.size());
    _exit(n < 0);
  }
  close(ends[1]);
  std::string text;
  char buffer[512];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

TEST(RuntimeBlockFile, NeedsPermission) {
  TempDir dir;
  std::filesystem::permissions(dir.path, std::filesystem::perms(0555));
  std::string why = inChild([&]() -> std::string {
    if (geteuid() == 0 && seteuid(65534) != 0) // root may write anywhere
      return "";
    return createError(dir.path, 4096);
  });
  std::filesystem::permissions(dir.path, std::filesystem::perms(0755));
  if (why.empty())
    GTEST_SKIP() << "cannot become another user here";
  EXPECT_THAT(why, HasSubstr(dir / "rank0.nvme" + ": error: cannot create: Permission denied"));
  EXPECT_THAT(why, HasSubstr("make the folder writable for this user"));
}

// A small disk of our own: the reserved file loses its blocks, somebody else takes them, and a write finds none.
TEST(RuntimeBlockFile, ADiskThatFillsIsAnError) {
  TempDir dir;
  std::string why = inChild([&]() -> std::string {
    if ((geteuid() != 0 && unshare(CLONE_NEWUSER) != 0) || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", dir.path.c_str(), "tmpfs", 0, "size=1m") != 0)
      return "";
    std::string big = createError(dir.path, 2 << 20);
    auto f = make(dir.path, 1 << 19);
    int other = open((dir / "other").c_str(), O_RDWR | O_CREAT, 0600);
    int hole = open(f->path().c_str(), O_RDWR);
    Memory m(1 << 20);
    m.fill(1, 1 << 20);
    if (fallocate(hole, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 18) != 0 ||
        pwrite(other, m.data, 1 << 20, 0) < 1 << 18)
      return "cannot take the blocks";
    Abort abort;
    return big + errorOf(f->write(0, m.data, 1 << 18, abort));
  });
  if (why.empty())
    GTEST_SKIP() << "cannot mount a small file system here";
  EXPECT_THAT(why, HasSubstr("cannot reserve 2097152 bytes, 1048576 are free: No space left"));
  EXPECT_THAT(why, HasSubstr("cannot write 262144 bytes at 0, failed at 0: No space left on "
                             "device"));
}

// As containers do that forbid io_uring.
bool forbidIoUring() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {4, code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST(RuntimeBlockFile, GoesOnWithoutIoUring) {
  TempDir dir;
  std::string text = inChild([&]() -> std::string {
    if (!forbidIoUring())
      return "";
    auto f = make(dir.path, 1 << 18);
    Memory out(1 << 18), in(1 << 18);
    out.fill(1, 1 << 18);
    Abort abort;
    std::string all = errorOf(f->write(0, out.data, 1 << 18, abort)) + ", ";
    all += errorOf(f->read(0, in.data, 1 << 18, abort)) + ", ";
    all += std::memcmp(in.data, out.data, 1 << 18) == 0 ? "same" : "different";
    for (const std::string &note : f->notes())
      all += "; " + note;
    return all;
  });
  if (text.empty())
    GTEST_SKIP() << "cannot forbid io_uring here";
  EXPECT_THAT(text, HasSubstr("no error, no error, same; "));
#ifdef DS_HAVE_URING
  EXPECT_THAT(text, HasSubstr("io_uring cannot be used (Operation not permitted): NVMe transfers "
                              "go one piece after the other"));
#else
  EXPECT_THAT(text, HasSubstr("built without liburing"));
#endif
}

} // namespace
