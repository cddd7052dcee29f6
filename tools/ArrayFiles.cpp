// SPDX-License-Identifier: Apache-2.0
#include "tools/ArrayFiles.h"

#include "frontend/OnnxFile.h"
#include "runtime/Npy.h"

#include <cctype>
#include <filesystem>

namespace ds {

namespace fs = std::filesystem;

StatusOr<std::map<std::string, ArrayFile>> readArrays(const std::string &folder) {
  std::error_code e;
  std::map<std::string, ArrayFile> found;
  Status all;
  fs::directory_iterator files(folder, e);
  if (e)
    return Status::error("cannot read the folder: " + e.message()).at(folder);
  for (const fs::directory_entry &f : files) {
    std::string ending = f.path().extension().string(), name = f.path().stem().string();
    if (ending != ".npy" && ending != ".pb")
      continue;
    std::string path = f.path().string();
    StatusOr<Array> a = ending == ".npy" ? readNpy(path) : readTensorFile(path);
    if (!a.ok())
      all.merge(std::move(a).status());
    else if (auto [it, fresh] = found.try_emplace(name, ArrayFile{path, {}}); fresh)
      it->second.array = std::move(a).take();
    else
      all.merge(Status::error("there are " + name + ".npy and " + name +
                              ".pb; expected one file "
                              "for each array")
                    .at(folder));
  }
  TRY(std::move(all));
  return found;
}

Status makeFolder(const std::string &folder) {
  std::error_code e;
  fs::create_directories(folder, e);
  if (e || !fs::is_directory(folder, e))
    return Status::error("cannot make the folder" + (e ? ": " + e.message() : "")).at(folder);
  return {};
}

std::string fileName(const std::string &name) {
  std::string out;
  for (char c : name)
    out +=
        std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' ? c : '_';
  if (out.empty() || out[0] == '.')
    out.insert(out.begin(), '_');
  return out;
}

Status writeArray(const std::string &folder, const std::string &name, const Array &a,
                  bool asProto) {
  std::string path = (fs::path(folder) / fileName(name)).string();
  if (!asProto)
    return writeNpy(path + ".npy", a);
  std::string bytes = tensorProto(name, a);
  TRY_ASSIGN(File file, File::create(path + ".pb"));
  TRY(file.write(bytes.data(), static_cast<int64_t>(bytes.size()), 0));
  return file.close();
}

} // namespace ds
