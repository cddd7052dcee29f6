// SPDX-License-Identifier: Apache-2.0
//
// The small GPT-2 against PyTorch, tensor by tensor, at 16 places of each and by norm (test/golden/README.md): gradients
// of one backward, and weights after 50 updates. Distances are relative to the tensor's own size at as many places, or,
// under Adam, to how far it moved. The tiny GPT-2 is compared whole by PytorchTest.cpp.
#include "test/unit/Gpt2.h"

#include "frontend/ConfigFile.h"

#include "llvm/Support/JSON.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

using namespace ds;
using namespace ds::test;

#ifdef DS_HAVE_CPU_DEVICE

namespace {

struct Sampled {
  std::vector<size_t> index;
  std::vector<double> values;
  double norm = 0;
};

// By tensor name; f64 takes the fields of PyTorch's run in f64.
std::map<std::string, Sampled> readGolden(const std::string &file, bool f64) {
  std::map<std::string, Sampled> out;
  std::ifstream in(inTree("test/golden/gpt2-small/" + file));
  for (std::string line; std::getline(in, line);) {
    auto json = llvm::json::parse(line);
    if (!json) {
      llvm::consumeError(json.takeError());
      return {};
    }
    const llvm::json::Object &o = *json->getAsObject();
    Sampled &s = out[o.getString("name")->str()];
    s.norm =
        *o.getNumber("norm_f64"); // PyTorch's fp32 norms are off by more than its gradients are
    for (const llvm::json::Value &v : *o.getArray("index"))
      s.index.push_back(static_cast<size_t>(*v.getAsInteger()));
    for (const llvm::json::Value &v : *o.getArray(f64 ? "value_f64" : "value"))
      s.values.push_back(*v.getAsNumber());
  }
  return out;
}

double normOf(const std::vector<double> &v) {
  double sum = 0;
  for (double x : v)
    sum += x * x;
  return std::sqrt(sum);
}

Gpt2Run small(const std::string &config, int64_t world) {
  Gpt2Run run;
  run.model = "models/gpt2-small/model.onnx";
  run.tokens = "data/train.bin";
  ConfigOverrides o;
  o.world = world;
  o.stage = world > 1 ? 3 : 0;
  o.set = {{"persistence_threshold", "512"}, {"loss", "ce:logits=logits,labels=labels"}};
  auto c = readConfig(inTree("test/golden/gpt2-small/" + config + ".ds_config.json"), o);
  EXPECT_TRUE(c.ok()) << c.status().str();
  if (c.ok())
    run.config = *c;
  return run;
}

// The gradient of a key bias is zero but for rounding, since softmax does not see it: the middle third of c_attn.bias.
bool isKeyBias(const std::string &name, size_t at, size_t size) {
  return name.find("c_attn.bias") != std::string::npos && at >= size / 3 && at < 2 * size / 3;
}

// Prints the worst as a percentage of the allowance.
class Worst {
public:
  explicit Worst(double allowed) : allowed(allowed) {}
  ~Worst() {
    std::printf("worst %.2g %% of the allowance of %g, %s\n", 100 * worst / allowed, allowed,
                where.c_str());
  }
  void add(double distance, const std::string &name) {
    EXPECT_LE(distance, allowed) << name;
    if (distance > worst)
      worst = distance, where = name;
  }

private:
  double allowed, worst = 0;
  std::string where;
};

void compareGradients(Gpt2Run run, bool f64, double allowed) {
  auto t = startGpt2(run);
  ASSERT_TRUE(t.ok()) << t.status().str();
  ASSERT_TRUE((*t)->step().ok());
  auto expected = readGolden("gradients.jsonl", f64);
  Tensors actual = gradientsOf(**t);
  ASSERT_EQ(expected.size(), 52u);
  ASSERT_EQ(actual.size(), 52u);
  Worst worst(allowed);
  for (auto &[name, e] : expected) {
    const std::vector<double> &a = actual[name];
    double difference = 0;
    for (size_t i = 0; i < e.index.size(); ++i)
      difference += std::pow(a.at(e.index[i]) - e.values[i], 2);
    double share = std::sqrt(static_cast<double>(e.index.size()) / static_cast<double>(a.size()));
    worst.add(std::sqrt(difference) / (e.norm * share), name);
    worst.add(std::abs(normOf(a) - e.norm) / e.norm, name + ", norm");
  }
}

TEST(PytorchSmall, GradientsF32) { compareGradients(small("sgd-8", 1), false, 1e-5); }

TEST(PytorchSmallSlow, GradientsF64OnRef) {
  Gpt2Run run = small("sgd-8", 2);
  run.device = "ref";
  run.config.dtype = "f64";
  compareGradients(run, true, 1e-12);
}

void compareWeights(const std::string &config, bool adam, double allowed) {
  auto t = startGpt2(small(config, 2));
  ASSERT_TRUE(t.ok()) << t.status().str();
  Tensors start = weightsOf(**t);
  for (int u = 0; u < 50; ++u)
    ASSERT_TRUE((*t)->step().ok());
  Tensors actual = weightsOf(**t);
  auto expected = readGolden(config + ".weights.jsonl", false);
  ASSERT_EQ(expected.size(), 52u);
  Worst worst(allowed);
  for (auto &[name, e] : expected) {
    const std::vector<double> &a = actual[name], &from = start[name];
    double difference = 0, size = 0;
    size_t places = 0, counted = 0;
    for (size_t i = 0; i < a.size(); ++i)
      if (!adam || !isKeyBias(name, i, a.size())) {
        size += std::pow(adam ? a[i] - from[i] : a[i], 2);
        ++counted;
      }
    for (size_t i = 0; i < e.index.size(); ++i)
      if (!adam || !isKeyBias(name, e.index[i], a.size())) {
        difference += std::pow(a.at(e.index[i]) - e.values[i], 2);
        ++places;
      }
    double share = static_cast<double>(places) / static_cast<double>(counted);
    worst.add(std::sqrt(difference / (size * share)), name);
    if (!adam)
      worst.add(std::abs(normOf(a) - e.norm) / e.norm, name + ", norm");
  }
}

TEST(PytorchSmallSlow, WeightsUnderSgd) { compareWeights("sgd-8", false, 1e-5); }
TEST(PytorchSmallSlow, WeightsUnderAdam) {
  for (const char *config : {"adamw-8", "adamw-clip-8"})
    compareWeights(config, true, 1e-3);
}

} // namespace

#endif
