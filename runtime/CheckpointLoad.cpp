// SPDX-License-Identifier: Apache-2.0
#include "runtime/Checkpoint.h"
#include "runtime/CheckpointState.h"
#include "runtime/Convert.h"
#include "runtime/PieceFile.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace ds {

using Tensors = std::map<std::string, const CheckpointTensor *>;

static Tensors byKey(const Manifest &m) {
  Tensors out;
  for (const CheckpointTensor &t : m.tensors)
    out[t.key()] = &t;
  return out;
}

// "a, b, c and 7 more"
static std::string shortList(std::vector<std::string> names) {
  size_t more = names.size() > 5 ? names.size() - 5 : 0;
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more ? fmt::format(" and {} more", more) : "");
}

static Status checkTensors(const Schedule &s, const Manifest &m) {
  Tensors saved = byKey(m);
  std::vector<std::string> missing, extra;
  Status all;
  for (const StateSlot &slot : stateSlots(s)) {
    const BucketInfo &b = s.buckets[slot.bucket];
    for (const SegmentInfo &g : b.segments) {
      std::string key = slot.name + "/" + paramName(g);
      auto it = saved.find(key);
      if (it == saved.end()) {
        if (b.trainable || b.running)
          missing.push_back(key);
        continue; // a frozen one comes from the model
      }
      if (it->second->shape != g.shape)
        all.merge(
            Status::error(fmt::format("{} has the shape [{}], the plan's parameter has [{}]", key,
                                      fmt::join(it->second->shape, ","), fmt::join(g.shape, ","))));
      saved.erase(it);
    }
  }
  if (!missing.empty()) {
    all.merge(Status::error(fmt::format("the plan needs {}, which the checkpoint does not have",
                                        shortList(missing)))
                  .note("was it made with another model or optimizer?"));
  }
  // A weight that nobody takes is one that would be lost; states of what is now frozen are not needed.
  for (const auto &[key, tensor] : saved)
    if (tensor->slot == "weight")
      extra.push_back(key);
  if (!extra.empty())
    all.merge(Status::error(
        fmt::format("the checkpoint has {}: no parameters of the plan", shortList(extra))));
  return all;
}

Status checkResume(const Schedule &s, const Manifest &m) {
  Status all = checkTensors(s, m);
  int64_t batch = s.world() * s.step.microBatch * s.step.gradAccum;
  if (batch != m.globalBatch())
    all.merge(Status::error(fmt::format("the checkpoint's global batch is {} ({} ranks x {} rows x "
                                        "{} micro-batches), the plan's is {} "
                                        "({} x {} x {}); it must stay the same",
                                        m.globalBatch(), m.world, m.microBatch, m.gradAccum, batch,
                                        s.world(), s.step.microBatch, s.step.gradAccum)));
  std::vector<int> startAnew = scaleScalars(s);
  for (int b : stateScalars(s)) {
    const Buffer &buffer = s.persistent[static_cast<size_t>(b)];
    auto it = std::find_if(m.scalars.begin(), m.scalars.end(),
                           [&](const CheckpointScalar &c) { return c.name == buffer.name; });
    if (it == m.scalars.end() &&
        std::find(startAnew.begin(), startAnew.end(), b) != startAnew.end())
      continue;
    if (it == m.scalars.end())
      all.merge(Status::error(fmt::format("the checkpoint has no scalar {}", buffer.name))
                    .note("was it made with another optimizer, scheduler or precision?"));
    else if (it->type.dtype != buffer.type.dtype || it->type.dims != buffer.type.dims)
      all.merge(Status::error(fmt::format("the checkpoint's {} is {}, the plan's is {}",
                                          buffer.name, it->type.str(), buffer.type.str())));
  }
  return all;
}

namespace {

class Loading {
public:
  Loading(const Schedule &s, const LoadedRank &rank, const Manifest &m, const std::string &folder)
      : s(s), rank(rank), m(m), folder(folder) {}

  Status segment(const StateSlot &slot, const SegmentInfo &g, const CheckpointTensor &t) {
    const Buffer &buffer = s.persistent[static_cast<size_t>(slot.buffer)];
    int64_t total = Type(t.dtype, t.shape).elems(), first = firstElem(s, slot, rank.rank);
    // Elements of the parameter that the rank's buffer has a place for.
    int64_t begin = std::clamp<int64_t>(first - g.at, 0, total);
    int64_t end = std::clamp<int64_t>(first + buffer.type.elems() - g.at, 0, total);
    for (const CheckpointPiece &p : t.pieces) {
      int64_t lo = std::max(begin, p.begin), hi = std::min(end, p.end);
      if (lo >= hi)
        continue;
      TRY_ASSIGN(const PieceFile *f, open(p.file));
      DType stored;
      TRY_ASSIGN(std::vector<std::byte> bytes, f->read(t.key(), p.begin, p.end, &stored));
      int64_t size = byteSize(buffer.type.dtype), to = (g.at + lo - first) * size;
      const std::byte *from = bytes.data() + (lo - p.begin) * byteSize(stored);
      TRY(rank.write(slot.buffer, to, (hi - lo) * size,
                     [&](int64_t at, std::byte *piece, int64_t n) -> Status {
                       convert(buffer.type.dtype, piece, stored,
                               from + (at - to) / size * byteSize(stored), n / size);
                       return {};
                     }));
    }
    return {};
  }

private:
  StatusOr<const PieceFile *> open(const std::string &name) {
    auto it = files.find(name);
    if (it == files.end()) {
      TRY_ASSIGN(PieceFile f, openPieces(folder, name, m));
      it = files.emplace(name, std::move(f)).first;
    }
    return &it->second;
  }

  const Schedule &s;
  const LoadedRank &rank;
  const Manifest &m;
  const std::string &folder;
  std::map<std::string, PieceFile> files;
};

} // namespace

Status loadCheckpoint(const Schedule &s, const LoadedRank &rank, const Manifest &m,
                      const std::string &folder) {
  Tensors saved = byKey(m);
  Loading loading(s, rank, m, folder);
  std::vector<StateSlot> slots = stateSlots(s);
  for (StateSlot &slot : roundedSlots(s))
    slots.push_back(std::move(slot));
  for (const StateSlot &slot : slots)
    for (const SegmentInfo &g : s.buckets[slot.bucket].segments)
      if (auto it = saved.find(slot.name + "/" + paramName(g)); it != saved.end())
        TRY(loading.segment(slot, g, *it->second));
  for (int b : stateScalars(s))
    for (const CheckpointScalar &c : m.scalars)
      if (c.name == s.persistent[static_cast<size_t>(b)].name)
        TRY(rank.write(b, 0, static_cast<int64_t>(c.bytes.size()),
                       [&](int64_t at, std::byte *p, int64_t n) -> Status {
                         std::memcpy(p, c.bytes.data() + at, static_cast<size_t>(n));
                         return {};
                       }));
  return {};
}

} // namespace ds
