// SPDX-License-Identifier: Apache-2.0
//
// A stream of token ids. Sample i is T + 1 tokens from i*T: the first T are the input, the last T the labels.
// So the data supplies the shift by one between input and label, and the graph must not shift again.
#include "runtime/Convert.h"
#include "runtime/Data.h"
#include "runtime/File.h"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace ds {

namespace {

// Files up to this size are checked as a whole before the first step; larger ones as they are read.
constexpr int64_t kScanBytes = int64_t(256) << 20;

class Tokens final : public DataSource {
public:
  Tokens(File f, DType t, int64_t offset, int64_t count, std::vector<DataInput> in)
      : file(std::move(f)), stored(t), offset(offset), count(count), inputs(std::move(in)),
        length(inputs[0].row[0]) {
    raw.resize(static_cast<size_t>((length + 1) * byteSize(stored)));
  }

  int64_t samples() const override { return (count - 1) / length; }

  Status read(int64_t sample, void *const *rows) override {
    int64_t first = sample * length, size = byteSize(stored);
    TRY(file.read(raw.data(), (length + 1) * size, offset + first * size));
    for (size_t i = 0; i < inputs.size(); ++i) {
      int64_t shift = inputs[i].label ? 1 : 0;
      convert(inputs[i].dtype, rows[i], stored, raw.data() + shift * size, length);
      TRY(checkBound(inputs[i], rows[i], file.path(), first + shift));
    }
    return {};
  }

  Status scan() const {
    int64_t bound = 0;
    for (const DataInput &in : inputs)
      if (in.bound != 0)
        bound = bound == 0 ? in.bound : std::min(bound, in.bound);
    int64_t size = byteSize(stored), step = 1 << 16;
    if (bound == 0 || count * size > kScanBytes)
      return {};
    std::vector<std::byte> chunk(static_cast<size_t>(step * size));
    for (int64_t at = 0; at < count; at += step) {
      int64_t n = std::min(step, count - at);
      TRY(file.read(chunk.data(), n * size, offset + at * size));
      for (int64_t i = 0; i < n; ++i)
        if (int64_t v = toInt(stored, chunk.data(), i); v >= bound)
          return Status::error(fmt::format("{}: token {} is {}, expected a value in [0, {})",
                                           inputs[0].name, at + i, v, bound))
              .at(file.path());
    }
    return {};
  }

private:
  File file;
  DType stored;
  int64_t offset, count;
  std::vector<DataInput> inputs;
  int64_t length;
  std::vector<std::byte> raw;
};

// Headers that llm.c puts before its tokens: 256 int32, magic number, version, count.
struct Header {
  int32_t magic, version;
  DType dtype;
};
constexpr Header kHeaders[] = {{20240520, 1, DType::U16}, {20240801, 7, DType::U32}};
constexpr int64_t kHeaderBytes = 1024;

Status checkInputs(const std::vector<DataInput> &inputs) {
  int data = 0, labels = 0;
  for (const DataInput &in : inputs) {
    ++(in.label ? labels : data);
    if (!isInt(in.dtype) || in.row.size() != 1 || in.row[0] < 1)
      return Status::error(
          fmt::format("tokens fill integer inputs of shape [rows, length]; {} is {}", in.name,
                      Type(in.dtype, in.row).str()));
    if (in.row != inputs[0].row)
      return Status::error(fmt::format("{} has rows of {} tokens, {} of {}", inputs[0].name,
                                       inputs[0].row[0], in.name, in.row[0]));
  }
  if (data != 1 || labels > 1)
    return Status::error(fmt::format("tokens fill one input and at most one label, the plan has {} "
                                     "inputs and {} labels",
                                     data, labels))
        .note("bind the other inputs to constants with --const NAME=VALUE");
  // Exactly one shift by one between inputs and labels.
  for (const DataInput &in : inputs) {
    if (in.label && in.skip > 0)
      return Status::error(
                 fmt::format(
                     "labels are shifted twice: tokens come with {} shifted by one, and the "
                     "plan shifts it again",
                     in.name))
          .note("leave shift=1 out of --loss; for a model that shifts its labels itself, give them "
                "unshifted "
                "with npy:DIR");
    if (!in.label && in.counted && in.skip == 0)
      return Status::error(
                 fmt::format("labels are not shifted: {} is compared with itself", in.name))
          .note("add shift=1 to --loss, or compare with another input, labels=labels");
  }
  return {};
}

} // namespace

StatusOr<std::unique_ptr<DataSource>> openTokens(const std::string &arg,
                                                 std::vector<DataInput> inputs) {
  std::string path = arg;
  DType stored = DType::U16;
  if (size_t comma = arg.rfind(','); comma != std::string::npos) {
    std::string width = arg.substr(comma + 1);
    path = arg.substr(0, comma);
    if (width != "uint16" && width != "uint32")
      return Status::error(
          fmt::format("--data tokens:{}: '{}' is unknown, expected uint16 or uint32", arg, width));
    stored = width == "uint32" ? DType::U32 : DType::U16;
  }
  TRY(checkInputs(inputs).at("--data tokens:" + arg));
  TRY_ASSIGN(File file, File::openRead(path));

  int64_t offset = 0;
  if (file.size() >= kHeaderBytes) {
    int32_t head[3];
    TRY(file.read(head, sizeof head, 0));
    for (const Header &h : kHeaders)
      if (head[0] == h.magic && head[1] == h.version &&
          file.size() == kHeaderBytes + int64_t(head[2]) * byteSize(h.dtype)) {
        offset = kHeaderBytes;
        stored = h.dtype;
      }
  }
  int64_t bytes = file.size() - offset, size = byteSize(stored);
  if (bytes % size != 0)
    return Status::error(
               fmt::format("{} bytes are no whole number of {} tokens", bytes, text(stored)))
        .at(path);
  int64_t length = inputs[0].row[0];
  if (bytes / size < length + 1)
    return Status::error(
               fmt::format("has {} tokens, one sample needs {}", bytes / size, length + 1))
        .at(path);
  auto tokens =
      std::make_unique<Tokens>(std::move(file), stored, offset, bytes / size, std::move(inputs));
  TRY(tokens->scan());
  return std::unique_ptr<DataSource>(std::move(tokens));
}

} // namespace ds
