// SPDX-License-Identifier: Apache-2.0
//
// S4: no deadlock. The list order is a topological order of streams and waits, because every wait names an
// earlier instruction of another stream; labels are unique; each kind of instruction has its one stream, so
// that collectives have one total order, the same on all ranks.
#include "ir/ScheduleNames.h"
#include "ir/ScheduleVerify.h"

#include <algorithm>
#include <unordered_set>

namespace ds {

static void verifyWaits(const SchedProgram &p, int index, Findings &f) {
  const Instr &i = p.instrs[index];
  std::vector<int> waits = i.waits;
  std::sort(waits.begin(), waits.end());
  if (std::adjacent_find(waits.begin(), waits.end()) != waits.end())
    f.add("S4", p, i, "waits twice for the same instruction");
  for (int w : waits) {
    if (w < 0 || w >= static_cast<int>(p.instrs.size()))
      return f.add("S4", p, i,
                   "waits for instruction number " + std::to_string(w) + ", but there are " +
                       std::to_string(p.instrs.size()));
    const Instr &other = p.instrs[w];
    if (w == index)
      f.add("S4", p, i, "waits for itself");
    else if (other.stream == i.stream)
      f.add("S4", p, i,
            "waits for " + nameText(other.label) + " on its own stream, " +
                (w < index ? "which is in order anyway" : "which comes later"));
    else if (w > index)
      f.add("S4", p, i,
            "waits for " + nameText(other.label) + ", which comes later in the program");
  }
}

// Waits for what the program before left running; rule S12 knows on which streams that is.
static void verifyCarriedWaits(const SchedProgram &p, const Instr &i, Findings &f) {
  std::vector<int> waits = i.carriedWaits;
  std::sort(waits.begin(), waits.end());
  if (std::adjacent_find(waits.begin(), waits.end()) != waits.end())
    f.add("S4", p, i, "waits twice for the same carried instruction");
  for (int c : waits)
    if (c < 0 || c >= static_cast<int>(p.carried.size()))
      return f.add("S4", p, i,
                   "waits for carried instruction number " + std::to_string(c) +
                       ", but there are " + std::to_string(p.carried.size()));
}

void verifyOrder(const Schedule &s, Findings &f) {
  for (const SchedProgram &p : s.programs) {
    std::unordered_set<std::string> labels;
    for (const std::string &label : p.carried)
      if (label.empty() || !labels.insert(label).second)
        f.add("S4", 0, p.name + ": carried instructions need labels that differ");
    for (size_t k = 0; k < p.instrs.size(); ++k) {
      const Instr &i = p.instrs[k];
      if (i.label.empty())
        f.add("S4", p, i, "has no label");
      else if (!labels.insert(i.label).second)
        f.add("S4", p, i, "has the label of an earlier instruction");
      bool onHost =
          i.kind == InstrKind::Launch && i.stream == Stream::Host; // rule S7 looks at its operands
      if (i.stream != streamOf(i.kind) && !onHost)
        f.add("S4", p, i, "belongs on stream " + std::string(text(streamOf(i.kind))));
      verifyWaits(p, static_cast<int>(k), f);
      verifyCarriedWaits(p, i, f);
    }
  }
}

} // namespace ds
