// SPDX-License-Identifier: Apache-2.0
//
// A model written back with other weights: every byte as it was, but for tensors that move into another file, and the
// lengths of the messages around them.
#pragma once

#include "frontend/OnnxFile.h"

#include <functional>

namespace ds {

/// A tensor of a model. name: of an initializer of the main graph, or of the value that a Constant node there makes;
/// else empty. The proto is without data; `external`: it had lain in a file of its own.
struct ModelTensor {
  std::string name;
  onnx::TensorProto proto;
  bool external = false;
};

/// Where a tensor moves.
struct TensorPlace {
  std::string location; // relative to the model
  int64_t offset = 0, bytes = 0;
};

/// Calls `place` for every tensor, in the order of the bytes. Those that get no place stay as they are.
StatusOr<std::string>
rewriteTensors(std::string_view model,
               const std::function<std::optional<TensorPlace>(const ModelTensor &)> &place);

} // namespace ds
