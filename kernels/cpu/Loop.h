// SPDX-License-Identifier: Apache-2.0
//
// The iteration space of elementwise and movement kernels: a few operands with any strides,
// broadcasting resolved (stride 0), axes of extent 1 dropped and mergeable axes merged. The innermost axis
// is handed to a kernel as one run; runs are cut into pieces by shape alone and split over threads.
#pragma once

#include "ir/DType.h"
#include "kernels/Kernel.h"
#include "kernels/cpu/Parallel.h"

#include <algorithm>
#include <array>
#include <type_traits>

namespace ds::cpu {

inline constexpr int kLoopOperands = 9;

/// Element offsets, one per operand.
using Offsets = std::array<int64_t, kLoopOperands>;

class Loop {
public:
  /// Operand 0 is the destination and gives the space; the others broadcast to it by numpy's rule.
  /// Returns null or a message.
  const char *init(const DsTensor &out, const DsTensor *ins, int numIns);
  /// The space `dims`, with strides[operand][axis] given.
  const char *init(int rank, const int64_t *dims, int operands, const int64_t *const *strides);

  int64_t elems() const { return total; }
  /// Strides of the innermost axis.
  int64_t inner(int operand) const { return strides[operand][rank - 1]; }

  // After merging; the last axis is the innermost. Public for kernels that tile two axes.
  int rank = 0, operands = 0;
  int64_t dims[kMaxRank];
  int64_t strides[kLoopOperands][kMaxRank];

  /// body(offsets, n): n elements along the innermost axis, starting at offsets. body(offsets, n, first): and the
  /// number of the first one in row-major order.
  template <class F> void forEach(int threads, const F &body) const {
    if (total == 0)
      return;
    int64_t outer = total / dims[rank - 1];
    parallelFor(threads, outer * pieces, total, [&](int64_t begin, int64_t end) {
      Cursor c = at(begin / pieces);
      int64_t piece = begin % pieces;
      for (int64_t i = begin; i < end; ++i) {
        int64_t from = piece * pieceElems;
        Offsets off = c.off;
        for (int k = 0; k < operands; ++k)
          off[k] += from * strides[k][rank - 1];
        int64_t n = std::min(pieceElems, dims[rank - 1] - from);
        if constexpr (std::is_invocable_v<F, const Offsets &, int64_t, int64_t>)
          body(off, n, i / pieces * dims[rank - 1] + from);
        else
          body(off, n);
        if (++piece == pieces) {
          piece = 0;
          next(c);
        }
      }
    });
  }

  struct Cursor {
    Offsets off{};
    int64_t index[kMaxRank] = {};
  };
  /// The run with this number (row-major over all axes but the innermost `skip`).
  Cursor at(int64_t run, int skip = 1) const;
  void next(Cursor &c, int skip = 1) const;

private:
  void finish();
  int64_t total = 0, pieces = 1, pieceElems = 0;
};

} // namespace ds::cpu
