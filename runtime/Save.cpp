// SPDX-License-Identifier: Apache-2.0
#include "runtime/Save.h"

#include "runtime/CheckpointState.h"
#include "runtime/Convert.h"
#include "runtime/File.h"
#include "runtime/Safetensors.h"
#include "runtime/Sources.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <set>

namespace ds {

Status checkNames(const Schedule &s) {
  std::set<std::string> names;
  for (const BucketInfo &b : s.buckets)
    for (const SegmentInfo &g : b.segments)
      if (!names.insert(paramName(g)).second)
        return Status::error(fmt::format("two parameters are called {} in files, which could not "
                                         "be read again",
                                         paramName(g)));
  return {};
}

namespace {

struct SavedTensor {
  size_t bucket;
  const SegmentInfo *segment;
  DType dtype;
  int64_t offset; // bytes into the data section
};

struct Layout {
  std::vector<SavedTensor> tensors;
  std::string head;  // length and JSON
  int64_t bytes = 0; // of the whole file
};

StatusOr<Layout> layOut(const Schedule &s) {
  TRY(checkNames(s));
  Layout l;
  std::vector<SafetensorsItem> items;
  int64_t at = 0;
  // By name: how parameters are cut into buckets changes no byte of the file.
  std::map<std::string, std::pair<size_t, const SegmentInfo *>> params;
  for (size_t b = 0; b < s.buckets.size(); ++b)
    for (const SegmentInfo &g : s.buckets[b].segments)
      params.emplace(paramName(g), std::pair(b, &g));
  for (const auto &[name, param] : params) {
    const auto &[b, g] = param;
    bool stored = g->source.kind == Source::Kind::File || g->source.kind == Source::Kind::Hex;
    DType t = stored ? g->source.stored : accumType(s.buckets[b].dtype);
    items.push_back({name, t, g->shape});
    l.tensors.push_back({b, g, t, at});
    at += Type(t, g->shape).bytes();
  }
  l.head = safetensorsHead(items);
  l.bytes = static_cast<int64_t>(l.head.size()) + at;
  return l;
}

Status begin(const Layout &l, const std::string &path) {
  TRY_ASSIGN(File file, File::create(path));
  TRY(file.resize(l.bytes));
  TRY(file.write(l.head.data(), static_cast<int64_t>(l.head.size()), 0));
  return file.close();
}

// Frozen weights of 16 bits have no master. What they were rounded from is what the model's file holds, unless they
// came from a checkpoint: then the file rounds to something else. Leaves `out` empty in that case.
Status readUnrounded(const Schedule &s, const SegmentInfo &g, DType to, DType kept,
                     const void *data, int64_t begin, int64_t n, std::vector<std::byte> &out) {
  out.resize(static_cast<size_t>(n * byteSize(to)));
  std::vector<std::byte> rounded(static_cast<size_t>(n * byteSize(kept)));
  int64_t total = Type(to, g.shape).elems();
  TRY(readSource({g.param, &g.source, total, to}, s.directory, begin, n, out.data()));
  TRY(readSource({g.param, &g.source, total, kept}, s.directory, begin, n, rounded.data()));
  if (std::memcmp(rounded.data(), data, rounded.size()) != 0)
    out.clear();
  return {};
}

Status writeSlice(const Schedule &s, const LoadedRank &rank, const Layout &l,
                  const std::string &path) {
  TRY_ASSIGN(File file, File::openWrite(path));
  std::vector<std::byte> chunk;
  for (const SavedTensor &t : l.tensors) {
    const BucketInfo &b = s.buckets[t.bucket];
    StateSlot slot = weightSlot(s, t.bucket);
    DType kept = s.persistent[static_cast<size_t>(slot.buffer)].type.dtype;
    ElemRange owned = ownedElems(s, b, *t.segment, rank.rank);
    int64_t lo = t.segment->at + owned.begin, hi = t.segment->at + owned.end;
    int64_t base = firstElem(s, slot, rank.rank), keptSize = byteSize(kept);
    constexpr int64_t kStep = 1 << 18;
    auto write = [&](int64_t at, const std::byte *data, int64_t bytes) -> Status {
      int64_t e = base + at / keptSize, n = bytes / keptSize, size = byteSize(t.dtype);
      const void *from = data;
      chunk.clear();
      if (!b.trainable && keptSize < size)
        TRY(readUnrounded(s, *t.segment, t.dtype, kept, from, e - t.segment->at, n, chunk));
      if (t.dtype != kept) {
        bool isRead = !chunk.empty();
        chunk.resize(static_cast<size_t>(n * size));
        if (!isRead)
          convert(t.dtype, chunk.data(), kept, from, n);
        from = chunk.data();
      }
      return file.write(from, n * size,
                        static_cast<int64_t>(l.head.size()) + t.offset +
                            (e - t.segment->at) * size);
    };
    for (int64_t e = lo; e < hi; e += kStep)
      TRY(rank.read(slot.buffer, (e - base) * keptSize, std::min(kStep, hi - e) * keptSize, write));
  }
  TRY(file.sync());
  return file.close();
}

} // namespace

Status saveModel(const Schedule &s, const LoadedRank &rank, Comm &comm, const std::string &path) {
  std::string temporary = path + ".tmp";
  StatusOr<Layout> layout = layOut(s);
  Status status;
  if (!layout.ok())
    status = std::move(layout).status().at(path);
  else if (rank.rank == 0)
    status = begin(*layout, temporary);
  bool all = comm.meet(status.ok());
  if (all) {
    status = writeSlice(s, rank, *layout, temporary);
    all = comm.meet(status.ok());
  }
  if (rank.rank == 0 && all)
    status = renameFile(temporary, path);
  if (rank.rank == 0 && !(all && status.ok()))
    removeFile(temporary);
  if (!comm.meet(status.ok()) && status.ok())
    status = stoppedByOther();
  return status;
}

} // namespace ds
