// SPDX-License-Identifier: Apache-2.0
#include "runtime/Data.h"

#include "runtime/Convert.h"

#include <algorithm>
#include <fmt/format.h>

namespace ds {

StatusOr<std::vector<DataInput>> dataInputs(const Schedule &s) {
  std::vector<DataInput> out;
  for (const InputInfo &in : s.inputs) {
    if (!in.meta.fromData())
      continue;
    int buffer = s.findPersistent(in.name);
    if (buffer < 0)
      return Status::internal(fmt::format("input {} has no buffer", in.name));
    const Type &type = s.persistent[static_cast<size_t>(buffer)].type;
    if (type.dims.empty() || type.dims[0] != s.step.microBatch)
      return Status::error(fmt::format("input {} is {}; its first dimension must be the "
                                       "micro-batch, {}",
                                       in.name, type.str(), s.step.microBatch));
    DataInput d;
    d.name = in.name;
    d.dtype = type.dtype;
    d.row.assign(type.dims.begin() + 1, type.dims.end());
    d.label = in.meta.role == InputMeta::Role::Label;
    d.bound = in.meta.bound;
    d.hasIgnore = in.meta.hasIgnore;
    d.ignore = in.meta.ignoreIndex;
    d.skip = in.meta.skip;
    for (const InputInfo &count : s.inputs) {
      if (count.meta.role != InputMeta::Role::Count || count.meta.countOf != in.name)
        continue;
      d.counted = true;
      d.skip = std::max(d.skip, count.meta.skip);
      if (d.label && count.meta.hasIgnore) {
        d.hasIgnore = true;
        d.ignore = count.meta.ignoreIndex;
      }
    }
    out.push_back(std::move(d));
  }
  return out;
}

StatusOr<std::unique_ptr<DataSource>> openData(const std::string &spec,
                                               std::vector<DataInput> inputs) {
  size_t colon = spec.find(':');
  std::string kind = spec.substr(0, colon);
  std::string arg = colon == std::string::npos ? "" : spec.substr(colon + 1);
  if (kind == "tokens")
    return openTokens(arg, std::move(inputs));
  if (kind == "npy")
    return openNpy(arg, std::move(inputs));
  if (kind == "synthetic")
    return openSynthetic(arg, std::move(inputs));
  return Status::error(fmt::format("--data {}: unknown kind of data '{}', expected "
                                   "tokens:FILE[,uint32], npy:DIR or synthetic:SEED",
                                   spec, kind));
}

Status checkBound(const DataInput &in, const void *row, const std::string &place, int64_t first) {
  if (in.bound == 0 || !isInt(in.dtype))
    return {};
  for (int64_t i = 0, n = in.rowElems(); i < n; ++i) {
    int64_t v = toInt(in.dtype, row, i);
    if ((v >= 0 && v < in.bound) || (in.hasIgnore && v == in.ignore))
      continue;
    return Status::error(fmt::format("{}: element {} is {}, expected a value in [0, {})", in.name,
                                     first + i, v, in.bound))
        .at(place);
  }
  return {};
}

} // namespace ds
