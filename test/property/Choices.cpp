// SPDX-License-Identifier: Apache-2.0
#include "test/property/Choices.h"

namespace ds::property {

uint64_t Choices::bits() {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

} // namespace ds::property
