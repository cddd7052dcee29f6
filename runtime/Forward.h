// SPDX-License-Identifier: Apache-2.0
//
// Runs a plan's program `forward` on one rank: arrays in, arrays out, as often as one likes. Nothing is kept from
// one run to the next.
#pragma once

#include "ir/Array.h"
#include "ir/Schedule.h"
#include "runtime/Device.h"

#include <map>
#include <memory>

namespace ds {

/// A weight that replaces the model's own: elements of a file.
struct WeightRange {
  std::string buffer; // of the schedule
  std::string path;
  int64_t offset = 0; // bytes
  DType stored = DType::F32;
};

class Forward {
public:
  /// threads: of the kernels; 0: as many as there are cores. Errors: no program forward, more than one rank, data
  /// that cannot be read, ops without a kernel.
  static StatusOr<std::unique_ptr<Forward>> create(Schedule s, Device d, int threads,
                                                   const std::vector<WeightRange> &weights);
  ~Forward();

  const Schedule &schedule() const;
  /// What the device borrows from another one, one line each.
  std::vector<std::string> notes() const;

  /// One array for each input of the plan, of its dimensions and type (fitArray).
  StatusOr<std::vector<std::pair<std::string, Array>>>
  run(const std::map<std::string, Array> &feeds);

private:
  struct Impl;
  explicit Forward(std::unique_ptr<Impl> i);
  std::unique_ptr<Impl> impl;
};

/// The array with the wanted type: floats become other floats, integers other integers if every value fits. Errors
/// say what differs; the caller names the file.
StatusOr<Array> fitArray(Array a, const Type &want);

} // namespace ds
