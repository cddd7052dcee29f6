// SPDX-License-Identifier: Apache-2.0
//
// ONNX model -> Module: parameters and constants as symbols (handles, not data: D3), one func @micro with
// the forward phase that returns the graph's outputs under their ONNX names. No mesh, no placements.
// What the importer expects of a model: docs/exporting.md. Which operators: docs/onnx-ops.md.
#pragma once

#include "ir/Array.h"
#include "ir/Graph.h"

#include <map>

namespace ds {

/// An array for an input of the model.
struct FedArray {
  std::string path; // for messages
  Array array;
  bool constant = false; // known at plan time
};

struct ImportOptions {
  /// --dim seq=512: values of symbolic dimensions, by name.
  std::vector<std::pair<std::string, int64_t>> dims;
  /// Symbolic dimensions that nothing binds take the extent that the model was exported with, where its metadata
  /// says it: a property "dim.NAME" with the number. Reported.
  bool exampleDims = false;
  /// --shape input_ids=8x512: all dimensions of an input.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// --const attention_mask=1: an input becomes a constant; a number, "arange" (0, 1, .. along the last
  /// axis) or "causal" (1 at and below the diagonal of the last two axes).
  std::map<std::string, std::string> consts;
  /// --bind mask=@mask.pb: an input becomes the tensor in that TensorProto file.
  std::map<std::string, std::string> binds;
  /// What dsexec --forward feeds, by sanitized input name: its extents are the input's, and where it is `constant`
  /// its values, too.
  std::map<std::string, FedArray> fed;
  /// Binds the leading symbolic dimension that all data inputs share; 0: not given. Contradicting a fixed
  /// leading dimension of the model is an error.
  int64_t microBatch = 0;
  /// Nobody asked for microBatch: a leading dimension that the model, --dim or --shape states wins.
  bool microBatchAssumed = false;
  /// POSIX extended regexes, matched anywhere in initializer names and module paths. If trainable is given,
  /// exactly the matches are trainable, whatever their role in the graph; freeze then takes matches away.
  std::string trainable, freeze;
  /// Which Dropout with a ratio above 0 is active: as training_mode says, all or none.
  enum class Dropout : uint8_t { Auto, On, Off } dropout = Dropout::Auto;
  /// What BatchNormalization normalises by. Batch: the micro-batch, whatever mode the model was exported in, and the stored
  /// statistics follow. Frozen: the stored ones. Exported: as the node says, and nothing is kept.
  enum class BatchNorm { Batch, Frozen, Exported } batchNorm = BatchNorm::Batch;
  /// The variance that is stored divides by the count, as ONNX says, not by one less, as PyTorch does.
  bool bnVarOnnx = false;
  /// Separates small vectors that the exporter merged because they were equal (docs/exporting.md, H1).
  bool splitSmallTies = true;
  /// Restores the tie of an embedding table and its transposed copy by comparing contents (H6).
  bool retie = true;
  /// Accepts missing or short data files: enough to plan, not to run.
  bool allowMissingData = false;
};

/// A tensor of the model that holds a parameter.
struct ParamUse {
  std::string tensor; // an initializer, or what a Constant makes
  std::string param;  // export name of the symbol
  bool transposed = false;
};

struct ImportReport {
  int64_t opset = 0;
  std::string producer;
  int64_t nodes = 0, folded = 0, ops = 0; // ONNX nodes; those known at plan time; core ops
  int64_t params = 0, paramElems = 0;     // trainable
  int64_t frozen = 0, frozenElems = 0;
  int64_t running = 0,
          runningElems = 0; // statistics of BatchNormalization that micro-batches update
  int64_t constants = 0, constantElems = 0;       // data that is not a parameter
  int64_t activeDropout = 0, inactiveDropout = 0; // with a ratio above 0
  int64_t leading = 0; // leading dimension that all data inputs share, as bound; 0: none
  std::vector<std::pair<std::string, int64_t>> exampleDims; // bound by ImportOptions::exampleDims
  std::vector<std::string> symbolicDims; // names of the model's symbolic dimensions, in order
  std::vector<ParamUse> uses;
  std::vector<std::string> separated; // parameters that have no tensor of their own (H1)
  std::vector<std::string> ties;      // "a = transposed b", ...
  std::vector<std::string> inputs;    // sanitized names of all graph inputs
  std::vector<std::string> unknown;   // after an error: inputs whose values it needed at plan time
  std::vector<std::string> unused;    // initializers that no output depends on
  std::vector<std::string> losses;    // outputs computed by a loss operator
  std::vector<std::string> warnings;  // one line each
  std::vector<std::pair<std::string, int64_t>> operators; // ONNX operators with counts, by name
};

/// Imports path (.onnx, or ONNX text in .onnxtext). report may be null. Errors name the model, the node or
/// tensor, and the flag or change that helps; all unsupported operators are listed in one error.
StatusOr<std::unique_ptr<Module>> importOnnx(const std::string &path, const ImportOptions &options,
                                             ImportReport *report = nullptr);

} // namespace ds
