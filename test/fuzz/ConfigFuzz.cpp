// SPDX-License-Identifier: Apache-2.0
//
// ds_config.json: what is accepted prints as a config that reads back to the same values, as for dsplan (which
// assumes what is missing) and for dsexec.
#include "frontend/ConfigFile.h"
#include "test/fuzz/Fuzz.h"

using namespace ds;

static std::string valuesOf(PlanConfig c) {
  c.source.clear(); // places differ
  c.assumptions.clear();
  c.noEffect.clear();
  return printConfig(c);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  for (bool assume : {true, false}) {
    ConfigOverrides flags;
    flags.assume = assume;
    flags.allowUnknown = {"extra"};
    StatusOr<PlanConfig> c = parseConfig(fuzz::textOf(data, size), "f.json", flags);
    if (!c.ok())
      continue;
    std::string printed = printConfig(*c);
    StatusOr<PlanConfig> again = parseConfig(printed, "printed.json", flags);
    fuzz::require(again.ok(), "the print is a config", printed,
                  again.ok() ? "" : again.status().str());
    fuzz::require(valuesOf(*again) == valuesOf(*c), "the print has the same values", valuesOf(*c),
                  valuesOf(*again));
  }
  return 0;
}
