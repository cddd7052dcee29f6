// SPDX-License-Identifier: Apache-2.0
//
// Values known at plan time (shapes, masks, positions, scalars). Integers and booleans are held as int64,
// floats as double rounded to their element type. An axis along which all elements are equal may be
// stored once: `stored` has extent 1 there, so that an expanded mask costs what its small form costs.
#pragma once

#include "ir/Type.h"

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

namespace ds {

using Dims = std::vector<int64_t>;

struct Known {
  DType dtype = DType::I64;
  Dims dims;
  Dims stored; // per axis: dims[i], or 1 for a repeated axis
  std::vector<int64_t> ints;
  std::vector<double> floats; // for floating-point dtypes

  bool floating() const { return isFloat(dtype); }
  int64_t elems() const;       // product of dims
  int64_t storedElems() const; // product of stored
  /// For one-element or all-equal values: that value. Else nullopt.
  std::optional<double> splat() const;
  /// All elements in row-major order of dims, as integers (floats truncated, at the ends of the range); none above 2^24 elements.
  std::vector<int64_t> list() const;
  bool operator==(const Known &) const = default;
};
using KnownRef = std::shared_ptr<const Known>;

KnownRef makeInts(DType t, Dims dims, std::vector<int64_t> values);
KnownRef makeSplat(DType t, Dims dims, double value);
inline KnownRef makeIntList(std::vector<int64_t> values) {
  Dims dims = {static_cast<int64_t>(values.size())};
  return makeInts(DType::I64, std::move(dims), std::move(values));
}
/// From little-endian elements; bytes.size() is elems * byteSize.
KnownRef makeFromBytes(DType t, Dims dims, std::string_view bytes);
/// Little-endian elements in row-major order of dims.
std::string toBytes(const Known &k);

/// v rounded and wrapped to t, as a cast to t does for values in range.
double roundTo(DType t, double v);
int64_t wrapTo(DType t, int64_t v);

/// The number that an exporter rounded to v: a short decimal (0.044715), a root or an inverse root of a small
/// integer, sqrt(2/pi). Rounds to v again; matters when the step is computed in f64.
double meantBy(float v);

int64_t product(const Dims &d);
Dims stridesOf(const Dims &d);
/// numpy broadcasting; nullopt if the shapes do not agree.
std::optional<Dims> broadcast(const Dims &a, const Dims &b);

/// Stores axes of equal elements once (a few passes over the data).
KnownRef compressed(Known k);
/// All axes stored in full.
Known expanded(const Known &k);

/// result(stored index i) = source(map(i)): index maps do all movement. result.stored is set by the caller.
void moveElements(const Known &from, const std::vector<int64_t> &map, Known &to);

/// f over all positions of the stored result, with operand positions; operands broadcast to result.dims.
/// Fills result.stored; f(result index, operand indices) is called in row-major order.
void forEachBroadcast(const std::vector<const Known *> &operands, Known &result,
                      const std::function<void(int64_t, const int64_t *)> &f);

} // namespace ds
