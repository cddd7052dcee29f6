// SPDX-License-Identifier: Apache-2.0
#include "runtime/Npy.h"

#include "runtime/Convert.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <optional>

namespace ds {

int64_t NpyHeader::elems() const {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

namespace {

// The header is a Python dict literal with three known keys; this reads just that.
class Dict {
public:
  explicit Dict(std::string_view text) : rest(text) {}

  Status parse(std::string &descr, bool &fortran, std::vector<int64_t> &dims) {
    bool haveDescr = false, haveOrder = false, haveShape = false;
    if (!take('{'))
      return wrong();
    while (!take('}')) {
      std::optional<std::string> key = quoted();
      if (!key || !take(':'))
        return wrong();
      if (*key == "descr") {
        std::optional<std::string> v = quoted();
        if (!v)
          return Status::error("structured element types are not supported, expected a plain one");
        descr = *v;
        haveDescr = true;
      } else if (*key == "fortran_order") {
        fortran = word("True");
        if (!fortran && !word("False"))
          return wrong();
        haveOrder = true;
      } else if (*key == "shape") {
        if (!tuple(dims))
          return wrong();
        haveShape = true;
      } else {
        return wrong();
      }
      take(',');
    }
    return haveDescr && haveOrder && haveShape ? Status() : wrong();
  }

private:
  static Status wrong() {
    return Status::error("the .npy header is not a dict of descr, fortran_order and shape");
  }
  void blanks() {
    while (!rest.empty() && (rest[0] == ' ' || rest[0] == '\n'))
      rest.remove_prefix(1);
  }
  bool take(char c) {
    blanks();
    if (rest.empty() || rest[0] != c)
      return false;
    rest.remove_prefix(1);
    return true;
  }
  bool word(std::string_view w) {
    blanks();
    if (!rest.starts_with(w))
      return false;
    rest.remove_prefix(w.size());
    return true;
  }
  std::optional<std::string> quoted() {
    blanks();
    if (rest.empty() || (rest[0] != '\'' && rest[0] != '"'))
      return std::nullopt;
    size_t end = rest.find(rest[0], 1);
    if (end == std::string_view::npos)
      return std::nullopt;
    std::string out(rest.substr(1, end - 1));
    rest.remove_prefix(end + 1);
    return out;
  }
  bool tuple(std::vector<int64_t> &dims) {
    if (!take('('))
      return false;
    while (!take(')')) {
      blanks();
      int64_t v = 0;
      size_t digits = 0;
      for (; digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9'; ++digits)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, rest[digits] - '0', &v))
          return false;
      if (digits == 0)
        return false;
      rest.remove_prefix(digits);
      dims.push_back(v);
      take(',');
    }
    return dims.size() <= 16;
  }

  std::string_view rest;
};

constexpr std::pair<std::string_view, DType> kNames[] = {
    {"f8", DType::F64}, {"f4", DType::F32}, {"f2", DType::F16}, {"i8", DType::I64},
    {"i4", DType::I32}, {"i2", DType::I16}, {"i1", DType::I8},  {"u8", DType::U64},
    {"u4", DType::U32}, {"u2", DType::U16}, {"u1", DType::U8},  {"b1", DType::Bool}};

std::optional<DType> dtypeOf(std::string_view descr) {
  if (descr.size() != 3 || descr[0] == '>')
    return std::nullopt;
  for (auto &[name, t] : kNames)
    if (descr.substr(1) == name)
      return t;
  return std::nullopt;
}

} // namespace

static StatusOr<NpyHeader> parseHeader(const File &file) {
  unsigned char start[12] = {};
  if (file.size() < 10)
    return Status::error(fmt::format("{} bytes are too short for a .npy file", file.size()));
  TRY(file.read(start, std::min<int64_t>(12, file.size()), 0));
  if (std::memcmp(start, "\x93NUMPY", 6) != 0)
    return Status::error("not a .npy file: the magic number is missing");
  int version = start[6];
  if (version < 1 || version > 3)
    return Status::error(fmt::format("version {} of the .npy format, expected 1, 2 or 3", version));
  int64_t length = start[8] | (start[9] << 8), begin = 10;
  if (version > 1) {
    length |= (int64_t(start[10]) << 16) | (int64_t(start[11]) << 24);
    begin = 12;
  }
  if (begin + length > file.size())
    return Status::error(
        fmt::format("the .npy header has {} bytes, the file has {}", begin + length, file.size()));
  std::string text(static_cast<size_t>(length), '\0');
  TRY(file.read(text.data(), length, begin));

  NpyHeader h;
  std::string descr;
  bool fortran = false;
  TRY(Dict(text).parse(descr, fortran, h.dims));
  std::optional<DType> t = dtypeOf(descr);
  if (!t)
    return Status::error(
        fmt::format("element type '{}' is not supported, expected a little-endian number", descr));
  if (fortran)
    return Status::error("the array is in Fortran order, expected C order");
  h.dtype = *t;
  h.dataOffset = begin + length;
  int64_t bytes = byteSize(*t);
  for (int64_t d : h.dims)
    if (__builtin_mul_overflow(bytes, d, &bytes))
      return Status::error("the array's size overflows");
  if (bytes > file.size() - h.dataOffset)
    return Status::error(fmt::format("the array needs {} bytes, the file has {} after its header",
                                     bytes, file.size() - h.dataOffset));
  return h;
}

StatusOr<NpyHeader> readNpyHeader(const File &file) {
  StatusOr<NpyHeader> h = parseHeader(file);
  if (!h.ok())
    return std::move(h).status().at(file.path());
  return h;
}

StatusOr<Array> readNpy(const std::string &path) {
  TRY_ASSIGN(File file, File::openRead(path));
  TRY_ASSIGN(NpyHeader h, readNpyHeader(file));
  Array a{h.dtype, h.dims, std::string(static_cast<size_t>(h.elems() * byteSize(h.dtype)), '\0')};
  TRY(file.read(a.bytes.data(), static_cast<int64_t>(a.bytes.size()), h.dataOffset));
  return a;
}

Status writeNpy(const std::string &path, const Array &a) {
  if (a.dtype == DType::BF16) {
    Array wide{DType::F32, a.dims, std::string(a.bytes.size() * 2, '\0')};
    convert(wide.dtype, wide.bytes.data(), a.dtype, a.bytes.data(), a.elems());
    return writeNpy(path, wide);
  }
  std::string shape;
  for (int64_t d : a.dims)
    shape += std::to_string(d) + ", ";
  std::string_view descr;
  for (auto &[name, t] : kNames)
    if (t == a.dtype)
      descr = name;
  std::string dict = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': ({}), }}",
                                 byteSize(a.dtype) > 1 ? '<' : '|', descr, shape);
  // The data starts at a multiple of 64.
  size_t length = (10 + dict.size() + 1 + 63) / 64 * 64 - 10;
  dict.resize(length - 1, ' ');
  std::string head = "\x93NUMPY\x01";
  head += '\0';
  head += static_cast<char>(length & 0xff);
  head += static_cast<char>(length >> 8);
  head += dict + "\n";
  TRY_ASSIGN(File file, File::create(path));
  TRY(file.write(head.data(), static_cast<int64_t>(head.size()), 0));
  TRY(file.write(a.bytes.data(), static_cast<int64_t>(a.bytes.size()),
                 static_cast<int64_t>(head.size())));
  return file.close();
}

} // namespace ds
