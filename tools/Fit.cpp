// SPDX-License-Identifier: Apache-2.0
#include "tools/Fit.h"

#include "frontend/Units.h"

#include <cstdio>

namespace ds {

static std::string rateText(double v, double unit) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", v / unit);
  return v > 0 ? text : "-";
}

static std::string targetLine(std::string name, const std::vector<std::string> &cells,
                              const std::string &summary) {
  name.resize(9, ' ');
  for (const std::string &cell : cells)
    name += std::string(cell.size() < 11 ? 11 - cell.size() : 1, ' ') + cell;
  return name + "  " + summary + "\n";
}

std::string targetList() {
  auto size = [](int64_t bytes) { return bytes ? bytesText(bytes) : std::string("-"); };
  std::string out =
      targetLine("", {"device", "of it", "host", "memory", "link", "f32", "16-bit"}, "");
  out += targetLine("name", {"memory", "contexts", "memory", "GB/s", "GB/s", "TFLOP/s", "TFLOP/s"},
                    "device of one rank");
  for (const Target &t : targetTable())
    out += targetLine(t.name,
                      {t.deviceMemory ? bytesText(t.deviceMemory) : "shared", size(t.reserve),
                       size(t.hostMemory), rateText(t.memoryRate, 1e9), rateText(t.linkRate, 1e9),
                       rateText(t.flopsF32, 1e12), rateText(t.flops16Bit, 1e12)},
                      t.summary);
  return out;
}

StatusOr<std::optional<Target>> targetOf(const PlanConfig &c) {
  if (c.target.empty())
    return std::optional<Target>();
  TRY_ASSIGN(Target t, findTarget(c.target));
  if (c.ranksPerMachine > 0)
    t.machineRanks = c.ranksPerMachine;
  return std::optional<Target>(std::move(t));
}

StatusOr<std::optional<MemoryLimit>> memoryLimit(const PlanConfig &c) {
  TRY_ASSIGN(std::optional<Target> target, targetOf(c));
  if (!target && c.deviceMemory < 0 && c.hostMemory >= 0)
    return Status::error(
        "--host-memory (dsplan.host_memory) needs --target or --device-memory beside it");
  if (!target && c.deviceMemory < 0) {
    if (c.memoryReserve >= 0)
      return Status::error("--memory-reserve (dsplan.memory_reserve) needs --target or "
                           "--device-memory, of which it is a part");
    return std::optional<MemoryLimit>();
  }
  MemoryLimit l;
  l.name = target ? target->name : "the device";
  l.capacity = c.deviceMemory >= 0 ? c.deviceMemory : target->deviceBytes(c.world);
  l.host = c.hostMemory >= 0 ? c.hostMemory : target ? target->hostMemory : 0;
  l.reserve = c.memoryReserve >= 0 ? c.memoryReserve : target ? target->reserve : 0;
  if (l.reserve >= l.capacity)
    return Status::error(l.name + " has " + bytesText(l.capacity) + ", and " +
                         bytesText(l.reserve) +
                         " of it are reserved for library contexts (--memory-reserve): nothing "
                         "is left");
  return std::optional<MemoryLimit>(std::move(l));
}

std::string partText(const MemoryPart &p) {
  return p.name + (p.count > 1 ? " (" + std::to_string(p.count) + ")" : "") + " " +
         bytesText(p.bytes);
}

std::string verdictText(const MemoryReport &m, const MemoryLimit &limit) {
  int64_t spare = limit.available() - m.arena;
  if (spare >= 0)
    return "fits, " + bytesText(spare) + " spare";
  std::string text = "short " + bytesText(-spare) + ": ";
  int64_t named = 0;
  int parts = 0;
  for (const MemoryPart &p : partsOfPeak(m.peak, m.persistent)) {
    text += (parts ? ", " : "") + partText(p);
    named += p.bytes;
    if (++parts == 3 || named >= -spare)
      break;
  }
  return text;
}

Status checkFits(const Schedule &s, const PlanConfig &c) {
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(c));
  Status all;
  for (const ArenaInfo &a : s.arenas) {
    bool host = a.space == Space::Host;
    if (!limit || a.space == Space::Nvme || (host && limit->host == 0) ||
        a.bytes <= (host ? limit->host : limit->available()))
      continue;
    std::string of = bytesText(host ? limit->host : limit->capacity);
    if (!host && limit->reserve)
      of += ", less " + bytesText(limit->reserve) + " for library contexts";
    all.merge(Status::error("plan does not fit: a rank needs " + bytesText(a.bytes) + " of " +
                                limit->name + "'s " + std::string(text(a.space)) + " memory (" +
                                of + ")" +
                                (host ? "" : ": " + verdictText(memoryReport(s), *limit)),
                            Code::DoesNotFit));
  }
  return all;
}

} // namespace ds
