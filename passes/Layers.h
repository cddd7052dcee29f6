// SPDX-License-Identifier: Apache-2.0
//
// Which layer a parameter or op belongs to: the unit in which ZeRO-3 gathers and checkpointing works.
#pragma once

#include "ir/Graph.h"

namespace ds {

/// The layer of a module path: up to and with its first numeric component ("transformer.h.0" of
/// "transformer.h.0.attn.c_attn"), or the whole path if there is none.
std::string layerOfPath(llvm::StringRef path);
/// The layer of a parameter: of the one that uses it, else by its recorded module path, else by its name
/// ("h.0.ln.weight" -> "h.0", "w1" -> "l1"), else "".
std::string layerOf(const Symbol &param);
/// Whether several layers use a parameter, or the bucket that holds it alone.
bool isTied(const Symbol &param);

} // namespace ds
