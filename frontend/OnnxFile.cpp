// SPDX-License-Identifier: Apache-2.0
//
// Reading a model file and finding the bytes of its tensors. Files are untrusted: every size, offset and
// name is checked here, so that later steps may trust a TensorHandle.
#include "frontend/OnnxFile.h"

#include "ir/SourceText.h"

#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace ds {
namespace fs = std::filesystem;

StatusOr<std::shared_ptr<MappedFile>> MappedFile::open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return Status::error(std::string("cannot open: ") + std::strerror(errno)).at(path);
  struct stat st {};
  if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
    close(fd);
    return Status::error("not a regular file").at(path);
  }
  std::shared_ptr<MappedFile> f(new MappedFile);
  f->size = static_cast<size_t>(st.st_size);
  if (f->size) {
    void *p = mmap(nullptr, f->size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED) {
      close(fd);
      return Status::error(std::string("cannot map: ") + std::strerror(errno)).at(path);
    }
    f->data = static_cast<const char *>(p);
  }
  close(fd);
  return f;
}

MappedFile::~MappedFile() {
  if (data)
    munmap(const_cast<char *>(data), size);
}

int64_t TensorHandle::elems() const {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

std::string onnxTypeName(int onnxType) {
  static const char *const kNames[] = {
      "undefined",      "float",    "uint8",        "int8",           "uint16",
      "int16",          "int32",    "int64",        "string",         "bool",
      "float16",        "double",   "uint32",       "uint64",         "complex64",
      "complex128",     "bfloat16", "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4",    "int4",         "float4e2m1",     "float8e8m0"};
  if (onnxType >= 0 && onnxType < static_cast<int>(std::size(kNames)))
    return kNames[onnxType];
  return "type " + std::to_string(onnxType);
}

StatusOr<DType> coreType(int onnxType) {
  std::optional<DType> t = dtypeFromOnnx(onnxType);
  if (t && *t != DType::F16 && *t != DType::BF16)
    return *t;
  return Status::error(
      "element type " + onnxTypeName(onnxType) +
      " is not supported; supported are float, double, bool and the integers of 8 to "
      "64 bits (export the model in float32)");
}

// ---- reading --------------------------------------------------------------------------------------

Status parseOnnxText(std::string_view text, const std::string &path, onnx::ModelProto &model);

static bool hasSuffix(std::string_view s, std::string_view suffix) {
  return s.size() >= suffix.size() && s.substr(s.size() - suffix.size()) == suffix;
}

// What a file that is no ONNX model probably is.
static std::string looksLike(std::string_view b) {
  auto starts = [&](std::string_view magic) { return b.substr(0, magic.size()) == magic; };
  if (b.empty())
    return "the file is empty";
  if (starts("PK\x03\x04"))
    return "the file is a zip archive (a PyTorch checkpoint?)";
  if (starts("version https://git-lfs"))
    return "the file is a Git LFS pointer; fetch the real file with `git lfs pull`";
  if (starts("\x89HDF"))
    return "the file is HDF5";
  if (starts("module @"))
    return "the file is .dsir text";
  if (starts("schedule @"))
    return "the file is a .dsched schedule";
  if (starts("{") || starts("<"))
    return "the file is text (ONNX text must be named .onnxtext)";
  return "";
}

static Status parseBinary(std::string_view bytes, const std::string &path,
                          onnx::ModelProto &model) {
  std::string hint = looksLike(bytes);
  if (!hint.empty())
    return Status::error("not an ONNX model: " + hint).at(path);
  std::string small;
  if (!stripTensorData(bytes, small))
    return Status::error("not an ONNX model, or truncated: the " + std::to_string(bytes.size()) +
                         " bytes do not end where the protobuf fields say")
        .at(path);
  if (small.size() > (size_t(1) << 31) - 1)
    return Status::error("the graph without its tensors is " + std::to_string(small.size()) +
                         " bytes, more than protobuf's limit of 2 GiB")
        .at(path);
  if (!model.ParseFromString(small))
    return Status::error("not an ONNX model: the protobuf does not have ModelProto's fields")
        .at(path);
  return {};
}

static std::string directoryOf(const std::string &path) {
  std::string d = fs::path(path).parent_path().string();
  return d.empty() ? "." : d;
}

StatusOr<std::unique_ptr<OnnxFile>> OnnxFile::read(const std::string &path, bool allowMissingData) {
  auto f = std::make_unique<OnnxFile>();
  f->path = path;
  f->allowMissing = allowMissingData;
  f->directory = directoryOf(path);
  f->fileName = fs::path(path).filename().string();
  std::error_code ec;
  if (fs::is_directory(path, ec))
    return Status::error("is a directory; name the .onnx file in it").at(path);
  TRY_ASSIGN(f->self, MappedFile::open(path));
  if (hasSuffix(path, ".onnxtext"))
    TRY(parseOnnxText(f->self->bytes(), path, f->model));
  else
    TRY(parseBinary(f->self->bytes(), path, f->model));
  // A linked model: its side files lie next to the link, or else next to the file that it names.
  if (fs::is_symlink(path, ec)) {
    fs::path real = fs::canonical(path, ec);
    for (const onnx::TensorProto &t : f->model.graph().initializer())
      for (const auto &e : t.external_data())
        if (!ec && e.key() == "location" && e.value() != kSelf &&
            !fs::exists(fs::path(f->directory) / e.value()) &&
            fs::exists(real.parent_path() / e.value())) {
          f->directory = real.parent_path().string();
          f->fileName = real.filename().string();
          return f;
        }
  }
  return f;
}

std::string_view OnnxFile::bytes() const {
  return hasSuffix(path, ".onnxtext") ? std::string_view() : self->bytes();
}

// ---- tensors --------------------------------------------------------------------------------------

// A plain relative path that cannot leave its folder, or "".
static std::string insidePath(const std::string &location) {
  fs::path p(location);
  if (location.empty() || p.is_absolute() || location.find('\\') != std::string::npos ||
      location.find('\0') != std::string::npos)
    return "";
  fs::path n = p.lexically_normal();
  if (n.empty() || *n.begin() == ".." || n == "." || hasSuffix(n.string(), "/"))
    return "";
  return n.string();
}

StatusOr<std::shared_ptr<MappedFile>> OnnxFile::sideFile(const std::string &relative) {
  for (auto &[name, file] : files)
    if (name == relative)
      return file;
  TRY_ASSIGN(auto file, MappedFile::open((fs::path(directory) / relative).string()));
  files.emplace_back(relative, file);
  return file;
}

static bool parseNumber(const std::string &s, int64_t &v) {
  if (s.empty() || s.size() > 18 || s.find_first_not_of("0123456789") != std::string::npos)
    return false;
  v = std::stoll(s);
  return true;
}

Status OnnxFile::locateExternal(const onnx::TensorProto &t, TensorHandle &h) {
  std::string location, field;
  int64_t offset = 0, length = -1;
  for (const auto &e : t.external_data()) {
    bool ok = true;
    if (e.key() == "location")
      location = e.value();
    else if (e.key() == "offset")
      ok = parseNumber(e.value(), offset);
    else if (e.key() == "length")
      ok = parseNumber(e.value(), length);
    else if (e.key() == "field")
      field = e.value();
    if (!ok)
      return Status::error("tensor " + t.name() + ": " + e.key() + " of its external data is '" +
                           e.value() + "', expected a number");
  }
  bool own = location == kSelf;
  h.source.kind = Source::Kind::File;
  h.source.stored = h.dtype;
  h.source.offset = offset;
  h.source.path = own ? fileName : insidePath(location);
  if (h.source.path.empty())
    return Status::error("tensor " + t.name() + ": external data location '" + location +
                         "' does not stay inside the model's folder");
  if (own && ((field == "4" && h.dtype != DType::F32) || (field == "10" && h.dtype != DType::F64)))
    return Status::error("tensor " + t.name() + ": its data field does not fit its element type");
  int64_t want = h.bytes();
  if (length >= 0 && length != want)
    return Status::error("tensor " + t.name() + ": " + std::string(text(h.dtype)) +
                         dimsText(h.dims) + " needs " + std::to_string(want) +
                         " bytes, the model gives " + std::to_string(length));
  if (want == 0)
    return {};
  int64_t size = static_cast<int64_t>(self->bytes().size());
  if (!own) {
    StatusOr<std::shared_ptr<MappedFile>> file = sideFile(h.source.path);
    if (!file.ok()) {
      if (allowMissing || !reported.insert(h.source.path).second)
        return {};
      return Status::error("tensor " + t.name() + ": data file " +
                           (fs::path(directory) / h.source.path).string() + ": " +
                           file.status().entries().front().text)
          .note("the file that the exporter wrote next to the model must stay next to it");
    }
    size = static_cast<int64_t>((*file)->bytes().size());
  }
  if (offset > size || want > size - offset) {
    if (!own && (allowMissing || !reported.insert(h.source.path).second))
      return {};
    return Status::error("tensor " + t.name() + ": needs bytes " + std::to_string(offset) + " to " +
                         std::to_string(offset + want) + " of " + h.source.path + ", which has " +
                         std::to_string(size));
  }
  return {};
}

template <typename T> static void put(std::string &out, T v) {
  out.append(reinterpret_cast<const char *>(&v), sizeof v);
}

// Values in the typed fields, as bytes of the element type.
static std::string typedBytes(const onnx::TensorProto &t, DType d) {
  std::string out;
  for (float v : t.float_data())
    put(out, v);
  for (double v : t.double_data())
    put(out, v);
  auto ints = [&](int64_t v) {
    switch (byteSize(d)) {
    case 1:
      put(out, static_cast<uint8_t>(v));
      break;
    case 2:
      put(out, static_cast<uint16_t>(v));
      break;
    case 4:
      put(out, static_cast<uint32_t>(v));
      break;
    default:
      put(out, v);
    }
  };
  for (int32_t v : t.int32_data())
    ints(v);
  for (int64_t v : t.int64_data())
    ints(v);
  for (uint64_t v : t.uint64_data())
    ints(static_cast<int64_t>(v));
  return out;
}

StatusOr<TensorHandle> OnnxFile::locate(const onnx::TensorProto &t) {
  TensorHandle h;
  h.name = t.name();
  StatusOr<DType> d = coreType(t.data_type());
  if (!d.ok())
    return Status::error("tensor " + t.name() + ": " + d.status().entries().front().text);
  h.dtype = *d;
  h.dims.assign(t.dims().begin(), t.dims().end());
  if (h.dims.size() > kMaxRank || !checkedProduct(h.dims, 8))
    return Status::error("tensor " + t.name() + ": shape " + dimsText(h.dims) +
                         " is negative or too large");
  if (t.has_segment())
    return Status::error("tensor " + t.name() + ": segmented tensors are not supported");
  if (t.data_location() == onnx::TensorProto::EXTERNAL) {
    TRY(locateExternal(t, h));
    return h;
  }
  h.source.kind = Source::Kind::Hex;
  h.source.stored = h.dtype;
  h.source.bytes = t.raw_data().empty() ? typedBytes(t, h.dtype) : t.raw_data();
  if (static_cast<int64_t>(h.source.bytes.size()) != h.bytes())
    return Status::error("tensor " + t.name() + ": " + std::string(text(h.dtype)) +
                         dimsText(h.dims) + " needs " + std::to_string(h.bytes()) +
                         " bytes, the model gives " + std::to_string(h.source.bytes.size()));
  return h;
}

StatusOr<std::string_view> OnnxFile::data(const TensorHandle &t) {
  if (t.source.kind == Source::Kind::Hex)
    return std::string_view(t.source.bytes);
  if (t.bytes() == 0)
    return std::string_view();
  std::shared_ptr<MappedFile> file = self;
  if (t.source.path != fileName) {
    TRY_ASSIGN(file, sideFile(t.source.path));
  }
  std::string_view b = file->bytes();
  if (static_cast<size_t>(t.source.offset) > b.size() ||
      static_cast<size_t>(t.bytes()) > b.size() - t.source.offset)
    return Status::error("tensor " + t.name + ": its data file is too short to fold it");
  return b.substr(t.source.offset, t.bytes());
}

StatusOr<Array> readTensorFile(const std::string &path) {
  TRY_ASSIGN(auto file, MappedFile::open(path));
  onnx::TensorProto t;
  std::string_view b = file->bytes();
  if (b.size() > (size_t(1) << 31) - 1 || !t.ParseFromArray(b.data(), static_cast<int>(b.size())))
    return Status::error("not a serialized TensorProto").at(path);
  if (t.data_location() == onnx::TensorProto::EXTERNAL)
    return Status::error("its data lies in another file, expected it inside").at(path);
  OnnxFile none;
  // A SequenceProto or OptionalProto parses as a TensorProto with a segment, or with its name as dimensions.
  if (t.has_segment())
    return Status::error("not a plain tensor: a sequence, an optional value, or a segment")
        .at(path);
  StatusOr<TensorHandle> h = none.locate(t);
  if (!h.ok())
    return std::move(h)
        .status()
        .note("expected a serialized TensorProto; a sequence or an optional value is none")
        .at(path);
  return Array{h->dtype, std::move(h->dims), std::move(h->source.bytes)};
}

std::string tensorProto(const std::string &name, const Array &a) {
  onnx::TensorProto t;
  t.set_name(name);
  t.set_data_type(onnxEnum(a.dtype));
  for (int64_t d : a.dims)
    t.add_dims(d);
  t.set_raw_data(a.bytes);
  return t.SerializeAsString();
}

} // namespace ds
