// SPDX-License-Identifier: Apache-2.0
//
// Serialized ONNX models, through the whole importer.
#include "test/fuzz/ImportCheck.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ds::fuzz::InputFile file("f.onnx");
  file.fill(ds::fuzz::textOf(data, size));
  ds::fuzz::checkImport(file.path());
  return 0;
}
