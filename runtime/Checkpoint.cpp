// SPDX-License-Identifier: Apache-2.0
#include "runtime/Checkpoint.h"

#include "runtime/CheckpointState.h"
#include "runtime/PieceFile.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>

namespace fs = std::filesystem;

namespace ds {

static constexpr const char *kManifest = "manifest.json", *kPrefix = "update-";

static std::string rankFile(int64_t rank) { return fmt::format("rank-{:05d}.safetensors", rank); }

static std::string folderName(int64_t update) { return fmt::format("{}{:08d}", kPrefix, update); }

// ---- writing ---------------------------------------------------------------------------------------

static std::vector<CheckpointTensor> tensorsOf(const Schedule &s) {
  std::vector<CheckpointTensor> out;
  for (const StateSlot &slot : stateSlots(s)) {
    const BucketInfo &b = s.buckets[slot.bucket];
    if (!b.trainable)
      continue;
    for (const SegmentInfo &g : b.segments) {
      CheckpointTensor t;
      t.param = paramName(g);
      t.slot = slot.name;
      t.dtype = s.persistent[static_cast<size_t>(slot.buffer)].type.dtype;
      t.shape = g.shape;
      for (int64_t r = 0; r < s.world(); ++r)
        if (ElemRange e = ownedElems(s, b, g, r); e.begin < e.end)
          t.pieces.push_back({e.begin, e.end, rankFile(r)});
      out.push_back(std::move(t));
    }
  }
  return out;
}

static Status writeRank(const Schedule &s, const LoadedRank &rank, const std::string &folder) {
  std::vector<PieceData> pieces;
  for (const StateSlot &slot : stateSlots(s)) {
    const BucketInfo &b = s.buckets[slot.bucket];
    if (!b.trainable)
      continue;
    DType t = s.persistent[static_cast<size_t>(slot.buffer)].type.dtype;
    for (const SegmentInfo &g : b.segments) {
      ElemRange e = ownedElems(s, b, g, rank.rank);
      if (e.begin >= e.end)
        continue;
      int64_t at = g.at + e.begin - firstElem(s, slot, rank.rank);
      pieces.push_back({slot.name + "/" + paramName(g), t, e.end - e.begin,
                        rank.persistent(slot.buffer) + at * byteSize(t)});
    }
  }
  return writePieces(folder + "/" + rankFile(rank.rank), pieces);
}

static Status writeText(const std::string &path, const std::string &text) {
  std::string temporary = path + ".tmp";
  TRY_ASSIGN(File f, File::create(temporary));
  TRY(f.write(text.data(), static_cast<int64_t>(text.size()), 0));
  TRY(f.sync());
  TRY(f.close());
  return renameFile(temporary, path);
}

static Status makeFolder(const std::string &path) {
  std::error_code e;
  fs::remove_all(path, e); // of a save that was killed
  fs::create_directories(path, e);
  if (e)
    return Status::error(fmt::format("cannot make this folder: {}", e.message())).at(path);
  return {};
}

Status writeCheckpoint(const Schedule &s, const LoadedRank &rank, Comm &comm, const Manifest &run,
                       const std::string &dir) {
  std::string name = folderName(run.update), temporary = dir + "/." + name + ".tmp";
  Status status;
  if (rank.rank == 0)
    status = makeFolder(temporary);
  bool all = comm.meet(status.ok());
  if (all) {
    status = writeRank(s, rank, temporary);
    all = comm.meet(status.ok());
  }
  if (rank.rank == 0 && all) {
    Manifest m = run;
    m.tensors = tensorsOf(s);
    for (int b : stateScalars(s)) {
      const Buffer &buffer = s.persistent[static_cast<size_t>(b)];
      auto *bytes = reinterpret_cast<const uint8_t *>(rank.persistent(b));
      m.scalars.push_back({buffer.name, buffer.type, {bytes, bytes + buffer.type.bytes()}});
    }
    status = writeText(temporary + "/" + kManifest, printManifest(m));
    std::error_code e;
    if (status.ok())
      fs::remove_all(dir + "/" + name, e); // the same update again: the new one takes its place
    if (status.ok())
      status = renameFile(temporary, dir + "/" + name);
    if (status.ok())
      status = writeText(dir + "/latest", name + "\n");
  }
  std::error_code ignored;
  if (rank.rank == 0 && !(all && status.ok()))
    fs::remove_all(temporary, ignored);
  if (!comm.meet(status.ok()) && status.ok())
    status = stoppedByOther();
  return status;
}

// ---- finding ---------------------------------------------------------------------------------------

StatusOr<std::string> newestCheckpoint(const std::string &dir) {
  std::error_code e;
  int64_t newest = -1;
  std::string found;
  for (fs::directory_iterator it(dir, e), end; !e && it != end; it.increment(e)) {
    std::string name = it->path().filename().string();
    int64_t update = 0;
    if (!name.starts_with(kPrefix))
      continue;
    const char *digits = name.c_str() + std::strlen(kPrefix);
    auto r = std::from_chars(digits, name.c_str() + name.size(), update);
    if (r.ec == std::errc() && *r.ptr == '\0' && update > newest &&
        fs::exists(it->path() / kManifest)) {
      newest = update;
      found = it->path().string();
    }
  }
  if (e && e != std::errc::no_such_file_or_directory)
    return Status::error(fmt::format("cannot read this folder: {}", e.message())).at(dir);
  return found;
}

StatusOr<Manifest> readManifest(const std::string &folder) {
  std::string path = folder + "/" + kManifest;
  std::error_code e;
  if (!fs::exists(path, e))
    return Status::error(fmt::format("is no complete checkpoint: it has no {}", kManifest))
        .at(folder);
  TRY_ASSIGN(File f, File::openRead(path));
  if (f.size() > (int64_t{1} << 30))
    return Status::error("a manifest has at most 2^30 bytes").at(path);
  std::string text(static_cast<size_t>(f.size()), '\0');
  TRY(f.read(text.data(), f.size(), 0));
  return parseManifest(text, path);
}

StatusOr<std::string> describeCheckpoint(const std::string &folder) {
  TRY_ASSIGN(Manifest m, readManifest(folder));
  std::string out = fmt::format(
      "{}: {} after update {} ({} samples), {} ranks x {} rows x {} micro-batches, stage {}\n"
      "data {}, seed {}{}\n",
      folder, m.model, m.update, m.update * m.globalBatch(), m.world, m.microBatch, m.gradAccum,
      m.stage, m.data.empty() ? "none" : m.data, m.seed, m.shuffle ? "" : ", not shuffled");
  struct Sum {
    int64_t tensors = 0, elems = 0, bytes = 0;
  };
  std::map<std::string, Sum> slots;
  std::map<std::string, int64_t> files;
  for (const CheckpointTensor &t : m.tensors) {
    Sum &sum = slots[t.slot];
    int64_t n = Type(t.dtype, t.shape).elems();
    ++sum.tensors, sum.elems += n, sum.bytes += n * byteSize(t.dtype);
    for (const CheckpointPiece &p : t.pieces)
      ++files[p.file];
  }
  for (const auto &[slot, sum] : slots)
    out += fmt::format("  {:<12} {:>6} tensors {:>14} elements {:>16} bytes\n", slot, sum.tensors,
                       sum.elems, sum.bytes);
  for (const CheckpointScalar &s : m.scalars)
    out += fmt::format("  scalar {} : {}\n", s.name, s.type.str());
  // Reads everything: a checkpoint that is looked at is one that somebody wants to rely on.
  Status damage;
  for (const auto &[file, pieces] : files) {
    StatusOr<PieceFile> f = PieceFile::open(folder + "/" + file);
    if (!f.ok()) {
      damage.merge(std::move(f).status());
      continue;
    }
    for (const CheckpointTensor &t : m.tensors)
      for (const CheckpointPiece &p : t.pieces)
        if (DType stored; p.file == file)
          damage.merge(f->read(t.key(), p.end - p.begin, &stored).status());
  }
  TRY(std::move(damage));
  return out + fmt::format("{} files, all checksums right\n", files.size());
}

} // namespace ds
