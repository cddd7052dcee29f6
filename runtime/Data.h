// SPDX-License-Identifier: Apache-2.0
//
// Training data as numbered samples; a sample has one row for each data input and label of the plan.
//   tokens:FILE.bin[,uint32]  a stream of uint16 (uint32) tokens; sample i = tokens [i*T, i*T + T], labels
//                             already shifted by one; headers of llm.c's .bin files are recognised
//   npy:DIR                   one <input>.npy per input and label, first axis = samples
//   synthetic:SEED            random values, endless; integers need a bound
#pragma once

#include "ir/Schedule.h"

#include <memory>
#include <string>
#include <vector>

namespace ds {

/// One data input or label, as the source must fill it.
struct DataInput {
  std::string name;
  DType dtype = DType::F32;
  std::vector<int64_t> row; // dims of one sample
  bool label = false;
  int64_t bound = 0;      // integers must lie in [0, bound); 0: unchecked
  bool hasIgnore = false; // label: elements equal to ignore are not counted and not checked
  int64_t ignore = 0;
  bool counted = false; // the loss compares it
  int64_t skip = 0;     // the plan shifts it: the first elements of a row are not compared

  int64_t rowElems() const { // called for every row read: allocates nothing
    int64_t n = 1;
    for (int64_t d : row)
      n *= d;
    return n;
  }
};

class DataSource {
public:
  virtual ~DataSource() = default;
  /// Number of samples, or 0 for endless.
  virtual int64_t samples() const = 0;
  /// Fills rows[i] for every input. Called by one thread at a time.
  virtual Status read(int64_t sample, void *const *rows) = 0;
};

/// Data and label inputs of the plan, in the order of Schedule::inputs; the feeder makes the others.
StatusOr<std::vector<DataInput>> dataInputs(const Schedule &s);

/// Opens what `spec` names and checks it against the inputs.
StatusOr<std::unique_ptr<DataSource>> openData(const std::string &spec,
                                               std::vector<DataInput> inputs);

// The kinds, for openData.
StatusOr<std::unique_ptr<DataSource>> openTokens(const std::string &arg,
                                                 std::vector<DataInput> inputs);
StatusOr<std::unique_ptr<DataSource>> openNpy(const std::string &dir,
                                              std::vector<DataInput> inputs);
StatusOr<std::unique_ptr<DataSource>> openSynthetic(const std::string &seed,
                                                    std::vector<DataInput> inputs);

/// Checks a row of integers against the input's bound. `place` is the file, `first` the index there of the
/// row's first element.
Status checkBound(const DataInput &in, const void *row, const std::string &place, int64_t first);

} // namespace ds
