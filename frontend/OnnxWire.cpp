// SPDX-License-Identifier: Apache-2.0
//
// Cuts tensor bytes out of a serialized ModelProto. Every message on the way from the model to its tensors
// is rewritten; all other fields are copied. A tensor whose values are one contiguous run of little-endian
// elements (raw_data, or packed float_data / double_data) gets an external-data entry instead that gives
// offset and length in the file.
#include "frontend/OnnxWire.h"

#include "frontend/OnnxFile.h"

namespace ds {

WireMsg wireChild(WireMsg m, uint64_t field) {
  switch (m) {
  case WireMsg::Model:
    return field == 7 ? WireMsg::Graph : field == 25 ? WireMsg::Function : WireMsg::Opaque;
  case WireMsg::Graph:
    return field == 1 ? WireMsg::Node : field == 5 ? WireMsg::Tensor : WireMsg::Opaque;
  case WireMsg::Function:
    return field == 7 ? WireMsg::Node : field == 11 ? WireMsg::Attribute : WireMsg::Opaque;
  case WireMsg::Node:
    return field == 5 ? WireMsg::Attribute : WireMsg::Opaque;
  case WireMsg::Attribute:
    return field == 5 || field == 10   ? WireMsg::Tensor
           : field == 6 || field == 11 ? WireMsg::Graph
                                       : WireMsg::Opaque;
  default:
    return WireMsg::Opaque;
  }
}

bool WireReader::varint(uint64_t &v) {
  v = 0;
  for (int shift = 0; shift < 64 && at < in.size(); shift += 7) {
    uint8_t b = static_cast<uint8_t>(in[at++]);
    v |= uint64_t(b & 0x7f) << shift;
    if (!(b & 0x80))
      return true;
  }
  return false;
}

bool WireReader::next(WireField &f) {
  if (at >= in.size())
    return false;
  size_t start = at;
  uint64_t n = 0;
  malformed = true; // until the whole field is there
  if (!varint(f.tag) || f.number() == 0)
    return false;
  switch (f.tag & 7) {
  case 0:
    if (!varint(n))
      return false;
    n = 0;
    break;
  case 1:
    n = 8;
    break;
  case 2:
    if (!varint(n))
      return false;
    break;
  case 5:
    n = 4;
    break;
  default: // groups do not occur in ONNX
    return false;
  }
  if (n > in.size() - at)
    return false;
  f.body = in.substr(at, n);
  at += n;
  f.all = in.substr(start, at - start);
  malformed = false;
  return true;
}

void putVarint(std::string &out, uint64_t v) {
  for (; v >= 0x80; v >>= 7)
    out.push_back(static_cast<char>(v | 0x80));
  out.push_back(static_cast<char>(v));
}

void putBytes(std::string &out, uint64_t tag, std::string_view body) {
  putVarint(out, tag);
  putVarint(out, body.size());
  out.append(body);
}

constexpr uint64_t kFloatData = 4, kInt32Data = 5, kInt64Data = 7, kRawData = 9, kDoubleData = 10,
                   kUint64Data = 11, kExternalData = 13, kDataLocation = 14;

bool bareTensor(std::string_view message, bool all, BareTensor &out) {
  WireReader reader(message);
  for (WireField f; reader.next(f);) {
    uint64_t n = f.number();
    bool run = n == kRawData || n == kFloatData || n == kDoubleData;
    if (run && f.isBytes() && f.body.empty())
      continue; // an empty run says nothing
    if (run) {
      out.runs += f.isBytes() ? 1 : 2; // unpacked values are no run
      out.run = f.body;
      out.runField = n;
    } else if (n != kDataLocation && !(all && (n == kInt32Data || n == kInt64Data ||
                                               n == kUint64Data || n == kExternalData))) {
      out.rest.append(f.all);
    }
  }
  return !reader.bad();
}

void putExternalEntry(std::string &out, std::string_view key, std::string_view value) {
  std::string entry;
  putBytes(entry, 1 << 3 | 2, key);
  putBytes(entry, 2 << 3 | 2, value);
  putBytes(out, kExternalData << 3 | 2, entry);
}

void putExternalLocation(std::string &out) {
  putVarint(out, kDataLocation << 3);
  putVarint(out, onnx::TensorProto::EXTERNAL);
}

namespace {

constexpr size_t kMinAttribute = 1024; // scalars and shapes in attributes stay in the proto

// Tensors with fewer than minBytes of data are left as they are.
bool strip(std::string_view file, std::string_view message, WireMsg kind, int depth,
           size_t minBytes, std::string &out) {
  if (depth > kMaxWireDepth)
    return false;
  if (kind == WireMsg::Tensor) {
    BareTensor t;
    if (!bareTensor(message, /*all=*/false, t))
      return false;
    if (t.runs != 1 || t.run.size() < minBytes) {
      out.append(message);
      return true;
    }
    out += t.rest;
    putExternalEntry(out, "location", kSelf);
    putExternalEntry(out, "offset", std::to_string(t.run.data() - file.data()));
    putExternalEntry(out, "length", std::to_string(t.run.size()));
    putExternalEntry(out, "field", std::to_string(t.runField));
    putExternalLocation(out);
    return true;
  }
  WireReader reader(message);
  for (WireField f; reader.next(f);) {
    WireMsg inner = f.isBytes() ? wireChild(kind, f.number()) : WireMsg::Opaque;
    if (inner == WireMsg::Opaque) {
      out.append(f.all);
      continue;
    }
    std::string body;
    if (!strip(file, f.body, inner, depth + 1, kind == WireMsg::Attribute ? kMinAttribute : 0,
               body))
      return false;
    putBytes(out, f.tag, body);
  }
  return !reader.bad();
}

} // namespace

bool stripTensorData(std::string_view in, std::string &out) {
  return strip(in, in, WireMsg::Model, 0, 0, out);
}

} // namespace ds
