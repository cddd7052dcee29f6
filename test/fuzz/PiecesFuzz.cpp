// SPDX-License-Identifier: Apache-2.0
//
// The safetensors files of checkpoints: every entry that is listed can be read, or its checksum is wrong.
#include "runtime/PieceFile.h"
#include "test/fuzz/Fuzz.h"

using namespace ds;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::InputFile file("f.safetensors");
  file.fill(fuzz::textOf(data, size));
  StatusOr<PieceFile> f = PieceFile::open(file.path());
  if (!f.ok())
    return 0;
  for (const auto &[key, entry] : f->entries()) {
    DType t;
    StatusOr<std::vector<std::byte>> bytes =
        f->read(key, entry.begin, entry.begin + entry.elems, &t);
    if (bytes.ok())
      fuzz::require(t == entry.dtype &&
                        static_cast<int64_t>(bytes->size()) == entry.elems * byteSize(t),
                    "an entry has the bytes of its type");
    else
      fuzz::require(bytes.status().str().find("checksum") != std::string::npos,
                    "only a checksum may be wrong", bytes.status().str());
  }
  return 0;
}
