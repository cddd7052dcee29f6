// SPDX-License-Identifier: Apache-2.0
#include "kernels/Kernel.h"

#include <cassert>
#include <cstring>

namespace ds {

const DsAttr &attr(const DsLaunch &l, const char *name) {
  for (int32_t i = 0; i < l.numAttrs; ++i)
    if (std::strcmp(l.attrs[i].name, name) == 0)
      return l.attrs[i];
  static const DsAttr none = {};
  assert(false && "kernel asks for an attribute that its op does not have");
  return none;
}

bool isRowMajor(const DsTensor &t) {
  int64_t expected = 1;
  for (int32_t i = t.rank - 1; i >= 0; --i) {
    if (t.dims[i] != 1 && t.strides[i] != expected)
      return false;
    expected *= t.dims[i];
  }
  return true;
}

} // namespace ds
