// SPDX-License-Identifier: Apache-2.0
//
// Convolution, pooling, batch normalisation and their gradients against PyTorch (test/golden/vision.txt), and what
// PyTorch does not say.
#include "test/unit/OpHarness.h"

#include <gmock/gmock.h>

#include <fstream>
#include <limits>
#include <map>
#include <sstream>

namespace ds::optest {
namespace {

struct Golden {
  std::string op;
  Attrs attrs;
  std::map<std::string, Tensor> tensors;
};

Attrs attrsIn(std::istringstream &in) {
  Attrs attrs;
  std::string word, name;
  Dims list;
  auto finish = [&] {
    if (name == "groups")
      attrs.set(name, list.at(0));
    else if (name == "count_padding")
      attrs.set(name, true);
    else if (!name.empty())
      attrs.set(name, list);
    list.clear();
  };
  while (in >> word)
    if (std::isdigit(static_cast<unsigned char>(word[0]))) {
      list.push_back(std::stoll(word));
    } else {
      finish();
      name = word;
    }
  finish();
  return attrs;
}

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  std::ifstream file(DS_SOURCE_DIR "/test/golden/vision.txt");
  std::string line;
  bool open = false;
  while (std::getline(file, line)) {
    std::istringstream in(line);
    std::string name;
    if (!(in >> name)) {
      open = false;
    } else if (!open) {
      open = true;
      all.push_back({name, attrsIn(in), {}});
      if (name != "conv")
        all.back().attrs.erase("groups");
    } else {
      size_t rank = 0;
      in >> rank;
      Dims dims(rank);
      for (int64_t &d : dims)
        in >> d;
      std::vector<double> values;
      for (double v; in >> v;)
        values.push_back(v);
      all.back().tensors[name] = Tensor(DType::F64, dims, values);
    }
  }
  return all;
}

Attrs with(Attrs attrs, const Tensor &like) {
  attrs.set("dims", like.dims);
  return attrs;
}

void expectLikeBatchNorm(std::map<std::string, Tensor> &t) {
  Attrs eps = {{"eps", 0.001}};
  std::vector<Tensor> y = run({OpKind::BatchNorm, eps, {t["x"], t["scale"], t["bias"]}}).outs;
  ASSERT_EQ(y.size(), 3U);
  expectNear(y[0], t["y"], 1e-14);
  std::vector<Tensor> g =
      run({OpKind::BatchNormGrad, eps, {t["dy"], t["x"], t["scale"], y[1], y[2]}}).outs;
  ASSERT_EQ(g.size(), 3U);
  expectNear(g[0], t["dx"], 1e-14);
  expectNear(g[1], t["dscale"], 1e-14);
  expectNear(g[2], t["dbias"], 1e-14);
  double n = static_cast<double>(t["x"].elems()) / static_cast<double>(t["scale"].elems());
  Attrs keep = {{"keep", 0.75}};
  expectNear(run1(OpKind::Track, {t["old_mean"], y[1]}, keep), t["new_mean"], 1e-15);
  keep.set("scale", n / (n - 1)); // PyTorch stores the unbiased variance
  expectNear(run1(OpKind::Track, {t["old_var"], y[2]}, keep), t["new_var"], 1e-15);
}

TEST(RefVision, LikePytorch) {
  std::vector<Golden> all = goldens();
  ASSERT_EQ(all.size(), 11U);
  for (auto &[op, attrs, t] : all) {
    SCOPED_TRACE(op + attrsText(attrs, {}));
    if (op == "conv") {
      expectEqual(run1(OpKind::Conv, {t["x"], t["w"]}, attrs), t["y"]);
      expectEqual(run1(OpKind::ConvGradInput, {t["dy"], t["w"]}, with(attrs, t["x"])), t["dx"]);
      expectEqual(run1(OpKind::ConvGradWeight, {t["dy"], t["x"]}, with(attrs, t["w"])), t["dw"]);
    } else if (op == "max_pool") {
      expectEqual(run1(OpKind::MaxPool, {t["x"]}, attrs), t["y"]);
      expectEqual(run1(OpKind::MaxPoolGrad, {t["dy"], t["x"]}, attrs), t["dx"]);
    } else if (op == "batch_norm") {
      expectLikeBatchNorm(t);
    } else {
      expectNear(run1(OpKind::AvgPool, {t["x"]}, attrs), t["y"], 1e-15);
      expectNear(run1(OpKind::AvgPoolGrad, {t["dy"]}, with(attrs, t["x"])), t["dx"], 1e-15);
    }
  }
}

TEST(RefVision, EveryDType) {
  for (DType t : {DType::F64, DType::F32, DType::BF16, DType::F16}) {
    Tensor x(t, {1, 1, 3}, {1, 2, 3}), w(t, {1, 1, 2}, {1, -1});
    expectEqual(run1(OpKind::Conv, {x, w}), Tensor(t, {1, 1, 2}, {-1, -1}));
    expectEqual(run1(OpKind::AvgPool, {x}, {{"window", Dims{3}}}), Tensor(t, {1, 1, 1}, {2}));
  }
}

TEST(RefVision, NanIsTheLargestAndTheFirstTakesTheGradient) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  Tensor x(DType::F32, {1, 1, 5}, {1, nan, nan, 3, 3}), dy(DType::F32, {1, 1, 3}, {1, 2, 4});
  Attrs attrs = {{"window", Dims{3}}};
  expectEqual(run1(OpKind::MaxPool, {x}, attrs), Tensor(DType::F32, {1, 1, 3}, {nan, nan, nan}));
  expectEqual(run1(OpKind::MaxPoolGrad, {dy, x}, attrs),
              Tensor(DType::F32, {1, 1, 5}, {0, 3, 4, 0, 0}));
}

// One element, taps one before and two behind it.
TEST(RefVision, WindowsOfPaddingAlone) {
  Tensor x(DType::F32, {1, 1, 1}, {5}), one(DType::F32, {1, 1, 1}, {1});
  Attrs attrs = {{"window", Dims{2}}, {"low", Dims{1}}, {"high", Dims{2}}, {"dilations", Dims{3}}};
  expectEqual(run1(OpKind::MaxPool, {x}, attrs),
              Tensor(DType::F32, {1, 1, 1}, {-std::numeric_limits<double>::infinity()}));
  expectEqual(run1(OpKind::MaxPoolGrad, {one, x}, attrs), Tensor(DType::F32, {1, 1, 1}, {0}));
  expectEqual(run1(OpKind::AvgPool, {x}, attrs), Tensor(DType::F32, {1, 1, 1}, {0}));
}

} // namespace
} // namespace ds::optest
