// SPDX-License-Identifier: Apache-2.0
//
// A folder with one <input>.npy for each data input and label; the first axis counts samples. Integers may
// be stored narrower than the input; every other type must match.
#include "runtime/Convert.h"
#include "runtime/Data.h"
#include "runtime/Npy.h"

#include <algorithm>
#include <fmt/format.h>

namespace ds {

namespace {

struct Samples {
  DataInput input;
  File file;
  NpyHeader header;
};

class NpyData final : public DataSource {
public:
  explicit NpyData(std::vector<Samples> a) : arrays(std::move(a)) {
    size_t largest = 0;
    for (const Samples &x : arrays)
      largest = std::max(largest, static_cast<size_t>(rowBytes(x)));
    raw.resize(largest);
  }

  int64_t samples() const override { return arrays[0].header.dims[0]; }

  Status read(int64_t sample, void *const *rows) override {
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Samples &a = arrays[i];
      int64_t bytes = rowBytes(a), n = a.input.rowElems();
      TRY(a.file.read(raw.data(), bytes, a.header.dataOffset + sample * bytes));
      convert(a.input.dtype, rows[i], a.header.dtype, raw.data(), n);
      TRY(checkBound(a.input, rows[i], a.file.path(), sample * n));
    }
    return {};
  }

private:
  static int64_t rowBytes(const Samples &a) {
    return a.input.rowElems() * byteSize(a.header.dtype);
  }
  std::vector<Samples> arrays;
  std::vector<std::byte> raw;
};

StatusOr<Samples> openArray(const std::string &dir, const DataInput &in) {
  TRY_ASSIGN(File file, File::openRead(dir + "/" + in.name + ".npy"));
  TRY_ASSIGN(NpyHeader h, readNpyHeader(file));
  std::vector<int64_t> row(h.dims.begin() + (h.dims.empty() ? 0 : 1), h.dims.end());
  if (h.dims.empty() || row != in.row)
    return Status::error(fmt::format("{}: the array is {}, expected [samples] followed by {}",
                                     in.name, dimsText(h.dims), dimsText(in.row)))
        .at(file.path());
  bool widens = isInt(h.dtype) && isInt(in.dtype) && byteSize(h.dtype) < byteSize(in.dtype);
  if (h.dtype != in.dtype && !widens)
    return Status::error(fmt::format("{}: elements are {}, expected {}", in.name, text(h.dtype),
                                     text(in.dtype)))
        .at(file.path());
  if (h.dims[0] == 0)
    return Status::error(fmt::format("{}: the array has no samples", in.name)).at(file.path());
  return Samples{in, std::move(file), std::move(h)};
}

} // namespace

StatusOr<std::unique_ptr<DataSource>> openNpy(const std::string &dir,
                                              std::vector<DataInput> inputs) {
  Status all;
  std::vector<Samples> arrays;
  for (const DataInput &in : inputs) {
    StatusOr<Samples> a = openArray(dir.empty() ? "." : dir, in);
    if (a.ok())
      arrays.push_back(std::move(a).take());
    else
      all.merge(std::move(a).status());
  }
  TRY(std::move(all));
  if (arrays.empty())
    return Status::error("the plan has no data input");
  for (const Samples &a : arrays)
    if (a.header.dims[0] != arrays[0].header.dims[0])
      return Status::error(fmt::format("{} has {} samples, {} has {}", arrays[0].file.path(),
                                       arrays[0].header.dims[0], a.file.path(), a.header.dims[0]));
  return std::unique_ptr<DataSource>(std::make_unique<NpyData>(std::move(arrays)));
}

} // namespace ds
