// SPDX-License-Identifier: Apache-2.0
//
// Cuts tensor bytes out of a serialized ModelProto. Every message on the way from the model to its tensors
// is rewritten; all other fields are copied. A tensor whose values are one contiguous run of little-endian
// elements (raw_data, or packed float_data / double_data) gets an external-data entry instead that gives
// offset and length in the file.
#include "frontend/OnnxFile.h"

#include <string_view>

namespace ds {
namespace {

enum class Msg { Model, Graph, Node, Attribute, Function, Tensor, Opaque };

// Fields that lead to tensors, by the field numbers of onnx.proto.
Msg child(Msg m, uint64_t field) {
  switch (m) {
  case Msg::Model:
    return field == 7 ? Msg::Graph : field == 25 ? Msg::Function : Msg::Opaque;
  case Msg::Graph:
    return field == 1 ? Msg::Node : field == 5 ? Msg::Tensor : Msg::Opaque;
  case Msg::Function:
    return field == 7 ? Msg::Node : field == 11 ? Msg::Attribute : Msg::Opaque;
  case Msg::Node:
    return field == 5 ? Msg::Attribute : Msg::Opaque;
  case Msg::Attribute:
    return field == 5 || field == 10   ? Msg::Tensor
           : field == 6 || field == 11 ? Msg::Graph
                                       : Msg::Opaque;
  default:
    return Msg::Opaque;
  }
}

constexpr uint64_t kFloatData = 4, kRawData = 9, kDoubleData = 10, kExternalData = 13,
                   kDataLocation = 14;
constexpr int kMaxDepth = 64;
constexpr size_t kMinAttribute = 1024; // scalars and shapes in attributes stay in the proto

class Stripper {
public:
  Stripper(std::string_view in) : in(in) {}

  // Tensors with fewer than minBytes of data are left as they are.
  bool message(size_t begin, size_t end, Msg kind, int depth, size_t minBytes, std::string &out) {
    if (depth > kMaxDepth)
      return false;
    if (kind == Msg::Tensor)
      return tensor(begin, end, minBytes, out);
    for (size_t at = begin; at < end;) {
      size_t start = at;
      uint64_t tag = 0;
      if (!varint(at, end, tag) || (tag >> 3) == 0)
        return false;
      size_t bodyBegin = at;
      if (!skip(at, end, tag, bodyBegin))
        return false;
      Msg inner = (tag & 7) == 2 ? child(kind, tag >> 3) : Msg::Opaque;
      if (inner == Msg::Opaque) {
        out.append(in.substr(start, at - start));
        continue;
      }
      std::string body;
      if (!message(bodyBegin, at, inner, depth + 1, kind == Msg::Attribute ? kMinAttribute : 0,
                   body))
        return false;
      putBytes(out, tag, body);
    }
    return true;
  }

private:
  bool varint(size_t &at, size_t end, uint64_t &v) const {
    v = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      uint8_t b = static_cast<uint8_t>(in[at++]);
      v |= uint64_t(b & 0x7f) << shift;
      if (!(b & 0x80))
        return true;
    }
    return false;
  }

  // Moves at behind the field; body is where a length-delimited field's bytes begin.
  bool skip(size_t &at, size_t end, uint64_t tag, size_t &body) const {
    uint64_t n = 0;
    switch (tag & 7) {
    case 0:
      return varint(at, end, n);
    case 1:
      n = 8;
      break;
    case 2:
      if (!varint(at, end, n))
        return false;
      break;
    case 5:
      n = 4;
      break;
    default: // groups do not occur in ONNX
      return false;
    }
    body = at;
    if (n > end - at)
      return false;
    at += n;
    return true;
  }

  static void putVarint(std::string &out, uint64_t v) {
    for (; v >= 0x80; v >>= 7)
      out.push_back(static_cast<char>(v | 0x80));
    out.push_back(static_cast<char>(v));
  }
  static void putBytes(std::string &out, uint64_t tag, std::string_view body) {
    putVarint(out, tag);
    putVarint(out, body.size());
    out.append(body);
  }
  static void putEntry(std::string &out, std::string_view key, std::string_view value) {
    std::string entry;
    putBytes(entry, 1 << 3 | 2, key);
    putBytes(entry, 2 << 3 | 2, value);
    putBytes(out, kExternalData << 3 | 2, entry);
  }

  bool tensor(size_t begin, size_t end, size_t minBytes, std::string &out) {
    int runs = 0;
    size_t runBegin = 0, runEnd = 0, runField = 0;
    std::string rest;
    for (size_t at = begin; at < end;) {
      size_t start = at;
      uint64_t tag = 0;
      if (!varint(at, end, tag) || (tag >> 3) == 0)
        return false;
      size_t body = at;
      if (!skip(at, end, tag, body))
        return false;
      uint64_t field = tag >> 3;
      bool data = field == kRawData || field == kFloatData || field == kDoubleData;
      if (data && (tag & 7) == 2 && body == at)
        continue; // an empty run says nothing
      if (data) {
        runs += (tag & 7) == 2 ? 1 : 2; // unpacked values are no run
        runField = field;
        runBegin = body;
        runEnd = at;
      } else if (field != kDataLocation) {
        rest.append(in.substr(start, at - start));
      }
    }
    if (runs != 1 || runEnd - runBegin < minBytes) {
      out.append(in.substr(begin, end - begin));
      return true;
    }
    out += rest;
    putEntry(out, "location", kSelf);
    putEntry(out, "offset", std::to_string(runBegin));
    putEntry(out, "length", std::to_string(runEnd - runBegin));
    putEntry(out, "field", std::to_string(runField));
    putVarint(out, kDataLocation << 3);
    putVarint(out, onnx::TensorProto::EXTERNAL);
    return true;
  }

  std::string_view in;
};

} // namespace

bool stripTensorData(std::string_view in, std::string &out) {
  return Stripper(in).message(0, in.size(), Msg::Model, 0, 0, out);
}

} // namespace ds
