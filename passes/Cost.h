// SPDX-License-Identifier: Apache-2.0
//
// The least time that a schedule's launches take on a device of given rates: the roofline of Williams, Waterman and
// Patterson (2009), launch by launch. Real kernels are slower; it compares plans and devices.
#pragma once

#include "ir/Schedule.h"

namespace ds {

struct DeviceRates {
  double memory = 0;                // bytes per second
  double flopsF32 = 0, flops16 = 0; // of matrix products, per second
};

/// Operations of one launch's matrix products: 2 x rows x columns x inner extent, over the batch. 0 for other ops.
double productFlops(const Schedule &s, const SchedProgram &p, const Instr &i);

/// Seconds of one update on one rank: each launch takes the longer of its products and its traffic, in which
/// every operand and destination moves once.
double computeSeconds(const Schedule &s, const DeviceRates &r);

} // namespace ds
