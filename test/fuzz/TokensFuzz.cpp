// SPDX-License-Identifier: Apache-2.0
//
// Token files, as 16 and as 32 bits, with and without a bound: whatever opens can be read to its last sample,
// and a token outside the bound never comes out.
#include "runtime/Data.h"
#include "test/fuzz/Fuzz.h"

#include <vector>

using namespace ds;

static std::vector<DataInput> inputs(int64_t length, int64_t bound) {
  DataInput ids, labels;
  ids.name = "ids";
  labels.name = "labels";
  labels.label = true;
  for (DataInput *in : {&ids, &labels}) {
    in->dtype = DType::I64;
    in->row = {length};
    in->bound = bound;
  }
  return {ids, labels};
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::InputFile file("f.bin");
  file.fill(fuzz::textOf(data, size));
  for (const char *width : {"", ",uint16", ",uint32"})
    for (int64_t length : {1, 7})
      for (int64_t bound : {0, 1000}) {
        auto d = openData("tokens:" + file.path() + width, inputs(length, bound));
        if (!d.ok())
          continue;
        std::vector<int64_t> ids(static_cast<size_t>(length)), labels(ids);
        void *rows[] = {ids.data(), labels.data()};
        int64_t last = (*d)->samples() - 1;
        fuzz::require(last >= 0, "an open file has a sample");
        for (int64_t sample : {int64_t(0), last}) {
          bool ok = (*d)->read(sample, rows).ok();
          for (const auto *list : {&ids, &labels})
            for (int64_t v : *list)
              fuzz::require(!ok || (v >= 0 && (bound == 0 || v < bound)), "tokens are in range");
        }
      }
  return 0;
}
