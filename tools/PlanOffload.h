// SPDX-License-Identifier: Apache-2.0
//
// --offload auto: what to move off the device so that the plan fits its memory at the least predicted time.
#pragma once

#include "tools/PlanArgs.h"

namespace ds {

/// Sets what the config leaves open of offload_optimizer, offload_param, offload_activations, bucket by bucket and value by value
/// (bucketPlaces, offloadValues), and if recompute is not given, recompute auto with its values. Candidates are estimated on a
/// market (PlanMarket.h), the best planned under the limits and simulated by the target's rates (those of `cpu` if there are
/// none); the fastest that fits is taken, an assumption says which, and model.gap how far it is from the best. Without a
/// limit nothing moves. Error, exit code 2: none fits; it names the one that needs least.
Status chooseOffload(LoadedModel &model);

/// A line of the summary.
std::string gapLine(const PlanGap &gap);

/// Time against memory, a line per plan that nothing beats in both: from what no limit asks for down to the least that any
/// combination needs. `gap` is what a better choice could still save. Each is run by the flags that its line ends with. Other limits than host memory do not count.
StatusOr<std::string> paretoText(const LoadedModel &model);

} // namespace ds
