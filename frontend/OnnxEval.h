// SPDX-License-Identifier: Apache-2.0
//
// Evaluators: operators on known values. An empty result means "cannot evaluate here": the node is then
// converted like any other. Errors are the model's mistakes (shapes that do not agree, indices outside).
#pragma once

#include "frontend/OnnxImporter.h"

namespace ds {

using KnownList = std::vector<KnownRef>;
/// Results with more elements are not searched for repeated axes.
inline constexpr int64_t kMaxCompress = int64_t(1) << 22;
using EvalResult = StatusOr<KnownList>;

Status evalError(const OnnxNode &n, std::string text);
/// dims are small enough for a known value that is stored in full.
bool fitsKnown(const Dims &dims);
Status evalDims(const OnnxNode &n, const Dims &dims); // an error if they are no tensor's shape
/// An axis counted from the front.
StatusOr<int64_t> evalAxis(const OnnxNode &n, int64_t axis, int64_t rank);
/// Axes from the attribute or input 1, normalised and sorted; nullopt if neither is there.
StatusOr<std::optional<std::vector<int64_t>>> evalAxes(const OnnxNode &n, const KnownList &in,
                                                       size_t slot, int64_t rank);

// Shape arithmetic that evaluators and converters share.
StatusOr<Dims> reshapeDims(const OnnxNode &n, const Dims &from, const std::vector<int64_t> &to);
StatusOr<Dims> squeezeDims(const OnnxNode &n, const Dims &from,
                           const std::optional<std::vector<int64_t>> &axes);
StatusOr<Dims> unsqueezeDims(const OnnxNode &n, const Dims &from, std::vector<int64_t> axes);
/// Per-axis starts, counts and steps (may be negative) of Slice.
struct SliceRange {
  int64_t start, count, step;
};
StatusOr<std::vector<SliceRange>> sliceRanges(const OnnxNode &n, const Dims &dims,
                                              const std::vector<int64_t> &starts,
                                              const std::vector<int64_t> &ends,
                                              const std::optional<std::vector<int64_t>> &axes,
                                              const std::optional<std::vector<int64_t>> &steps);
StatusOr<std::vector<int64_t>> splitSizes(const OnnxNode &n, int64_t extent, int64_t outputs,
                                          const std::optional<std::vector<int64_t>> &split);

#define ONNX_DIRECT(op, since, core, ev)                                                           \
  EvalResult eval##ev(const OnnxNode &, const KnownList &, int);
#define ONNX_CUSTOM(op, since, cv, ev, note)                                                       \
  EvalResult eval##ev(const OnnxNode &, const KnownList &, int);                                   \
  Status convert##cv(Converter &);
#define ONNX_KNOWN(op, since, ev, note)                                                            \
  EvalResult eval##ev(const OnnxNode &, const KnownList &, int);
#define ONNX_REFUSED(op, note)
#include "frontend/OnnxOps.def"
#undef ONNX_DIRECT
#undef ONNX_CUSTOM
#undef ONNX_KNOWN
#undef ONNX_REFUSED

} // namespace ds
