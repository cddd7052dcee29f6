// SPDX-License-Identifier: Apache-2.0
//
// --save-model OUT.onnx: the model as it was read, with the trained weights in OUT.safetensors beside it.
#pragma once

#include "frontend/OnnxImport.h"
#include "frontend/OnnxWrite.h"
#include "runtime/Safetensors.h"

#include <string>
#include <vector>

namespace ds {

class OnnxSaver {
public:
  /// Before training: everything that can be wrong with writing `model` back is told then. report: of its import.
  static StatusOr<OnnxSaver> prepare(const std::string &model, const ImportReport &report,
                                     const std::string &out);

  /// The parameters' file that write() wants, to be made before.
  std::string paramsPath() const { return stem + ".params.tmp"; }
  std::string safetensorsPath() const { return stem + ".safetensors"; }
  /// Both files appear under their names only when they are complete. The parameters' file is removed.
  Status write() const;

private:
  // A tensor of the model that goes to the safetensors file: a parameter, or what lay in a file of its own.
  struct Slot {
    std::string key; // there
    DType dtype = DType::F32;
    std::vector<int64_t> dims;
    std::string param; // empty: copied
    bool transposed = false;
    TensorHandle copied;
    int64_t bytes() const;
  };
  OnnxSaver() = default;
  Status addSlot(const ModelTensor &t, const ImportReport &report);
  Status writeTensors(const std::string &path, int64_t &dataStart) const;
  StatusOr<std::string> bytesOf(const Slot &s, const File &params,
                                const SafetensorsHeader &header) const;

  std::string path; // OUT.onnx
  std::string stem; // OUT
  std::shared_ptr<OnnxFile> file;
  std::string model;                     // serialized, if it was text
  std::vector<std::optional<size_t>> at; // by tensor of the model: its slot
  std::vector<Slot> slots;
};

} // namespace ds
