// SPDX-License-Identifier: Apache-2.0
//
// Folders of arrays: one file NAME.npy or NAME.pb (a serialized TensorProto) for each.
#pragma once

#include "ir/Array.h"
#include "ir/Status.h"

#include <map>
#include <string>

namespace ds {

struct ArrayFile {
  std::string path;
  Array array;
};

/// All .npy and .pb files of a folder, by name without the ending. Two files of one name are an error.
StatusOr<std::map<std::string, ArrayFile>> readArrays(const std::string &folder);

/// Makes the folder, if need be.
Status makeFolder(const std::string &folder);

/// The name with '_' for what is no letter, digit, '_', '.' or '-', so that it names a file in a folder.
std::string fileName(const std::string &name);
/// asProto: .pb, else .npy.
Status writeArray(const std::string &folder, const std::string &name, const Array &a, bool asProto);

} // namespace ds
