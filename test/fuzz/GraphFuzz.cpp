// SPDX-License-Identifier: Apache-2.0
//
// .dsir text: whatever parses prints to text that parses to the same print; the verifier stands anything that
// parses.
#include "ir/GraphText.h"
#include "test/fuzz/Fuzz.h"

using namespace ds;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto m = parseModule(fuzz::textOf(data, size), "f.dsir");
  if (!m.ok())
    return 0;
  (void)verifyModule(**m).ok();
  std::string printed = printModule(**m);
  auto again = parseModule(printed, "printed.dsir");
  fuzz::require(again.ok(), "the print parses", printed, again.ok() ? "" : again.status().str());
  std::string twice = printModule(**again);
  fuzz::require(twice == printed, "the print prints itself", printed, twice);
  return 0;
}
