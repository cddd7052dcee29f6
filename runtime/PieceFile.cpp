// SPDX-License-Identifier: Apache-2.0
#include "runtime/PieceFile.h"

#include "ir/Json.h"
#include "runtime/Safetensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fmt/format.h>

namespace ds {

static uint64_t mix(uint64_t h, uint64_t w) {
  h = (h ^ w) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 29);
}

void Checksum::group(const unsigned char *p) {
  for (size_t k = 0; k < 4; ++k) {
    uint64_t w;
    std::memcpy(&w, p + 8 * k, 8);
    lanes[k] = mix(lanes[k], w);
  }
}

void Checksum::add(const void *bytes, size_t n) {
  const auto *p = static_cast<const unsigned char *>(bytes), *end = p + n;
  size_t have = total % kGroup;
  total += n;
  if (have != 0) {
    size_t more = std::min(kGroup - have, n);
    std::memcpy(rest + have, p, more);
    p += more;
    if (have + more < kGroup)
      return;
    group(rest);
  }
  for (; static_cast<size_t>(end - p) >= kGroup; p += kGroup)
    group(p);
  if (p != end)
    std::memcpy(rest, p, static_cast<size_t>(end - p));
}

uint64_t Checksum::value() const {
  uint64_t h[4] = {lanes[0], lanes[1], lanes[2], lanes[3]};
  for (size_t i = 0; i < total % kGroup; ++i)
    h[i % 4] = mix(h[i % 4], rest[i]);
  return mix(mix(mix(mix(total, h[0]), h[1]), h[2]), h[3]);
}

uint64_t checksum(const void *bytes, size_t n) {
  Checksum c;
  c.add(bytes, n);
  return c.value();
}

static std::string pieceHead(const std::string &owner, const std::vector<PieceData> &pieces,
                             const std::vector<uint64_t> &sums) {
  std::string meta, tensors;
  int64_t at = 0;
  for (size_t k = 0; k < pieces.size(); ++k) {
    const PieceData &p = pieces[k];
    int64_t bytes = p.elems * byteSize(p.dtype);
    meta += fmt::format(",{}:\"{} {:016x}\"", jsonQuoted("sum " + p.key), p.begin, sums[k]);
    tensors += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                           jsonQuoted(p.key), safetensorsName(p.dtype), p.elems, at, at + bytes);
    at += bytes;
  }
  return safetensorsHead("{\"__metadata__\":{\"format\":\"dsplan\",\"checkpoint\":" +
                         jsonQuoted(owner) + meta + "}" + tensors + "}");
}

// The head comes last, since it has the sums; its size does not depend on them.
Status writePieces(const std::string &path, const std::string &owner,
                   const std::vector<PieceData> &pieces) {
  std::vector<uint64_t> sums(pieces.size());
  auto offset = static_cast<int64_t>(pieceHead(owner, pieces, sums).size()), size = offset;
  for (const PieceData &p : pieces)
    size += p.elems * byteSize(p.dtype);
  TRY_ASSIGN(File file, File::create(path));
  TRY(file.resize(size));
  for (size_t k = 0; k < pieces.size(); ++k) {
    Checksum sum;
    TRY(pieces[k].data([&](const void *part, int64_t bytes) -> Status {
      sum.add(part, static_cast<size_t>(bytes));
      TRY(file.write(part, bytes, offset));
      offset += bytes;
      return {};
    }));
    sums[k] = sum.value();
  }
  std::string head = pieceHead(owner, pieces, sums);
  TRY(file.write(head.data(), static_cast<int64_t>(head.size()), 0));
  TRY(file.sync());
  return file.close();
}

// "BEGIN HEX"
static bool parseSum(const std::string &sum, PieceFile::Entry &e) {
  const char *text = sum.data(), *end = text + sum.size();
  auto first = std::from_chars(text, end, e.begin);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ' ' || e.begin < 0 ||
      e.begin > INT64_MAX - e.elems)
    return false;
  auto r = std::from_chars(first.ptr + 1, end, e.sum, 16);
  return r.ec == std::errc() && r.ptr == end;
}

StatusOr<PieceFile> PieceFile::open(const std::string &path) {
  PieceFile f;
  TRY_ASSIGN(f.file, File::openRead(path));
  TRY_ASSIGN(SafetensorsHeader h, SafetensorsHeader::read(f.file));
  f.checkpoint = h.metadata["checkpoint"];
  for (const auto &[key, t] : h.tensors) {
    Entry e{t.dtype, 0, t.elems(), t.offset, 0};
    if (t.dims.size() != 1 || !parseSum(h.metadata["sum " + key], e))
      return Status::error(
                 fmt::format("the entry {} is damaged, or was not written by a checkpoint",
                             jsonQuoted(key)))
          .at(path);
    f.table.emplace(key, e);
  }
  return f;
}

StatusOr<std::vector<std::byte>> PieceFile::read(const std::string &key, int64_t begin, int64_t end,
                                                 DType *dtype) const {
  auto it = table.find(key);
  if (it == table.end())
    return Status::error("has no " + key + ", which the manifest places there").at(file.path());
  const Entry &e = it->second;
  if (e.begin != begin || e.elems != end - begin)
    return Status::error(fmt::format("has elements {} to {} of {}, the manifest places {} to {} "
                                     "there: another rank's file?",
                                     e.begin, e.begin + e.elems, key, begin, end))
        .at(file.path());
  std::vector<std::byte> bytes(static_cast<size_t>(e.elems * byteSize(e.dtype)));
  TRY(file.read(bytes.data(), static_cast<int64_t>(bytes.size()), e.offset));
  if (checksum(bytes.data(), bytes.size()) != e.sum)
    return Status::error(key + " is damaged: its checksum differs; resume from another checkpoint")
        .at(file.path());
  *dtype = e.dtype;
  return bytes;
}

} // namespace ds
