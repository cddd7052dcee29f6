// SPDX-License-Identifier: Apache-2.0
//
// A model file in memory: the parsed proto without its tensors' bytes, and where those bytes are.
// Raw tensor data never passes through protobuf: it is cut out of the mapped file before parsing and
// replaced by an external-data entry with the location kSelf (OnnxWire.cpp).
#pragma once

#include "ir/Array.h"
#include "ir/Source.h"
#include "ir/Status.h"

#include "onnx/onnx_pb.h"

#include <memory>
#include <set>
#include <vector>

namespace ds {

/// A file mapped for reading; empty files map to no bytes.
class MappedFile {
public:
  static StatusOr<std::shared_ptr<MappedFile>> open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  std::string_view bytes() const { return {data, size}; }

private:
  MappedFile() = default;
  const char *data = nullptr;
  size_t size = 0;
};

/// Where a tensor's bytes are. Either `source` is a File (path relative to the model's directory), or
/// `source` is Hex or Splat and the bytes are here. dims are checked: no product overflows.
struct TensorHandle {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  Source source;
  int64_t elems() const;
  int64_t bytes() const { return elems() * byteSize(dtype); }
};

class OnnxFile {
public:
  /// Reads .onnxtext as ONNX text, everything else as a serialized ModelProto.
  static StatusOr<std::unique_ptr<OnnxFile>> read(const std::string &path, bool allowMissingData);

  onnx::ModelProto model;
  /// The serialized model as it is; empty if it was read from text.
  std::string_view bytes() const;

  std::string path;      // as given, for messages
  std::string directory; // base of relative Source paths
  std::string fileName;  // of the model inside directory

  /// Checks type, dimensions and location, not the values. A file that is missing or too short is told once, not for
  /// each of its tensors.
  StatusOr<TensorHandle> locate(const onnx::TensorProto &t);
  /// The tensor's bytes in the element type of the handle; files are mapped, not copied.
  StatusOr<std::string_view> data(const TensorHandle &t);

private:
  StatusOr<std::shared_ptr<MappedFile>> sideFile(const std::string &relative);
  Status locateExternal(const onnx::TensorProto &t, TensorHandle &h);
  bool allowMissing = false;
  std::set<std::string> reported; // files that are missing or too short
  std::shared_ptr<MappedFile> self;
  std::vector<std::pair<std::string, std::shared_ptr<MappedFile>>> files;
};

/// The external-data location that stands for the model file itself.
inline constexpr const char *kSelf = "\x01self";

/// Copies a serialized ModelProto without tensor bytes. False if `in` is not well-formed protobuf.
bool stripTensorData(std::string_view in, std::string &out);

/// "float16", "float8e4m3fn", "string": the ONNX name of an element type, for messages.
std::string onnxTypeName(int onnxType);
/// The core type of an ONNX element type, or an error that says what is supported.
StatusOr<DType> coreType(int onnxType);

/// Reads a TensorProto file (--bind, --feed).
StatusOr<Array> readTensorFile(const std::string &path);
/// A serialized TensorProto.
std::string tensorProto(const std::string &name, const Array &a);

} // namespace ds
