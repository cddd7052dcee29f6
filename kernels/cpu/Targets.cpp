// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/Targets.h"

#include <hwy/targets.h>

namespace ds::cpu {

void chooseTargets() {
  static const bool chosen = (hwy::GetChosenTarget().Update(hwy::SupportedTargets()), true);
  (void)chosen;
}

} // namespace ds::cpu
