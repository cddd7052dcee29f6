// SPDX-License-Identifier: Apache-2.0
//
// Damages to a schedule, each as an edit of its text would be: references by name follow what is moved.
#pragma once

#include "ir/Schedule.h"

#include <functional>
#include <string>

namespace ds {

// DAMAGE(name, whether it can make a sound schedule of another computation)
// It can where it changes what is computed from what. All others must come with a violation if they change an outcome.
#define DAMAGES(DAMAGE)                                                                            \
  DAMAGE(DropWait, false)                                                                          \
  DAMAGE(DropCarriedWait, false)                                                                   \
  DAMAGE(RedirectWait, false)                                                                      \
  DAMAGE(RepeatWait, false)                                                                        \
  DAMAGE(DropInstr, true)                                                                          \
  DAMAGE(RepeatInstr, false)                                                                       \
  DAMAGE(ExchangeNeighbours, true)                                                                 \
  DAMAGE(MoveInstr, true)                                                                          \
  DAMAGE(ChangeProgram, false)                                                                     \
  DAMAGE(SwapOnStream, false)                                                                      \
  DAMAGE(ChangeOperand, true)                                                                      \
  DAMAGE(SwapDestinations, true)                                                                   \
  DAMAGE(MoveBuffer, false)                                                                        \
  DAMAGE(ShortenLife, false)                                                                       \
  DAMAGE(LengthenLife, false)                                                                      \
  DAMAGE(ChangeFirst, false)                                                                       \
  DAMAGE(DropCarry, false)                                                                         \
  DAMAGE(MarkCarry, false)                                                                         \
  DAMAGE(MoveView, false)                                                                          \
  DAMAGE(ChangeElems, false)                                                                       \
  DAMAGE(ChangeSpace, false)                                                                       \
  DAMAGE(ChangeTransfer, false)                                                                    \
  DAMAGE(ChangeStream, false)

enum class Damage : uint8_t {
#define DAMAGE(name, other) name,
  DAMAGES(DAMAGE)
#undef DAMAGE
};
inline constexpr int kDamages = static_cast<int>(Damage::ChangeStream) + 1;
std::string_view text(Damage d);
bool mayComputeOther(Damage d);

struct Damaged {
  Schedule schedule;
  Damage damage;
  InstrKind on; // what was damaged, or for a buffer what writes it first
  std::string what;
};

/// Every `stride`-th place where `d` can be applied, from a place drawn from `seed`, with targets drawn likewise.
void forEachDamage(const Schedule &good, Damage d, unsigned seed, int stride,
                   const std::function<void(const Damaged &)> &visit);

} // namespace ds
