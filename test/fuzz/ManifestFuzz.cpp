// SPDX-License-Identifier: Apache-2.0
//
// manifest.json of checkpoints: what is accepted covers its tensors and prints as itself.
#include "runtime/Manifest.h"
#include "test/fuzz/Fuzz.h"

using namespace ds;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StatusOr<Manifest> m = parseManifest(fuzz::textOf(data, size), "manifest.json");
  if (!m.ok())
    return 0;
  for (const CheckpointTensor &t : m->tensors) {
    int64_t end = 0;
    for (const CheckpointPiece &p : t.pieces) {
      fuzz::require(p.begin == end && p.end >= p.begin, "pieces follow each other");
      end = p.end;
    }
    fuzz::require(end == Type(t.dtype, t.shape).elems(), "pieces cover their tensor");
  }
  std::string printed = printManifest(*m);
  StatusOr<Manifest> again = parseManifest(printed, "printed.json");
  fuzz::require(again.ok(), "the print is a manifest", printed);
  fuzz::require(printManifest(*again) == printed, "the print reads back to itself", printed);
  return 0;
}
