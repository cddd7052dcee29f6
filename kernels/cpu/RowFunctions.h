// SPDX-License-Identifier: Apache-2.0
//
// The functions over contiguous f32 that elementwise kernels apply, block by block. out may be an operand.
#pragma once

#include <cstdint>

namespace ds::cpu {

enum class Unary {
  Neg,
  Abs,
  Sign,
  Exp,
  Log,
  Sqrt,
  Reciprocal,
  Tanh,
  Sigmoid,
  Erf,
  Floor,
  Ceil,
  Round,
  Relu,
  GeluTanh,
  GeluErf
};
using UnaryRun = void (*)(const float *a, float *out, int64_t n);

enum class Binary { Add, Sub, Mul, Div, Max, Min, ReluGrad, TanhGrad, GeluTanhGrad, GeluErfGrad };
/// A step of 0 repeats the first element; otherwise it is 1.
using BinaryRun = void (*)(const float *a, int stepA, const float *b, int stepB, float *out,
                           int64_t n);

/// For this machine's instruction set, once chooseTargets() has run.
UnaryRun rowFunction(Unary k);
BinaryRun rowFunction(Binary k);

} // namespace ds::cpu
