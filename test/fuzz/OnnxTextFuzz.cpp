// SPDX-License-Identifier: Apache-2.0
//
// ONNX text. Mutated text is a model far more often than mutated protobuf is, so this target reaches the
// converters and evaluators best.
#include "test/fuzz/ImportCheck.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ds::fuzz::InputFile file("f.onnxtext");
  file.fill(ds::fuzz::textOf(data, size));
  ds::fuzz::checkImport(file.path());
  return 0;
}
