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

std::string layerOf(const Symbol &param) {
  if (!param.module.empty())
    return layerOfPath(param.module);
  llvm::StringRef name = param.name;
  if (name.contains('.'))
    return layerOfPath(name.rsplit('.').first);
  llvm::StringRef digits = name.drop_front(name.find_last_not_of("0123456789") + 1);
  return digits.empty() ? "" : "l" + digits.str();
}

std::vector<std::string> layersUsing(const Symbol &param) {
  std::set<std::string> layers;
  for (Op *u : param.users)
    if (u->phase == Phase::Forward)
      layers.insert(u->origin.module.empty() ? "" : layerOfPath(u->origin.module));
  if (layers.size() == 2 && layers.count(""))
    layers.erase("");
  if (layers.size() == 1 && layers.count("")) {
    // No paths recorded: two uses may be two layers.
    size_t forwardUses = 0;
    for (Op *u : param.users)
      forwardUses += u->phase == Phase::Forward;
    return forwardUses > 1 ? std::vector<std::string>{"", "2"} : std::vector<std::string>{layerOf(param)};
  }
  if (layers.empty())
    return {layerOf(param)};
  return {layers.begin(), layers.end()};
}

} // namespace ds
