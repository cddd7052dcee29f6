// SPDX-License-Identifier: Apache-2.0
#include "test/property/Rows.h"

namespace ds::property {

const std::vector<Row> &rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> list;
    addMatrixRows(list);
    addElementwiseRows(list);
    addMovementRows(list);
    addWindowRows(list);
    return list;
  }();
  return all;
}

const std::vector<int> &layerRows() {
  static const std::vector<int> layers = [] {
    std::vector<int> list;
    for (size_t i = 0; i < rows().size(); ++i)
      if (rows()[i].isLayer)
        list.push_back(static_cast<int>(i));
    return list;
  }();
  return layers;
}

const std::vector<std::pair<OpKind, const char *>> &notDrawn() {
  static const char *gradient = "autodiff makes it", *pass = "a pass makes it";
  static const std::vector<std::pair<OpKind, const char *>> list = {
      {OpKind::ReluGrad, gradient},
      {OpKind::GeluGrad, gradient},
      {OpKind::TanhGrad, gradient},
      {OpKind::GatherGrad, gradient},
      {OpKind::SoftmaxGrad, gradient},
      {OpKind::LayerNormGrad, gradient},
      {OpKind::RmsNormGrad, gradient},
      {OpKind::AttentionGrad, gradient},
      {OpKind::LinearGrad, gradient},
      {OpKind::LinearGeluGrad, pass},
      {OpKind::LinearCrossEntropyGrad, gradient},
      {OpKind::BatchNormGrad, gradient},
      {OpKind::ConvGradWeight, gradient},
      {OpKind::MaxPoolGrad, gradient},
      {OpKind::AvgPoolGrad, gradient},
      {OpKind::CrossEntropyGrad, gradient},
      {OpKind::MseGrad, gradient},
      {OpKind::Copy, pass},
      {OpKind::Pointwise, pass},
      {OpKind::View, pass},
      {OpKind::Own, pass},
      {OpKind::Pack, pass},
      {OpKind::Accumulate, pass},
      {OpKind::SumSquares, pass},
      {OpKind::ClipFactor, pass},
      {OpKind::LrSchedule, pass},
      {OpKind::LossScale, pass},
      {OpKind::Advance, pass},
      {OpKind::Sgd, pass},
      {OpKind::Adam, pass},
      {OpKind::AdamRound, pass},
      {OpKind::AddLayerNorm, pass},
      {OpKind::AddRmsNorm, pass},
      {OpKind::AllGather, pass},
      {OpKind::ReduceScatter, pass},
      {OpKind::AllReduce, pass},
      {OpKind::Offload, pass},
      {OpKind::Fetch, pass},
      {OpKind::Read, pass},
      {OpKind::Write, pass},
      {OpKind::BatchNorm, "it mixes samples"},
      {OpKind::Track, "the importer makes it, for statistics of batches"},
      {OpKind::InvCount, "the count of a whole micro-batch mixes samples"},
      {OpKind::Mse, "the config's loss draws it"},
      {OpKind::LinearCrossEntropy, "it is a loss; the config's loss draws those"},
      {OpKind::CrossEntropy, "the config's loss and the head draw it"},
  };
  return list;
}

} // namespace ds::property
