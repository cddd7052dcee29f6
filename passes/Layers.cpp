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

// The ops that use it to make the loss, by itself or through a bucket's view.
static void forwardUsers(const Value &v, std::vector<Op *> &users) {
  for (Op *u : v.users)
    if (u->kind == OpKind::View && v.isSymbol())
      forwardUsers(*u->result(), users);
    else if (u->phase == Phase::Forward || u->kind == OpKind::LinearCrossEntropyGrad)
      users.push_back(u);
}

// Their recorded layers.
static std::set<std::string> layersOf(const std::vector<Op *> &users) {
  std::set<std::string> layers;
  for (Op *u : users)
    if (!u->origin.module.empty())
      layers.insert(layerOfPath(u->origin.module));
  return layers;
}

bool isTied(const Symbol &param) {
  std::vector<Op *> users;
  forwardUsers(param, users);
  std::set<std::string> layers = layersOf(users);
  // No paths recorded: two uses may be two layers.
  return layers.empty() ? users.size() > 1 : layers.size() > 1;
}

std::string layerOf(const Symbol &param) {
  std::vector<Op *> users;
  forwardUsers(param, users);
  std::set<std::string> layers = layersOf(users);
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
