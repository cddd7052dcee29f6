// SPDX-License-Identifier: Apache-2.0
//
// The models that targets are measured on are valid, and hold what models usually are made of.
#include "tools/MeasureModels.h"
#include "ir/GraphText.h"
#include "passes/Passes.h"

#include <gtest/gtest.h>

#include <set>

using namespace ds;

TEST(MeasureModels, PlanOnOneAndTwoRanks) {
  std::set<std::string> ops;
  for (const MeasureModel &model : measureModels())
    for (int64_t world : {1, 2}) {
      auto m = parseModule(model.text, "measured.dsir");
      ASSERT_TRUE(m.ok()) << m.status().str();
      PlanConfig c;
      c.world = world, c.stage = 3, c.persistenceThreshold = 0;
      c.microBatch = model.rows, c.gradAccum = 1, c.trainBatch = model.rows * world;
      c.optimizer.type = "adamw";
      c.precision.bf16 = model.half;
      c.fuse = model.fuse ? "on" : "off";
      c.loss.kind = LossConfig::Kind::CrossEntropy;
      c.loss.logits = "logits";
      c.loss.labels = "labels";
      auto s = planSchedule(**m, c);
      ASSERT_TRUE(s.ok()) << s.status().str();
      for (const SchedProgram &p : s->programs)
        for (const Instr &i : p.instrs)
          ops.insert(std::string(i.kind == InstrKind::Launch ? info(i.op).text : text(i.kind)));
    }
  for (const char *op : {"matmul",
                         "add",
                         "mul",
                         "pow",
                         "tanh",
                         "tanh_grad",
                         "gelu",
                         "gelu_grad",
                         "relu_grad",
                         "sigmoid",
                         "softmax",
                         "attention",
                         "attention_grad",
                         "softmax_grad",
                         "layer_norm",
                         "layer_norm_grad",
                         "transpose",
                         "slice",
                         "concat",
                         "gather",
                         "gather_grad",
                         "reduce_sum",
                         "cross_entropy",
                         "cross_entropy_grad",
                         "conv",
                         "conv_grad_input",
                         "conv_grad_weight",
                         "batch_norm",
                         "batch_norm_grad",
                         "max_pool",
                         "max_pool_grad",
                         "avg_pool",
                         "avg_pool_grad",
                         "adam",
                         "sum_squares",
                         "cast",
                         "all_gather",
                         "reduce_scatter",
                         "all_reduce"})
    EXPECT_TRUE(ops.count(op)) << op;
}
