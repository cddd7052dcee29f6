// SPDX-License-Identifier: Apache-2.0
//
// .npy files: what the header promises is in the file, and an array that fits the plan's input can be read to
// its last sample.
#include "runtime/Data.h"
#include "runtime/Npy.h"
#include "test/fuzz/Fuzz.h"

#include <vector>

using namespace ds;

// Reads all samples as an input of this type; rows are as long as the type says, no longer.
static void readAs(DType t, const std::vector<int64_t> &row, const std::string &directory) {
  DataInput in;
  in.name = "x";
  in.dtype = t;
  in.row = row;
  in.bound = isInt(t) ? 100 : 0;
  auto d = openData("npy:" + directory, {in});
  if (!d.ok())
    return;
  std::vector<std::byte> bytes(static_cast<size_t>(in.rowElems() * byteSize(t)));
  void *rows[] = {bytes.data()};
  int64_t last = (*d)->samples() - 1;
  for (int64_t sample : {int64_t(0), last / 2, last})
    (void)(*d)->read(sample, rows).ok();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const fuzz::InputFile file("x.npy");
  file.fill(fuzz::textOf(data, size));
  StatusOr<File> f = File::openRead(file.path());
  fuzz::require(f.ok(), "the input can be opened");
  StatusOr<NpyHeader> h = readNpyHeader(*f);
  if (!h.ok())
    return 0;
  fuzz::require(h->elems() >= 0 && h->dataOffset + h->elems() * byteSize(h->dtype) <= f->size(),
                "the array lies in the file");
  if (h->dims.empty())
    return 0;
  std::vector<int64_t> row(h->dims.begin() + 1, h->dims.end());
  for (DType t : {h->dtype, DType::I64, DType::F32})
    readAs(t, row, file.directory());
  return 0;
}
