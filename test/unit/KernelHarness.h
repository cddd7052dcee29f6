// SPDX-License-Identifier: Apache-2.0
//
// Runs one kernel of a table on tensors that a test describes: any layout, any misalignment, canaries round
// every buffer, complete attributes from the op table. On a device with memory of its own, buffers are copied there and back.
#pragma once

#include "ir/Attr.h"
#include "ir/DType.h"
#include "kernels/Registry.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ds::test {

enum class Layout {
  Dense,
  Padded,     // rows of the last axis are longer than it: a slice of something larger
  Transposed, // the last two axes swapped in memory
  Stepped,    // every other element
};

/// A tensor's values in row-major order, and how it lies in memory.
struct Tensor {
  DType dtype = DType::F32;
  std::vector<int64_t> dims;
  std::vector<double> values; // fewer than elements: repeated; empty for results that are not tied
  Layout layout = Layout::Dense;

  int64_t elems() const;
};

Tensor tensor(DType dtype, std::vector<int64_t> dims, std::function<double()> next,
              Layout layout = Layout::Dense);

struct KernelCase {
  std::string name;
  std::string op;
  Attrs attrs;
  std::vector<Tensor> ins;
  std::vector<Tensor> outs;
  std::vector<int> tied;                // operand whose storage result i takes, or -1; empty: none
  std::vector<std::vector<DsRun>> runs; // per operand; empty: none
};

struct RunOptions {
  int threads = 1;
  int misalign = 0;                 // elements by which every buffer is off its alignment
  bool noWork = false;              // hide the workspace: workBytes = 0
  const DsDeviceApi *api = nullptr; // of a device with memory of its own, which is open
  void *stream = nullptr;           // of that device
};

struct RunResult {
  std::string error;                       // what prepare or run returned, or a broken canary
  std::vector<std::vector<uint8_t>> bytes; // results, row-major
  size_t workBytes = 0;
};

/// A kernel prepared on buffers of its own, to be run any number of times.
class PreparedKernel {
public:
  PreparedKernel(const DsKernel &kernel, const KernelCase &c, const RunOptions &o = {});
  ~PreparedKernel();

  /// Null, or what prepare or run returned.
  const char *run();
  /// The same, but for a device's kernels, which are enqueued only.
  const char *enqueue();
  /// Results, and whether anything else was written. Ends the buffers' use.
  RunResult finish();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// prepare, one run, finish.
RunResult runKernel(const DsKernel &kernel, const KernelCase &c, const RunOptions &o = {});

/// A result as numbers.
std::vector<double> numbers(const std::vector<uint8_t> &bytes, DType dtype);

} // namespace ds::test
