// SPDX-License-Identifier: Apache-2.0
//
// TensorProto files, as --bind reads them: the bytes of what is accepted are those of its type.
#include "frontend/OnnxFile.h"
#include "test/fuzz/Fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const ds::fuzz::InputFile file("f.pb");
  file.fill(ds::fuzz::textOf(data, size));
  auto t = ds::readTensorFile(file.path());
  if (t.ok())
    ds::fuzz::require(static_cast<int64_t>(t->bytes.size()) == t->elems() * byteSize(t->dtype),
                      "the tensor has the bytes of its type");
  return 0;
}
