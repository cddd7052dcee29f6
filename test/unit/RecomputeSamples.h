// SPDX-License-Identifier: Apache-2.0
//
// Random micro-batches and what they need, step by step.
#pragma once

#include "passes/RecomputeModel.h"

#include <map>
#include <random>

namespace ds {

int64_t below(std::mt19937 &random, int64_t n);

/// Forward launches that read what earlier ones made, and backward ones that read anything; times are whole numbers.
RecomputeModel randomModel(std::mt19937 &random, int forward, int backward);

/// The whole list of launches with the repeated ones, and every value's first and last place in it.
struct Walk {
  std::vector<std::pair<int, bool>> order; // launch, repeated
  std::map<std::pair<int, bool>, std::pair<int, int>> lives;
};
Walk walk(const RecomputeModel &m, const std::vector<bool> &again);

} // namespace ds
