// SPDX-License-Identifier: Apache-2.0
#include "runtime/Sources.h"

#include "ir/Philox.h"
#include "runtime/Convert.h"
#include "runtime/File.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <map>

namespace ds {

// convert, but a finite number stays finite: a mask of -3.4e38 is none of infinities in f16, where 0 * inf is NaN.
static void narrowTo(DType to, void *dst, DType from, const void *src, int64_t n) {
  convert(to, dst, from, src, n);
  if (!isFloat(from) || !isFloat(to) || byteSize(to) >= byteSize(from))
    return;
  for (int64_t i = 0; i < n; ++i)
    if (std::isinf(toDouble(to, dst, i)))
      if (double v = toDouble(from, src, i); std::isfinite(v)) {
        double most = std::copysign(largest(to), v);
        convert(to, static_cast<std::byte *>(dst) + i * byteSize(to), DType::F64, &most, 1);
      }
}

static Status readFile(const SourceTensor &t, const std::string &directory, int64_t begin,
                       int64_t n, void *dst) {
  TRY_ASSIGN(std::string path, pathInside(directory, t.source->path));
  TRY_ASSIGN(File file, File::openRead(path));
  DType stored = t.source->stored;
  int64_t size = byteSize(stored), at = t.source->offset + begin * size;
  if (stored == t.dtype)
    return file.read(dst, n * size, at);
  std::vector<std::byte> chunk(static_cast<size_t>(std::min<int64_t>(n, 1 << 16) * size));
  for (int64_t done = 0; done < n;) {
    int64_t now = std::min<int64_t>(n - done, 1 << 16);
    TRY(file.read(chunk.data(), now * size, at + done * size));
    narrowTo(t.dtype, static_cast<std::byte *>(dst) + done * byteSize(t.dtype), stored,
             chunk.data(), now);
    done += now;
  }
  return {};
}

static void fillNormal(const SourceTensor &t, int64_t begin, int64_t n, void *dst) {
  Philox random{t.source->seed};
  std::array<double, 4> block = {};
  for (int64_t i = 0; i < n; ++i) {
    auto element = static_cast<uint64_t>(begin + i);
    if (i == 0 || element % 4 == 0)
      block = random.normals(element / 4);
    double v = t.source->value * block[element % 4];
    convert(t.dtype, static_cast<std::byte *>(dst) + i * byteSize(t.dtype), DType::F64, &v, 1);
  }
}

Status readSource(const SourceTensor &t, const std::string &directory, int64_t begin, int64_t n,
                  void *dst) {
  int64_t size = byteSize(t.dtype);
  auto *out = static_cast<std::byte *>(dst);
  if (n == 0)
    return {};
  switch (t.source->kind) {
  case Source::Kind::Zeros:
    std::memset(dst, 0, static_cast<size_t>(n * size));
    return {};
  case Source::Kind::Splat:
    for (int64_t i = 0; i < n; ++i)
      narrowTo(t.dtype, out + i * size, DType::F64, &t.source->value, 1);
    return {};
  case Source::Kind::Normal:
    fillNormal(t, begin, n, dst);
    return {};
  case Source::Kind::Hex: {
    DType stored = t.source->stored;
    int64_t bytes = t.total * byteSize(stored);
    if (static_cast<int64_t>(t.source->bytes.size()) != bytes)
      return Status::error(fmt::format("{}: has {} bytes of contents, its type has {}", t.name,
                                       t.source->bytes.size(), bytes));
    narrowTo(t.dtype, dst, stored, t.source->bytes.data() + begin * byteSize(stored), n);
    return {};
  }
  case Source::Kind::File: {
    Status s = readFile(t, directory, begin, n, dst);
    return s.ok() ? std::move(s) : std::move(s).note(fmt::format("while loading {}", t.name));
  }
  }
  return Status::internal("unknown kind of source");
}

namespace {

// Checks sources one by one; a file that cannot be opened is reported once, not for each tensor in it.
class SourceCheck {
public:
  explicit SourceCheck(const std::string &directory) : directory(directory) {}

  void add(const SourceTensor &t) {
    if (t.source->kind != Source::Kind::File)
      return;
    auto [it, first] = files.try_emplace(t.source->path);
    Entry &e = it->second;
    if (first) {
      e.problem = open(t.source->path, e);
      e.wantedBy = t.name;
      order.push_back(&e);
    }
    ++e.tensors;
    int64_t bytes = t.total * byteSize(t.source->stored);
    if (e.problem.ok() && (t.source->offset < 0 || bytes < 0 || t.source->offset > e.size - bytes))
      tooShort.merge(Status::error(fmt::format("{}: wants {} bytes at {}, the file has {} bytes",
                                               t.name, bytes, t.source->offset, e.size))
                         .at(e.path));
  }

  Status finish() {
    Status all;
    for (Entry *e : order)
      if (!e->problem.ok()) {
        std::string more = e->tensors > 1 ? fmt::format(" and {} more", e->tensors - 1) : "";
        all.merge(std::move(e->problem).note(fmt::format("wanted by {}{}", e->wantedBy, more)));
      }
    all.merge(std::move(tooShort));
    return all;
  }

private:
  struct Entry {
    std::string path;
    int64_t size = 0;
    Status problem;
    std::string_view wantedBy;
    int64_t tensors = 0;
  };

  Status open(const std::string &name, Entry &e) const {
    TRY_ASSIGN(e.path, pathInside(directory, name));
    TRY_ASSIGN(File file, File::openRead(e.path));
    e.size = file.size();
    return {};
  }

  const std::string &directory;
  std::map<std::string, Entry> files;
  std::vector<Entry *> order; // by first use
  Status tooShort;
};

} // namespace

Status checkSources(const Schedule &s) {
  SourceCheck check(s.directory);
  for (const BucketInfo &b : s.buckets)
    for (const SegmentInfo &g : b.segments)
      check.add({g.param, &g.source, Type(b.dtype, g.shape).elems(), b.dtype});
  for (const InitInfo &i : s.inits) {
    const Buffer &b = s.persistent[static_cast<size_t>(i.buffer)];
    check.add({b.name, &i.source, b.type.elems(), b.type.dtype});
  }
  return check.finish();
}

} // namespace ds
