// SPDX-License-Identifier: Apache-2.0
//
// The nvme arena's file against plain pwrite and pread of the same bytes, 1 MiB at a time, what `dd bs=1M oflag=direct`
// does. DS_BENCH_DIR names the folder (default: the system's for temporary files).
//   bench --benchmark_filter='^nvme' --benchmark_repetitions=5
#include "runtime/Arena.h"
#include "runtime/BlockFile.h"

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace ds {
namespace {

constexpr int64_t kBytes = int64_t(256) << 20, kPiece = 1 << 20;

std::string folder() {
  const char *given = std::getenv("DS_BENCH_DIR");
  return given ? given : std::filesystem::temp_directory_path().string() + "/dsplan-bench";
}

void report(benchmark::State &state) {
  state.counters["GB/s"] = benchmark::Counter(static_cast<double>(kBytes) / 1e9,
                                              benchmark::Counter::kIsIterationInvariantRate);
}

void blockFile(benchmark::State &state, bool isWrite, bool uring) {
  BlockFileOptions o;
  o.uring = uring;
  auto file = BlockFile::create(folder(), 0, kBytes, o);
  auto arena = Arena::map(kBytes, 1);
  if (!file.ok() || !arena.ok()) {
    state.SkipWithError(file.ok() ? "no memory" : file.status().str().c_str());
    return;
  }
  Abort abort;
  auto move = [&](bool w) {
    return w ? (*file)->write(0, arena->data(), kBytes, abort)
             : (*file)->read(0, arena->data(), kBytes, abort);
  };
  Status s = move(true); // reserved blocks become written ones
  for (auto _ : state)
    s.merge(move(isWrite));
  if (!s.ok())
    state.SkipWithError(s.str().c_str());
  report(state);
}

void plain(benchmark::State &state, bool isWrite) {
  std::string path = folder() + "/plain";
  int fd = open(path.c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
  auto arena = Arena::map(kBytes, 1);
  if (fd < 0 || !arena.ok() || posix_fallocate(fd, 0, kBytes) != 0) {
    state.SkipWithError("cannot make the file");
    return;
  }
  bool ok = true;
  auto move = [&](bool w) {
    for (int64_t at = 0; at < kBytes; at += kPiece)
      ok &= (w ? pwrite(fd, arena->data() + at, kPiece, at)
               : pread(fd, arena->data() + at, kPiece, at)) == kPiece;
  };
  move(true);
  for (auto _ : state)
    move(isWrite);
  if (!ok)
    state.SkipWithError("a transfer failed");
  report(state);
  close(fd);
  unlink(path.c_str());
}

[[maybe_unused]] const bool registered = [] {
  for (bool w : {true, false}) {
    std::string what = w ? "nvme/write/" : "nvme/read/";
    auto add = [&](const char *how, auto f) {
      benchmark::RegisterBenchmark((what + how).c_str(), f)
          ->Unit(benchmark::kMillisecond)
          ->UseRealTime();
    };
    add("io_uring", [w](benchmark::State &s) { blockFile(s, w, true); });
    add("without", [w](benchmark::State &s) { blockFile(s, w, false); });
    add("plain", [w](benchmark::State &s) { plain(s, w); });
  }
  return true;
}();

} // namespace
} // namespace ds
