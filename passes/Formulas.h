// SPDX-License-Identifier: Apache-2.0
//
// What exporters spell out and the op set has whole.
#pragma once

#include "ir/Graph.h"

namespace ds {

/// Replaces known formulas by the op that they compute; what they no longer need is left without users.
void recognizeFormulas(Module &m, Program &p);

} // namespace ds
