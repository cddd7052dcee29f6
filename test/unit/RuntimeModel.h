// SPDX-License-Identifier: Apache-2.0
//
// Schedules written by hand for the runtime's tests: places by name, offsets one behind the other, and a wait
// wherever two streams touch one buffer. Simple instead of tight; no planner code is used.
#pragma once

#include "ir/Schedule.h"
#include "runtime/Device.h"

namespace ds::test {

class ScheduleMaker {
public:
  ScheduleMaker(int64_t world, int64_t microBatch, int64_t gradAccum, int64_t stage);

  void persistent(BufferKind kind, const std::string &name, Type type);
  void scalar(const std::string &name, Type type, double value);
  void input(const std::string &name, Type type, InputMeta meta);
  void bucket(const std::string &name, BucketInfo info);

  void program(const std::string &name); // what follows belongs to it
  void temp(const std::string &name, Type type);
  void view(const std::string &name, const std::string &buffer, int64_t elem, Type type,
            bool own = false);
  void launch(OpKind op, std::vector<std::string> ins, std::vector<std::string> outs,
              Attrs attrs = {}, int named = 1);
  void collective(InstrKind kind, const std::string &in, const std::string &out);
  void feed(const std::string &input);
  void returns(const std::string &name);

  Schedule finish();

private:
  PlaceRef place(const std::string &name) const;
  void add(Instr in, const std::vector<std::string> &ins, const std::vector<std::string> &outs);
  Schedule s;
};

/// x[2,8] -> relu(x w1[8,16]) w2[16,4] -> mse with y, one bucket of both weights, adam. Stage 0 keeps
/// everything whole, stage 3 gathers the bucket and keeps slices. Stage 0 and 3 must give equal bits.
Schedule makeMlp(int64_t world, int64_t gradAccum, int64_t stage, DType dtype = DType::F32);

Device refDevice();

} // namespace ds::test
