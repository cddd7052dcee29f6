// SPDX-License-Identifier: Apache-2.0
//
// Random samples: element e of input k in sample i is a function of (seed, k, i, e). Endless.
#include "ir/Philox.h"
#include "runtime/Convert.h"
#include "runtime/Data.h"

#include <charconv>
#include <fmt/format.h>

namespace ds {

namespace {

class Synthetic final : public DataSource {
public:
  Synthetic(uint64_t seed, std::vector<DataInput> in) : seed(seed), inputs(std::move(in)) {}

  int64_t samples() const override { return 0; }

  Status read(int64_t sample, void *const *rows) override {
    for (size_t k = 0; k < inputs.size(); ++k) {
      const DataInput &in = inputs[k];
      Philox random{seed, k + 1}; // stream 0 belongs to initial weights
      int64_t n = in.rowElems(), size = byteSize(in.dtype);
      for (int64_t e = 0; e < n; ++e) {
        auto at = static_cast<uint64_t>(sample * n + e);
        void *to = static_cast<std::byte *>(rows[k]) + e * size;
        if (isFloat(in.dtype)) {
          double v = random.normals(at / 4)[at % 4];
          convert(in.dtype, to, DType::F64, &v, 1);
        } else {
          uint64_t v = random.below(at, in.dtype == DType::Bool ? 2 : uint64_t(in.bound));
          convert(in.dtype, to, DType::U64, &v, 1);
        }
      }
    }
    return {};
  }

private:
  uint64_t seed;
  std::vector<DataInput> inputs;
};

} // namespace

StatusOr<std::unique_ptr<DataSource>> openSynthetic(const std::string &seed,
                                                    std::vector<DataInput> inputs) {
  uint64_t value = 0;
  auto [end, e] = std::from_chars(seed.data(), seed.data() + seed.size(), value);
  if (e != std::errc() || end != seed.data() + seed.size())
    return Status::error(
        fmt::format("--data synthetic:{}: expected a seed, a number from 0", seed));
  for (const DataInput &in : inputs)
    if (isInt(in.dtype) && in.bound <= 0)
      return Status::error(fmt::format("--data synthetic: {} holds integers, and the plan gives no "
                                       "bound to draw them below",
                                       in.name));
  return std::unique_ptr<DataSource>(std::make_unique<Synthetic>(value, std::move(inputs)));
}

} // namespace ds
