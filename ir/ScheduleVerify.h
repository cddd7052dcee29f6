// SPDX-License-Identifier: Apache-2.0
//
// Shared by the files ScheduleVerify*.cpp, which hold the rules S1..S13 (docs/schedule.md). Nothing here is
// used by the planner, nor the other way round: a plan is judged by code that did not make it.
#pragma once

#include "ir/Schedule.h"

#include <string>
#include <vector>

namespace ds {

/// Collects violations, each with its place and rule label; the first kMaxShown are kept in full.
class Findings {
public:
  explicit Findings(const Schedule &s) : s(s) {}

  /// About line `line` of the schedule's text (0: it has none).
  void add(std::string_view rule, int line, std::string text, std::vector<std::string> notes = {});
  /// About an instruction: "micro.only: h (compute): text [S2]", with the instruction's origin as a note.
  void add(std::string_view rule, const SchedProgram &p, const Instr &i, std::string text,
           std::vector<std::string> notes = {});

  bool none() const { return count == 0; }
  int size() const { return count; }
  Status take();

private:
  static constexpr int kMaxShown = 64;
  const Schedule &s;
  Status st;
  int count = 0;
};

std::string originText(const OriginInfo &o); // " from NODE in MODULE by PASS", as far as known

/// Bytes that an instruction touches. An `own` place counts with all ranks' slices, since one schedule
/// serves every rank. Empty places do not count.
struct Access {
  Space space = Space::Device;
  int64_t begin = 0, end = 0; // bytes of the space's arena, half-open
  int buffer = 0;             // numbering of SchedProgram
  const std::string *name = nullptr;
  bool write = false;
};
Access accessOf(const Schedule &s, const SchedProgram &p, PlaceRef r, bool write);
/// Operands first, then destinations and workspace. `list` is cleared before.
void accesses(const Schedule &s, const SchedProgram &p, const Instr &i, std::vector<Access> &list);

bool overlap(const Access &a, const Access &b);
std::string bytesText(const Access &a); // "device bytes [256,1280)"

// The rules. Places and Order must hold before the others may look at a program: they would index and
// add up numbers that are not known to be sane.
void verifyPlaces(const Schedule &s, Findings &f); // S1, S7
void verifyOrder(const Schedule &s, Findings &f);  // S4
/// `before`: the program that ran before p and may have left instructions running, or null.
void verifyRaces(const Schedule &s, const SchedProgram &p, const SchedProgram *before,
                 Findings &f);                                                 // S2, S3
void verifyCarry(const Schedule &s, Findings &f);                              // S12
void verifyAliases(const Schedule &s, const SchedProgram &p, Findings &f);     // S10
void verifyCollectives(const Schedule &s, const SchedProgram &p, Findings &f); // S5
void verifyTransfers(const Schedule &s, const SchedProgram &p, Findings &f);   // S13
void verifyWindow(const Schedule &s, Findings &f);                             // S6, S9
void verifyBindings(const Schedule &s, Findings &f);                           // S8
void verifyTypes(const Schedule &s, Findings &f);                              // S11

} // namespace ds
