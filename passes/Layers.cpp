// SPDX-License-Identifier: Apache-2.0
#include "passes/Layers.h"

#include "llvm/ADT/StringExtras.h"

#include <set>

namespace ds {

std::string layerOfPath(llvm::StringRef path) {
  llvm::SmallVector<llvm::StringRef, 8> parts;
  path.split(parts, '.', -1, false);
  std::string layer;
  for (llvm::StringRef part : parts) {
    layer += (layer.empty() ? "" : ".") + part.str();
    if (llvm::all_of(part, llvm::isDigit))
      return layer;
  }
  return layer;
}

// The recorded layers of the forward ops that use it.
static std::set<std::string> userLayers(const Symbol &param) {
  std::set<std::string> layers;
  for (Op *u : param.users)
    if (u->phase == Phase::Forward && !u->origin.module.empty())
      layers.insert(layerOfPath(u->origin.module));
  return layers;
}

bool isTied(const Symbol &param) {
  std::set<std::string> layers = userLayers(param);
  if (!layers.empty())
    return layers.size() > 1;
  // No paths recorded: two uses may be two layers.
  return llvm::count_if(param.users, [](Op *u) { return u->phase == Phase::Forward; }) > 1;
}

std::string layerOf(const Symbol &param) {
  std::set<std::string> layers = userLayers(param);
  if (layers.size() == 1)
    return *layers.begin();
  if (!param.module.empty())
    return layerOfPath(param.module);
  llvm::StringRef name = param.name;
  if (name.contains('.'))
    return layerOfPath(name.rsplit('.').first);
  llvm::StringRef digits = name.drop_front(name.find_last_not_of("0123456789") + 1);
  return digits.empty() ? "" : "l" + digits.str();
}

} // namespace ds
