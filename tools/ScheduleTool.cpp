// SPDX-License-Identifier: Apache-2.0
#include "tools/ScheduleTool.h"

#include "ir/Schedule.h"

namespace ds {

Status checkSchedule(const std::string &text, const std::string &path, std::string &out) {
  TRY_ASSIGN(Schedule s, parseSchedule(text, path));
  std::string printed = printSchedule(s);
  StatusOr<Schedule> again = parseSchedule(printed, path + " (printed)");
  if (!again.ok() || printSchedule(*again) != printed)
    return Status::internal("the printed schedule does not read back to itself")
        .note(again.ok() ? "it reads back to another one" : again.status().str());
  TRY(verifySchedule(s));
  out += printed;
  return {};
}

} // namespace ds
