// SPDX-License-Identifier: Apache-2.0
#include "runtime/PieceFile.h"

#include "ir/Json.h"

#include <charconv>
#include <cstring>
#include <fmt/format.h>

namespace ds {

static constexpr int64_t kMaxHeader = int64_t{1} << 28;

uint64_t checksum(const void *bytes, size_t n) {
  uint64_t h[4] = {1, 2, 3, 4}; // lanes, so that multiplications overlap
  const auto *p = static_cast<const unsigned char *>(bytes);
  auto mix = [](uint64_t h, uint64_t w) {
    h = (h ^ w) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
  };
  size_t i = 0;
  for (; i + 32 <= n; i += 32)
    for (size_t k = 0; k < 4; ++k) {
      uint64_t w;
      std::memcpy(&w, p + i + 8 * k, 8);
      h[k] = mix(h[k], w);
    }
  for (; i < n; ++i)
    h[i % 4] = mix(h[i % 4], p[i]);
  return mix(mix(mix(mix(n, h[0]), h[1]), h[2]), h[3]);
}

std::string safetensorsHead(std::string json) {
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string head;
  for (int i = 0; i < 8; ++i)
    head += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return head + json;
}

Status writePieces(const std::string &path, const std::string &owner,
                   const std::vector<PieceData> &pieces) {
  std::string sums, tensors;
  int64_t at = 0;
  for (const PieceData &p : pieces) {
    int64_t bytes = p.elems * byteSize(p.dtype);
    sums += fmt::format(",{}:\"{} {:016x}\"", jsonQuoted("sum " + p.key), p.begin,
                        checksum(p.data, static_cast<size_t>(bytes)));
    tensors += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                           jsonQuoted(p.key), safetensorsName(p.dtype), p.elems, at, at + bytes);
    at += bytes;
  }
  std::string json =
      "{\"__metadata__\":{\"format\":\"dsplan\",\"checkpoint\":" + jsonQuoted(owner) + sums + "}" +
      tensors + "}";
  std::string head = safetensorsHead(std::move(json));
  auto offset = static_cast<int64_t>(head.size());
  TRY_ASSIGN(File file, File::create(path));
  TRY(file.resize(offset + at));
  TRY(file.write(head.data(), offset, 0));
  for (const PieceData &p : pieces) {
    int64_t bytes = p.elems * byteSize(p.dtype);
    TRY(file.write(p.data, bytes, offset));
    offset += bytes;
  }
  TRY(file.sync());
  return file.close();
}

namespace {

std::optional<int64_t> integer(const JsonValue *v) {
  int64_t n = 0;
  if (!v || v->kind != JsonValue::Kind::Number)
    return std::nullopt;
  auto r = std::from_chars(v->text.data(), v->text.data() + v->text.size(), n);
  if (r.ec != std::errc() || r.ptr != v->text.data() + v->text.size() || n < 0)
    return std::nullopt;
  return n;
}

std::optional<PieceFile::Entry> entryOf(const JsonMember &m, const JsonValue *sums, int64_t start,
                                        int64_t size) {
  PieceFile::Entry e;
  const JsonValue *dtype = m.value.find("dtype"), *shape = m.value.find("shape"),
                  *offsets = m.value.find("data_offsets"),
                  *sum = sums ? sums->find("sum " + m.key) : nullptr;
  std::optional<DType> t = dtype ? dtypeFromSafetensors(dtype->text) : std::nullopt;
  if (!t || !shape || shape->members.size() != 1 || !offsets || offsets->members.size() != 2 ||
      !sum)
    return std::nullopt;
  auto elems = integer(&shape->members[0].value), from = integer(&offsets->members[0].value),
       to = integer(&offsets->members[1].value);
  if (!elems || !from || !to || *from > *to || *to > size - start || *elems > size / byteSize(*t) ||
      *to - *from != *elems * byteSize(*t))
    return std::nullopt;
  e.dtype = *t;
  e.elems = *elems;
  e.offset = start + *from;
  const char *text = sum->text.data(), *end = text + sum->text.size(); // "BEGIN HEX"
  auto first = std::from_chars(text, end, e.begin);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != ' ' || e.begin < 0 ||
      e.begin > INT64_MAX - e.elems)
    return std::nullopt;
  auto r = std::from_chars(first.ptr + 1, end, e.sum, 16);
  if (r.ec != std::errc() || r.ptr != end)
    return std::nullopt;
  return e;
}

} // namespace

StatusOr<PieceFile> PieceFile::open(const std::string &path) {
  PieceFile f;
  TRY_ASSIGN(f.file, File::openRead(path));
  unsigned char head[8] = {};
  TRY(f.file.read(head, 8, 0));
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i)
    length |= static_cast<uint64_t>(head[i]) << (8 * i);
  if (length > static_cast<uint64_t>(kMaxHeader) ||
      static_cast<int64_t>(length) > f.file.size() - 8)
    return Status::error(fmt::format("is no safetensors file: the header would have {} bytes, the "
                                     "file has {}",
                                     length, f.file.size()))
        .at(path);
  std::string json(length, ' ');
  TRY(f.file.read(json.data(), static_cast<int64_t>(length), 8));
  TRY_ASSIGN(JsonValue root, parseJson(json, path));
  const JsonValue *sums = root.find("__metadata__");
  if (const JsonValue *owner = sums ? sums->find("checkpoint") : nullptr)
    f.checkpoint = owner->text;
  for (const JsonMember &m : root.members) {
    if (m.key == "__metadata__")
      continue;
    auto e = entryOf(m, sums, 8 + static_cast<int64_t>(length), f.file.size());
    if (!e)
      return Status::error(
                 fmt::format("the entry {} is damaged, or was not written by a checkpoint",
                             jsonQuoted(m.key)))
          .at(path);
    f.table.emplace(m.key, *e);
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
