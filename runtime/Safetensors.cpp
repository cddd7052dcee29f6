// SPDX-License-Identifier: Apache-2.0
#include "runtime/Safetensors.h"

#include "ir/Json.h"
#include "ir/Type.h"

#include <charconv>
#include <fmt/ranges.h>
#include <optional>

namespace ds {

static constexpr int64_t kMaxHeader = int64_t{1} << 28;

std::string safetensorsHead(std::string json) {
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string head;
  for (int i = 0; i < 8; ++i)
    head += static_cast<char>(json.size() >> (8 * i) & 0xff);
  return head + json;
}

std::string safetensorsHead(const std::vector<SafetensorsItem> &items) {
  std::string json = "{\"__metadata__\":{\"format\":\"pt\"}";
  int64_t at = 0;
  for (const SafetensorsItem &i : items) {
    int64_t bytes = Type(i.dtype, i.dims).bytes();
    json += fmt::format(",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                        jsonQuoted(i.name), safetensorsName(i.dtype), fmt::join(i.dims, ","), at,
                        at + bytes);
    at += bytes;
  }
  return safetensorsHead(json + "}");
}

int64_t SafetensorsEntry::elems() const {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

static std::optional<int64_t> integer(const JsonValue *v) {
  int64_t n = 0;
  if (!v || v->kind != JsonValue::Kind::Number)
    return std::nullopt;
  auto r = std::from_chars(v->text.data(), v->text.data() + v->text.size(), n);
  if (r.ec != std::errc() || r.ptr != v->text.data() + v->text.size() || n < 0)
    return std::nullopt;
  return n;
}

// start: of the data section, in bytes.
static std::optional<SafetensorsEntry> entryOf(const JsonValue &v, int64_t start, int64_t size) {
  SafetensorsEntry e;
  const JsonValue *dtype = v.find("dtype"), *shape = v.find("shape"),
                  *offsets = v.find("data_offsets");
  std::optional<DType> t = dtype ? dtypeFromSafetensors(dtype->text) : std::nullopt;
  if (!t || !shape || shape->kind != JsonValue::Kind::Array ||
      shape->members.size() > static_cast<size_t>(kMaxRank) || !offsets ||
      offsets->members.size() != 2)
    return std::nullopt;
  int64_t bytes = byteSize(*t);
  for (const JsonMember &m : shape->members) {
    auto d = integer(&m.value);
    if (!d || __builtin_mul_overflow(bytes, *d, &bytes))
      return std::nullopt;
    e.dims.push_back(*d);
  }
  auto from = integer(&offsets->members[0].value), to = integer(&offsets->members[1].value);
  if (!from || !to || *from > *to || *to > size - start || *to - *from != bytes)
    return std::nullopt;
  e.dtype = *t;
  e.offset = start + *from;
  return e;
}

StatusOr<SafetensorsHeader> SafetensorsHeader::read(const File &file) {
  unsigned char head[8] = {};
  TRY(file.read(head, 8, 0));
  uint64_t length = 0;
  for (int i = 0; i < 8; ++i)
    length |= static_cast<uint64_t>(head[i]) << (8 * i);
  if (length > static_cast<uint64_t>(kMaxHeader) || static_cast<int64_t>(length) > file.size() - 8)
    return Status::error(fmt::format("is no safetensors file: the header would have {} bytes, the "
                                     "file has {}",
                                     length, file.size()))
        .at(file.path());
  std::string json(length, ' ');
  TRY(file.read(json.data(), static_cast<int64_t>(length), 8));
  TRY_ASSIGN(JsonValue root, parseJson(json, file.path()));
  SafetensorsHeader h;
  if (const JsonValue *metadata = root.find("__metadata__"))
    for (const JsonMember &m : metadata->members)
      h.metadata.emplace(m.key, m.value.text);
  for (const JsonMember &m : root.members) {
    if (m.key == "__metadata__")
      continue;
    auto e = entryOf(m.value, 8 + static_cast<int64_t>(length), file.size());
    if (!e)
      return Status::error(fmt::format("the entry {} is damaged, or of a type that is not "
                                       "supported",
                                       jsonQuoted(m.key)))
          .at(file.path());
    h.tensors.emplace(m.key, *e);
  }
  return h;
}

} // namespace ds
