// SPDX-License-Identifier: Apache-2.0
//
// Writing the model's weights as one safetensors file, under the names of the model's initializers and in
// their element types. Rank r writes slice r of every bucket, whatever the stage; nothing is communicated.
#pragma once

#include "runtime/Comm.h"
#include "runtime/Loader.h"

namespace ds {

/// Called by every rank, between updates. The file appears under its name only when it is complete; after an
/// error nothing is left behind, and every rank returns an error.
Status saveModel(const Schedule &s, const LoadedRank &rank, Comm &comm, const std::string &path);

/// Files tell parameters apart by paramName; an error if two have the same.
Status checkNames(const Schedule &s);

} // namespace ds
