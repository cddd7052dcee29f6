// SPDX-License-Identifier: Apache-2.0
//
// .dsched text: whatever parses prints to text that parses to the same print; the verifier stands anything that
// parses, and gives the same verdict on the print; sources of what it accepts can be checked.
#include "ir/Schedule.h"
#include "runtime/Sources.h"
#include "test/fuzz/Fuzz.h"

using namespace ds;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  StatusOr<Schedule> s = parseSchedule(fuzz::textOf(data, size), "f.dsched");
  if (!s.ok())
    return 0;
  bool valid = verifySchedule(*s).ok();
  std::string printed = printSchedule(*s);
  StatusOr<Schedule> again = parseSchedule(printed, "printed.dsched");
  fuzz::require(again.ok(), "the print parses", printed, again.ok() ? "" : again.status().str());
  std::string twice = printSchedule(*again);
  fuzz::require(twice == printed, "the print prints itself", printed, twice);
  fuzz::require(verifySchedule(*again).ok() == valid, "the print is as valid as the text", printed);
  if (valid) {
    static const fuzz::InputFile nothing("none");
    s->directory = nothing.directory();
    (void)checkSources(*s).ok();
  }
  return 0;
}
