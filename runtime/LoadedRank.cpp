// SPDX-License-Identifier: Apache-2.0
//
// The contents of persistent buffers between programs, for those who load, save or look at them: in memory at once, on
// nvme through one piece of host memory.
#include "runtime/Loader.h"

#include <algorithm>

namespace ds {

namespace {

/// Whole blocks of the file around what is wanted of them.
struct Piece {
  int64_t begin, end;        // of the file, multiples of kBlockAlign
  int64_t wanted, wantedEnd; // of the file
  bool isWhole() const { return wanted == begin && wantedEnd == end; }
};

Piece pieceAt(int64_t from, int64_t end, int64_t most) {
  int64_t begin = from / kBlockAlign * kBlockAlign;
  int64_t stop = std::min(end, begin + most);
  return {begin, (stop + kBlockAlign - 1) / kBlockAlign * kBlockAlign, from, stop};
}

} // namespace

std::byte *LoadedRank::persistent(int buffer) const {
  const Buffer &b = schedule->persistent[static_cast<size_t>(buffer)];
  bool isReached = b.type.space == Space::Host || (b.type.space == Space::Device && !side);
  for (size_t i = 0; isReached && i < bases.size(); ++i)
    if (schedule->arenas[i].space == b.type.space)
      return bases[i] + b.offset;
  return nullptr;
}

// Piece by piece through pinned host memory.
Status LoadedRank::viaPinned(int buffer, int64_t at, int64_t bytes,
                             const std::function<Status(int64_t, std::byte *, int64_t)> &f,
                             bool toDevice) const {
  const Buffer &b = schedule->persistent[static_cast<size_t>(buffer)];
  std::byte *base = nullptr;
  for (size_t i = 0; i < bases.size(); ++i)
    if (schedule->arenas[i].space == Space::Device)
      base = bases[i] + b.offset;
  for (int64_t end = at + bytes; at < end;) {
    int64_t n = std::min(end - at, kPieceBytes);
    if (!toDevice)
      TRY(side->copyNow(pinned, base + at, n));
    TRY(f(at, pinned, n));
    if (toDevice)
      TRY(side->copyNow(base + at, pinned, n));
    at += n;
  }
  return {};
}

Status LoadedRank::read(int buffer, int64_t at, int64_t bytes, const Look &look) const {
  if (bytes == 0)
    return {};
  if (const std::byte *p = persistent(buffer))
    return look(at, p + at, bytes);
  if (schedule->persistent[static_cast<size_t>(buffer)].type.space == Space::Device)
    return viaPinned(buffer, at, bytes, look, false);
  int64_t base = schedule->persistent[static_cast<size_t>(buffer)].offset;
  for (int64_t from = base + at, end = from + bytes; from < end;) {
    Piece p = pieceAt(from, end, staging.size());
    TRY(nvme->read(p.begin, staging.data(), p.end - p.begin, never));
    TRY(look(from - base, staging.data() + (from - p.begin), p.wantedEnd - from));
    from = p.wantedEnd;
  }
  return {};
}

Status LoadedRank::write(int buffer, int64_t at, int64_t bytes, const Fill &fill) const {
  if (bytes == 0)
    return {};
  if (std::byte *p = persistent(buffer))
    return fill(at, p + at, bytes);
  if (schedule->persistent[static_cast<size_t>(buffer)].type.space == Space::Device)
    return viaPinned(buffer, at, bytes, fill, true);
  int64_t base = schedule->persistent[static_cast<size_t>(buffer)].offset;
  for (int64_t from = base + at, end = from + bytes; from < end;) {
    Piece p = pieceAt(from, end, staging.size());
    if (!p.isWhole()) // the neighbours' bytes stay
      TRY(nvme->read(p.begin, staging.data(), p.end - p.begin, never));
    TRY(fill(from - base, staging.data() + (from - p.begin), p.wantedEnd - from));
    TRY(nvme->write(p.begin, staging.data(), p.end - p.begin, never));
    from = p.wantedEnd;
  }
  return {};
}

} // namespace ds
