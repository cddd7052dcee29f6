// SPDX-License-Identifier: Apache-2.0
#include "tools/SaveOnnx.h"

#include "ir/Json.h"
#include "ir/Type.h"
#include "runtime/Convert.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

namespace ds {

int64_t OnnxSaver::Slot::bytes() const { return Type(dtype, dims).bytes(); }

Status OnnxSaver::addSlot(const ModelTensor &t, const ImportReport &report) {
  auto use = std::find_if(report.uses.begin(), report.uses.end(),
                          [&](const ParamUse &u) { return !t.name.empty() && u.tensor == t.name; });
  if (use == report.uses.end() && !t.external) {
    at.push_back(std::nullopt);
    return {};
  }
  Slot s;
  if (use != report.uses.end()) {
    TRY_ASSIGN(s.dtype, coreType(t.proto.data_type()));
    s.dims.assign(t.proto.dims().begin(), t.proto.dims().end());
    s.param = use->param;
    s.transposed = use->transposed;
  } else {
    TRY_ASSIGN(s.copied, file->locate(t.proto));
    TRY(file->data(s.copied).status());
    s.dtype = s.copied.dtype;
    s.dims = s.copied.dims;
  }
  std::string base = !t.name.empty() ? t.name : t.proto.name().empty() ? "tensor" : t.proto.name();
  s.key = base;
  auto taken = [&](const std::string &key) {
    return key == "__metadata__" ||
           std::any_of(slots.begin(), slots.end(), [&](const Slot &o) { return o.key == key; });
  };
  for (int n = 2; taken(s.key); ++n)
    s.key = base + "." + std::to_string(n);
  at.push_back(slots.size());
  slots.push_back(std::move(s));
  return {};
}

StatusOr<OnnxSaver> OnnxSaver::prepare(const std::string &model, const ImportReport &report,
                                       const std::string &out) {
  OnnxSaver s;
  s.path = out;
  s.stem = out.substr(0, out.rfind('.'));
  if (!report.separated.empty()) {
    std::string names;
    for (const std::string &n : report.separated)
      names += (names.empty() ? "" : ", ") + n;
    return Status::error("--save-model " + out +
                         ": the exporter had merged parameters that are "
                         "trained apart here (" +
                         names + "), and the model has one tensor for them")
        .note("train them as one with --tie-policy keep, or write a .safetensors file");
  }
  TRY_ASSIGN(std::unique_ptr<OnnxFile> file, OnnxFile::read(model, /*allowMissingData=*/false));
  s.file = std::move(file);
  if (s.file->bytes().empty())
    s.model = s.file->model.SerializeAsString();
  Status all;
  std::set<std::string> seen;
  auto add = [&](const ModelTensor &t) -> std::optional<TensorPlace> {
    seen.insert(t.name);
    all.merge(s.addSlot(t, report));
    return std::nullopt;
  };
  StatusOr<std::string> whole = rewriteTensors(s.model.empty() ? s.file->bytes() : s.model, add);
  if (!whole.ok())
    return std::move(whole).status().at(model);
  for (const ParamUse &u : report.uses)
    if (!seen.count(u.tensor))
      all.merge(Status::error("--save-model " + out + ": the parameter " + u.tensor +
                              " is made inside of a function of the model, where it cannot be "
                              "replaced; write a .safetensors file"));
  TRY(std::move(all).at(model));
  return s;
}

StatusOr<std::string> OnnxSaver::bytesOf(const Slot &s, const File &params,
                                         const SafetensorsHeader &header) const {
  if (s.param.empty()) {
    TRY_ASSIGN(std::string_view data, file->data(s.copied));
    return std::string(data);
  }
  auto it = header.tensors.find(s.param);
  if (it == header.tensors.end())
    return Status::internal("the parameter " + s.param + " was not saved");
  const SafetensorsEntry &e = it->second;
  std::string raw(static_cast<size_t>(e.elems() * byteSize(e.dtype)), '\0');
  TRY(params.read(raw.data(), static_cast<int64_t>(raw.size()), e.offset));
  std::string out(static_cast<size_t>(s.bytes()), '\0');
  convert(s.dtype, out.data(), e.dtype, raw.data(), e.elems());
  if (!s.transposed)
    return out;
  std::string turned(out.size(), '\0');
  auto size = static_cast<size_t>(byteSize(s.dtype));
  auto rows = static_cast<size_t>(s.dims[0]), columns = static_cast<size_t>(s.dims[1]);
  for (size_t r = 0; r < rows; ++r)
    for (size_t c = 0; c < columns; ++c)
      std::memcpy(&turned[(r * columns + c) * size], &out[(c * rows + r) * size], size);
  return turned;
}

Status OnnxSaver::writeTensors(const std::string &to, int64_t &dataStart) const {
  TRY_ASSIGN(File params, File::openRead(paramsPath()));
  TRY_ASSIGN(SafetensorsHeader header, SafetensorsHeader::read(params));
  std::vector<SafetensorsItem> items;
  for (const Slot &s : slots)
    items.push_back({s.key, s.dtype, s.dims});
  std::string head = safetensorsHead(items);
  dataStart = static_cast<int64_t>(head.size());
  TRY_ASSIGN(File out, File::create(to));
  TRY(out.write(head.data(), dataStart, 0));
  int64_t offset = dataStart;
  for (const Slot &s : slots) {
    TRY_ASSIGN(std::string bytes, bytesOf(s, params, header));
    TRY(out.write(bytes.data(), static_cast<int64_t>(bytes.size()), offset));
    offset += static_cast<int64_t>(bytes.size());
  }
  TRY(out.sync());
  return out.close();
}

static Status writeFile(const std::string &path, std::string_view bytes) {
  TRY_ASSIGN(File out, File::create(path));
  TRY(out.write(bytes.data(), static_cast<int64_t>(bytes.size()), 0));
  TRY(out.sync());
  return out.close();
}

Status OnnxSaver::write() const {
  std::string data = safetensorsPath(), location = std::filesystem::path(data).filename().string();
  int64_t start = 0;
  Status s = writeTensors(data + ".tmp", start);
  removeFile(paramsPath());
  if (s.ok()) {
    std::vector<int64_t> offsets;
    for (const Slot &slot : slots) {
      offsets.push_back(start);
      start += slot.bytes();
    }
    size_t n = 0;
    auto text = rewriteTensors(model.empty() ? file->bytes() : model,
                               [&](const ModelTensor &) -> std::optional<TensorPlace> {
                                 std::optional<size_t> slot = at[n++];
                                 if (!slot)
                                   return std::nullopt;
                                 return TensorPlace{location, offsets[*slot], slots[*slot].bytes()};
                               });
    s = text.ok() ? writeFile(path + ".tmp", *text) : std::move(text).status();
  }
  // The data first: a model that is there has its weights.
  if (s.ok())
    s = renameFile(data + ".tmp", data);
  if (s.ok())
    s = renameFile(path + ".tmp", path);
  if (!s.ok())
    for (const std::string &f : {data, path})
      removeFile(f + ".tmp");
  return s;
}

} // namespace ds
