// SPDX-License-Identifier: Apache-2.0
//
// OnnxSeeds FOLDER FILE.onnxtext...: writes each model as FOLDER/FILE.onnx, the small serialized models that
// OnnxFuzz starts from, and its initializers as FOLDER/tensors/FILE-N.pb for TensorFuzz.
#include "frontend/OnnxFile.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

namespace fs = std::filesystem;

static void write(const fs::path &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: OnnxSeeds FOLDER FILE.onnxtext...\n");
    return 1;
  }
  fs::path folder = argv[1], tensors = folder / "tensors";
  fs::create_directories(tensors);
  int written = 0;
  for (int i = 2; i < argc; ++i) {
    auto file = ds::OnnxFile::read(argv[i], true);
    if (!file.ok())
      continue; // the tests of errors hold text that is no model
    std::string stem = fs::path(argv[i]).stem().string();
    write(folder / (stem + ".onnx"), (*file)->model.SerializeAsString());
    int n = 0;
    for (const onnx::TensorProto &t : (*file)->model.graph().initializer())
      write(tensors / (stem + "-" + std::to_string(n++) + ".pb"), t.SerializeAsString());
    ++written;
  }
  std::printf("%d models\n", written);
  return written ? 0 : 1;
}
