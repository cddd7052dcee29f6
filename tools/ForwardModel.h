// SPDX-License-Identifier: Apache-2.0
//
// From a model and what is fed to the plan of one run, forward or vjp.
#pragma once

#include "frontend/OnnxImport.h"
#include "ir/Schedule.h"
#include "runtime/Forward.h"

#include <map>
#include <string>

namespace ds {

struct ForwardRequest {
  std::string path; // MODEL.onnx, MODEL.onnxtext, MODEL.dsir, or a PLAN.dsched of program forward
  std::map<std::string, FedArray> feeds; // by input
  bool vjp = false;
  bool assumeDims =
      false; // one row, and the extents that the model was exported with, where nothing gives others
  std::string wrt;     // vjp: regex
  std::string weights; // safetensors file, or empty
  int threads = 0;     // of kernels; 0: the machine's cores
};

struct ForwardPlan {
  Schedule schedule; // empty after --stop-after
  std::vector<WeightRange> weights;
  std::map<std::string, std::string> cotangents;  // vjp: input -> output
  std::map<std::string, std::string> resultNames; // of the program's returns, as files are called
};

StatusOr<ForwardPlan> planForward(const ForwardRequest &r);

} // namespace ds
