// SPDX-License-Identifier: Apache-2.0
#include "runtime/Identity.h"

#include "runtime/File.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace ds {

static constexpr int64_t kBlock = 4096, kBlocks = 64;

uint64_t hashBytes(const void *bytes, size_t n, uint64_t h) {
  for (size_t i = 0; i < n; ++i)
    h = (h ^ static_cast<const unsigned char *>(bytes)[i]) * 0x100000001b3u;
  return h;
}

static StatusOr<uint64_t> hashFile(const std::string &path) {
  TRY_ASSIGN(File f, File::openRead(path));
  int64_t size = f.size();
  uint64_t h = hashBytes(&size, sizeof size);
  unsigned char block[kBlock];
  for (int64_t k = 0; k < kBlocks; ++k) {
    int64_t bytes = std::min(size, kBlock);
    int64_t at = (size - bytes) * k / (kBlocks - 1);
    TRY(f.read(block, bytes, at));
    h = hashBytes(block, static_cast<size_t>(bytes), h);
  }
  return h;
}

StatusOr<RunIdentity> identityOf(const Schedule &s, const std::string &options) {
  RunIdentity id;
  auto add = [&](const std::string &what, const std::string &text) {
    id.parts.push_back({what, hashBytes(text.data(), text.size())});
  };
  add("schedule", printSchedule(s));
  std::set<std::string> files;
  auto look = [&](const Source &source) {
    if (source.kind == Source::Kind::File)
      files.insert(source.path);
  };
  for (const BucketInfo &b : s.buckets)
    for (const SegmentInfo &g : b.segments)
      look(g.source);
  for (const InitInfo &i : s.inits)
    look(i.source);
  for (const std::string &file : files) {
    TRY_ASSIGN(std::string path, pathInside(s.directory, file));
    TRY_ASSIGN(uint64_t hash, hashFile(path));
    id.parts.push_back({"weights in " + file, hash});
  }
  add("run options", options);
  return id;
}

Status compareIdentity(const RunIdentity &first, const RunIdentity &own) {
  size_t n = std::max(first.parts.size(), own.parts.size());
  for (size_t i = 0; i < n; ++i) {
    bool both = i < first.parts.size() && i < own.parts.size();
    if (both && first.parts[i].what == own.parts[i].what &&
        first.parts[i].hash == own.parts[i].hash)
      continue;
    std::string what = i < own.parts.size() ? own.parts[i].what : first.parts[i].what;
    return Status::error(
        fmt::format("its {} differs from rank 0's; start all ranks with the same plan, "
                    "model and options",
                    what));
  }
  return {};
}

} // namespace ds
