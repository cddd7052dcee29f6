// SPDX-License-Identifier: Apache-2.0
//
// What a target is measured on: small trainings that hold the usual ops in several sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

struct MeasureModel {
  std::string text;  // .dsir
  int64_t rows = 1;  // micro-batch
  bool half = false; // in bf16
  bool fuse = true;  // false: with the ops that fused ones stand for, which other models have
};
std::vector<MeasureModel> measureModels();

} // namespace ds
