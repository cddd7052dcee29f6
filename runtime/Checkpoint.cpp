// SPDX-License-Identifier: Apache-2.0
#include "runtime/Checkpoint.h"

#include "runtime/CheckpointState.h"
#include "runtime/Convert.h"
#include "runtime/PieceFile.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <set>

namespace fs = std::filesystem;

namespace ds {

static constexpr const char *kManifest = "manifest.json", *kLatest = "latest", *kPrefix = "update-";

static std::string rankFile(int64_t rank) { return fmt::format("rank-{:05d}.safetensors", rank); }

static std::string ownerOf(int64_t update) { return fmt::format("update {}", update); }

StatusOr<PieceFile> openPieces(const std::string &folder, const std::string &file,
                               const Manifest &m) {
  TRY_ASSIGN(PieceFile f, PieceFile::open(folder + "/" + file));
  if (f.owner() != ownerOf(m.update))
    return Status::error(fmt::format("belongs to another checkpoint: it says \"{}\", the manifest "
                                     "\"{}\"",
                                     f.owner(), ownerOf(m.update)))
        .at(folder + "/" + file);
  return f;
}

static std::string folderName(int64_t update) { return fmt::format("{}{:08d}", kPrefix, update); }

// ---- writing ---------------------------------------------------------------------------------------

namespace {

/// Frozen parameters come from the model, but not those that the run itself got from a checkpoint: they were trained
/// before.
class Saved {
public:
  explicit Saved(const Manifest &run) {
    for (const CheckpointTensor &t : run.tensors)
      if (t.slot == "weight")
        before.insert(t.param);
  }
  bool operator()(const BucketInfo &b, const SegmentInfo &g) const {
    return b.trainable || b.running || before.count(paramName(g)) > 0;
  }

private:
  std::set<std::string> before;
};

} // namespace

static std::vector<CheckpointTensor> tensorsOf(const Schedule &s, const Saved &isSaved) {
  std::vector<CheckpointTensor> out;
  for (const StateSlot &slot : stateSlots(s)) {
    const BucketInfo &b = s.buckets[slot.bucket];
    for (const SegmentInfo &g : b.segments) {
      if (!isSaved(b, g))
        continue;
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

static Status writeRank(const Schedule &s, const LoadedRank &rank, const Manifest &run,
                        const std::string &folder) {
  std::vector<PieceData> pieces;
  Saved isSaved(run);
  for (const StateSlot &slot : stateSlots(s)) {
    const BucketInfo &b = s.buckets[slot.bucket];
    DType t = s.persistent[static_cast<size_t>(slot.buffer)].type.dtype;
    for (const SegmentInfo &g : b.segments) {
      ElemRange e = ownedElems(s, b, g, rank.rank);
      if (e.begin >= e.end || !isSaved(b, g))
        continue;
      int64_t at = (g.at + e.begin - firstElem(s, slot, rank.rank)) * byteSize(t);
      int64_t bytes = (e.end - e.begin) * byteSize(t);
      pieces.push_back({slot.name + "/" + paramName(g), t, e.begin, e.end - e.begin,
                        [&rank, at, bytes, b = slot.buffer](const PieceData::Take &take) {
                          return rank.read(b, at, bytes,
                                           [&](int64_t, const std::byte *part, int64_t n) {
                                             return take(part, n);
                                           });
                        }});
    }
  }
  return writePieces(folder + "/" + rankFile(rank.rank), ownerOf(run.update), pieces);
}

static Status writeText(const std::string &path, const std::string &text) {
  std::string temporary = path + ".tmp";
  TRY_ASSIGN(File f, File::create(temporary));
  TRY(f.write(text.data(), static_cast<int64_t>(text.size()), 0));
  TRY(f.sync());
  TRY(f.close());
  return renameFile(temporary, path);
}

// The manifest with a checksum of itself as its last key: scalars and ranges have no other.
static std::string sealed(const std::string &manifest) {
  return fmt::format("{},\n  \"checksum\": \"{:016x}\"\n}}\n",
                     manifest.substr(0, manifest.rfind("\n}")),
                     checksum(manifest.data(), manifest.size()));
}

static bool isSealed(const std::string &text) {
  size_t last = text.rfind(",\n  \"checksum\"");
  return last != std::string::npos && sealed(text.substr(0, last) + "\n}\n") == text;
}

// Takes away what killed saves left, of any update: another run may save at other ones.
static void removeTemporaries(const std::string &dir) {
  std::error_code e;
  std::vector<fs::path> found;
  for (fs::directory_iterator it(dir, e), end; !e && it != end; it.increment(e))
    if (std::string name = it->path().filename().string();
        name.starts_with(std::string(".") + kPrefix) && name.ends_with(".tmp"))
      found.push_back(it->path());
  for (const fs::path &path : found)
    fs::remove_all(path, e);
}

static Status makeFolder(const std::string &path) {
  std::error_code e;
  fs::create_directories(path, e);
  if (e)
    return Status::error(fmt::format("cannot make this folder: {}", e.message())).at(path);
  return {};
}

Status writeCheckpoint(const Schedule &s, const LoadedRank &rank, Comm &comm, const Manifest &run,
                       const std::string &dir) {
  std::string name = folderName(run.update), temporary = dir + "/." + name + ".tmp";
  Status status;
  if (rank.rank == 0) {
    removeTemporaries(dir);
    status = makeFolder(temporary);
  }
  bool all = comm.meet(status.ok());
  if (all) {
    status = writeRank(s, rank, run, temporary);
    all = comm.meet(status.ok());
  }
  if (rank.rank == 0 && all) {
    Manifest m = run;
    m.tensors = tensorsOf(s, Saved(run));
    for (int b : stateScalars(s)) {
      const Buffer &buffer = s.persistent[static_cast<size_t>(b)];
      CheckpointScalar &c = m.scalars.emplace_back();
      c.name = buffer.name;
      c.type = buffer.type;
      status.merge(rank.read(b, 0, buffer.type.bytes(),
                             [&](int64_t, const std::byte *p, int64_t n) -> Status {
                               auto *bytes = reinterpret_cast<const uint8_t *>(p);
                               c.bytes.insert(c.bytes.end(), bytes, bytes + n);
                               return {};
                             }));
    }
    if (status.ok())
      status = writeText(temporary + "/" + kManifest, sealed(printManifest(m)));
    // The same update again: the new one takes its place, and the old one goes away.
    if (status.ok())
      status = renameFolder(temporary, dir + "/" + name);
    if (status.ok())
      status = writeText(dir + "/" + kLatest, name + "\n");
  }
  std::error_code ignored;
  if (rank.rank == 0)
    fs::remove_all(temporary, ignored);
  if (!comm.meet(status.ok()) && status.ok())
    status = stoppedByOther();
  return status;
}

// ---- finding ---------------------------------------------------------------------------------------

// The one that `latest` names, if it is complete. After going back to an older checkpoint it is not the one with the
// largest number, which then is of a run that was given up.
static std::string latestOf(const std::string &dir) {
  std::string text(std::strlen(kPrefix) + 20, '\0');
  std::error_code e;
  StatusOr<File> f = File::openRead(dir + "/" + kLatest);
  if (!f.ok() || f->size() > static_cast<int64_t>(text.size()))
    return "";
  text.resize(static_cast<size_t>(f->size()));
  if (!f->read(text.data(), f->size(), 0).ok() || !text.starts_with(kPrefix))
    return "";
  std::string folder = dir + "/" + text.substr(0, text.find('\n'));
  return text.find('/') == std::string::npos && fs::exists(folder + "/" + kManifest, e) ? folder
                                                                                        : "";
}

StatusOr<std::string> newestCheckpoint(const std::string &dir) {
  if (std::string latest = latestOf(dir); !latest.empty())
    return latest;
  std::error_code e;
  int64_t newest = -1;
  std::string found;
  for (fs::directory_iterator it(dir, e), end; !e && it != end; it.increment(e)) {
    std::string name = it->path().filename().string();
    int64_t update = 0;
    std::error_code ignored; // a link that leads nowhere is no checkpoint
    if (!name.starts_with(kPrefix))
      continue;
    const char *digits = name.c_str() + std::strlen(kPrefix);
    auto r = std::from_chars(digits, name.c_str() + name.size(), update);
    if (r.ec == std::errc() && *r.ptr == '\0' && update > newest &&
        fs::exists(it->path() / kManifest, ignored)) {
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
  TRY_ASSIGN(Manifest m, parseManifest(text, path));
  if (!isSealed(text))
    return Status::error("is damaged: its checksum differs; resume from another checkpoint")
        .at(path);
  return m;
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
    out += fmt::format(
        "  scalar {} : {}{}\n", s.name, s.type.str(),
        s.type.elems() == 1 ? fmt::format(" = {}", toDouble(s.type.dtype, s.bytes.data(), 0)) : "");
  // Reads everything: a checkpoint that is looked at is one that somebody wants to rely on.
  Status damage;
  for (const auto &[file, pieces] : files) {
    StatusOr<PieceFile> f = openPieces(folder, file, m);
    if (!f.ok()) {
      damage.merge(std::move(f).status());
      continue;
    }
    for (const CheckpointTensor &t : m.tensors)
      for (const CheckpointPiece &p : t.pieces)
        if (DType stored; p.file == file)
          damage.merge(f->read(t.key(), p.begin, p.end, &stored).status());
  }
  TRY(std::move(damage));
  return out + fmt::format("{} files, all checksums right\n", files.size());
}

} // namespace ds
