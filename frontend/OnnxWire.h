// SPDX-License-Identifier: Apache-2.0
//
// Serialized ONNX models field by field, for what must not go through protobuf's objects: cutting tensor bytes out
// (OnnxWire.cpp) and writing a model back with all other bytes as they were (OnnxWrite.cpp).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ds {

enum class WireMsg { Model, Graph, Node, Attribute, Function, Tensor, Opaque };

/// The kind of a field's message where it leads to tensors, by the field numbers of onnx.proto.
WireMsg wireChild(WireMsg m, uint64_t field);

/// Messages nest at most this deep.
inline constexpr int kMaxWireDepth = 64;

struct WireField {
  uint64_t tag = 0;
  std::string_view all;  // with its tag
  std::string_view body; // of a length-delimited field
  uint64_t number() const { return tag >> 3; }
  bool isBytes() const { return (tag & 7) == 2; }
};

class WireReader {
public:
  explicit WireReader(std::string_view message) : in(message) {}
  /// False at the end, or where the bytes are no protobuf; bad() then says which.
  bool next(WireField &f);
  bool bad() const { return malformed; }

private:
  bool varint(uint64_t &v);
  std::string_view in;
  size_t at = 0;
  bool malformed = false;
};

void putVarint(std::string &out, uint64_t v);
void putBytes(std::string &out, uint64_t tag, std::string_view body);

/// A tensor's message without its data; `data`: how many runs or values of it there were, and the last run.
struct BareTensor {
  std::string rest;
  int runs = 0; // values that are not packed count as two
  std::string_view run;
  uint64_t runField = 0;
};
/// all: every data field and external-data entry is cut out, and not just raw_data, float_data and double_data.
bool bareTensor(std::string_view message, bool all, BareTensor &out);
/// Appends entries of external data, and the location EXTERNAL.
void putExternalEntry(std::string &out, std::string_view key, std::string_view value);
void putExternalLocation(std::string &out);

} // namespace ds
