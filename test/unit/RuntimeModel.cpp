// SPDX-License-Identifier: Apache-2.0
#include "test/unit/RuntimeModel.h"

#include "kernels/Registry.h"

#include <algorithm>
#include <cstdlib>

namespace ds::test {

static int64_t aligned(int64_t n) { return (n + 255) / 256 * 256; }

ScheduleMaker::ScheduleMaker(int64_t world, int64_t microBatch, int64_t gradAccum, int64_t stage) {
  s.name = "test";
  s.mesh = {{"dp", world}};
  s.step = {microBatch, gradAccum, stage};
  s.arenas.push_back({});
}

void ScheduleMaker::persistent(BufferKind kind, const std::string &name, Type type) {
  Buffer b;
  b.name = name;
  b.kind = kind;
  b.type = std::move(type);
  b.bytes = b.type.bytes();
  b.offset = s.arenas[0].persistentBytes;
  s.arenas[0].persistentBytes += aligned(b.bytes);
  s.persistent.push_back(b);
}

void ScheduleMaker::scalar(const std::string &name, Type type, double value) {
  persistent(BufferKind::Scalar, name, std::move(type));
  InitInfo init;
  init.buffer = static_cast<int>(s.persistent.size()) - 1;
  init.source.kind = Source::Kind::Splat;
  init.source.value = value;
  s.inits.push_back(init);
}

void ScheduleMaker::input(const std::string &name, Type type, InputMeta meta) {
  persistent(BufferKind::Input, name, std::move(type));
  s.inputs.push_back({name, meta});
}

void ScheduleMaker::bucket(const std::string &name, BucketInfo info) {
  int64_t local = info.sharded ? info.elems / s.world() : info.elems;
  persistent(BufferKind::Param, name, Type(info.dtype, {local}));
  info.name = name;
  s.buckets.push_back(std::move(info));
}

void ScheduleMaker::program(const std::string &name) {
  s.programs.emplace_back();
  s.programs.back().name = name;
}

void ScheduleMaker::temp(const std::string &name, Type type) {
  Buffer b;
  b.name = name;
  b.type = std::move(type);
  b.bytes = b.type.bytes();
  s.programs.back().own.push_back(b);
}

PlaceRef ScheduleMaker::place(const std::string &name) const {
  if (int i = s.findPersistent(name); i >= 0)
    return {false, i};
  const SchedProgram &p = s.programs.back();
  for (size_t i = 0; i < p.own.size(); ++i)
    if (p.own[i].name == name)
      return {false, static_cast<int>(s.persistent.size() + i)};
  for (size_t i = 0; i < p.views.size(); ++i)
    if (p.views[i].name == name)
      return {true, static_cast<int>(i)};
  std::abort(); // a typing error in a test
}

void ScheduleMaker::view(const std::string &name, const std::string &buffer, int64_t elem,
                         Type type, bool own) {
  View v;
  v.name = name;
  v.buffer = place(buffer).index;
  v.offset = elem * byteSize(type.dtype);
  v.type = std::move(type);
  v.own = own;
  s.programs.back().views.push_back(v);
}

void ScheduleMaker::add(Instr in, const std::vector<std::string> &ins,
                        const std::vector<std::string> &outs) {
  for (const std::string &n : ins)
    in.ins.push_back(place(n));
  for (const std::string &n : outs)
    in.outs.push_back(place(n));
  s.programs.back().instrs.push_back(std::move(in));
}

void ScheduleMaker::launch(OpKind op, std::vector<std::string> ins, std::vector<std::string> outs,
                           Attrs attrs, int named) {
  Instr in;
  in.op = op;
  in.named = named;
  in.attrs = std::move(attrs);
  if (!completeAttrs(in.attrs, info(op).attrs, info(op).text).ok())
    std::abort();
  in.label = named > 0 ? outs[0] : std::string(info(op).text) + "." + outs[0];
  add(std::move(in), ins, outs);
}

void ScheduleMaker::collective(InstrKind kind, const std::string &in, const std::string &out) {
  Instr i;
  i.kind = kind;
  i.stream = Stream::Comm;
  i.label = out;
  i.named = 1;
  i.attrs.set("over", std::string("dp"));
  add(std::move(i), {in}, {out});
  SchedProgram &p = s.programs.back();
  Instr &made = p.instrs.back();
  made.elems =
      std::max(resolve(s, p, made.ins[0]).type->elems(), resolve(s, p, made.outs[0]).type->elems());
}

void ScheduleMaker::feed(const std::string &input) {
  Instr i;
  i.kind = InstrKind::Feed;
  i.stream = Stream::Feed;
  i.label = "feed." + input;
  i.named = 1;
  add(std::move(i), {}, {input});
}

void ScheduleMaker::returns(const std::string &name) {
  s.programs.back().returns.push_back(place(name));
  s.programs.back().returnNames.push_back(name);
}

Schedule ScheduleMaker::finish() {
  ArenaInfo &arena = s.arenas[0];
  arena.bytes = arena.persistentBytes;
  for (SchedProgram &p : s.programs) {
    int64_t at = arena.persistentBytes;
    for (Buffer &b : p.own) {
      b.offset = at;
      at += aligned(b.bytes);
      b.first = 0;
      b.last = static_cast<int>(p.instrs.size()) - 1;
    }
    arena.bytes = std::max(arena.bytes, at);
    // Wait for the last instruction of each other stream that touches a common buffer.
    for (size_t j = 0; j < p.instrs.size(); ++j) {
      auto touched = [&](const Instr &i) {
        std::vector<int> out;
        for (const auto *list : {&i.ins, &i.outs})
          for (PlaceRef r : *list)
            out.push_back(resolve(s, p, r).bufferIndex);
        return out;
      };
      Instr &in = p.instrs[j];
      std::vector<int> mine = touched(in);
      int last[kStreams];
      std::fill_n(last, kStreams, -1);
      for (size_t i = 0; i < j; ++i)
        for (int buffer : touched(p.instrs[i]))
          if (std::find(mine.begin(), mine.end(), buffer) != mine.end())
            last[static_cast<int>(p.instrs[i].stream)] = static_cast<int>(i);
      for (int stream = 0; stream < kStreams; ++stream)
        if (last[stream] >= 0 && stream != static_cast<int>(in.stream))
          in.waits.push_back(last[stream]);
    }
  }
  arena.load = arena.bytes;
  return s;
}

static void micro(ScheduleMaker &m, const std::string &name, int64_t world, int64_t elems,
                  bool first, int64_t stage, DType t) {
  Type whole(t, {elems}), slice(t, {elems / world});
  m.program(name);
  m.feed("x");
  m.feed("y");
  std::string weights = "l0";
  if (stage == 3) {
    m.temp("l0.full", whole);
    m.collective(InstrKind::AllGather, "l0", "l0.full");
    weights = "l0.full";
  }
  m.view("w1", weights, 0, Type(t, {8, 16}));
  m.view("w2", weights, 128, Type(t, {16, 4}));
  m.temp("h", Type(t, {2, 16}));
  m.temp("a", Type(t, {2, 16}));
  m.temp("o", Type(t, {2, 4}));
  m.temp("loss", Type(t, {}));
  m.launch(OpKind::Matmul, {"x", "w1"}, {"h"});
  m.launch(OpKind::Relu, {"h"}, {"a"});
  m.launch(OpKind::Matmul, {"a", "w2"}, {"o"});
  m.launch(OpKind::Mse, {"o", "y", "inv"}, {"loss"});
  m.temp("o.grad", Type(t, {2, 4}));
  m.temp("a.grad", Type(t, {2, 16}));
  m.temp("h.grad", Type(t, {2, 16}));
  m.temp("w1.grad", Type(t, {8, 16}));
  m.temp("w2.grad", Type(t, {16, 4}));
  m.launch(OpKind::MseGrad, {"o", "y", "inv"}, {"o.grad"});
  m.launch(OpKind::Matmul, {"a", "o.grad"}, {"w2.grad"}, {{"trans_a", true}});
  m.launch(OpKind::Matmul, {"o.grad", "w2"}, {"a.grad"}, {{"trans_b", true}});
  m.launch(OpKind::ReluGrad, {"a.grad", "h"}, {"h.grad"});
  m.launch(OpKind::Matmul, {"x", "h.grad"}, {"w1.grad"}, {{"trans_a", true}});
  m.temp("l0.grad", whole);
  m.launch(OpKind::Pack, {"w1.grad", "w2.grad"}, {"l0.grad"},
           {{"at", std::vector<int64_t>{0, 128}}, {"elems", elems}});
  m.temp("l0.grad.shard", slice);
  m.collective(InstrKind::ReduceScatter, "l0.grad", "l0.grad.shard");
  auto accumulate = [&](const std::string &acc, const std::string &v) {
    if (first)
      m.launch(OpKind::Accumulate, {v}, {acc}, {{"first", true}}, 0);
    else
      m.launch(OpKind::Accumulate, {acc, v}, {acc}, {}, 0);
  };
  accumulate("l0.acc", "l0.grad.shard");
  accumulate("loss.acc", "loss");
}

static void update(ScheduleMaker &m, int64_t elems, int64_t stage, DType t) {
  m.program("update");
  Type f64(DType::F64, {}), bins(DType::I64, {67});
  m.temp("bins", bins);
  m.temp("bins.all", bins);
  m.temp("grad_norm", f64);
  m.temp("clip", f64);
  m.temp("skip", Type(DType::Bool, {}));
  m.temp("loss", Type(t, {}));
  m.collective(InstrKind::AllReduce, "loss.acc", "loss");
  m.launch(OpKind::SumSquares, {"l0.acc"}, {"bins"});
  m.collective(InstrKind::AllReduce, "bins", "bins.all");
  m.launch(OpKind::ClipFactor, {"bins.all"}, {"grad_norm", "clip", "skip"}, {{"max_norm", 1.0}}, 3);
  std::string g = "l0.acc";
  if (stage == 0) {
    m.temp("l0.grad.full", Type(t, {elems}));
    m.collective(InstrKind::AllGather, "l0.acc", "l0.grad.full");
    g = "l0.grad.full";
  }
  m.launch(OpKind::Adam, {g, "l0", "l0.m", "l0.v", "lr", "decay", "clip", "skip", "b1t", "b2t"},
           {"l0", "l0.m", "l0.v"}, {}, 0);
  m.launch(OpKind::Advance, {"b1t", "skip"}, {"b1t"}, {{"mul", 0.9}}, 0);
  m.launch(OpKind::Advance, {"b2t", "skip"}, {"b2t"}, {{"mul", 0.999}}, 0);
  for (const char *r : {"loss", "grad_norm", "clip", "skip"})
    m.returns(r);
}

Schedule makeMlp(int64_t world, int64_t gradAccum, int64_t stage, DType t) {
  constexpr int64_t rows = 2;
  ScheduleMaker m(world, rows, gradAccum, stage);
  int64_t quantum = world * kQuantum, elems = (192 + quantum - 1) / quantum * quantum;
  BucketInfo info;
  info.elems = elems;
  info.dtype = t;
  info.sharded = stage == 3;
  SegmentInfo w1, w2;
  w1.param = "w1.weight";
  w1.exportName = "fc1.weight";
  w1.shape = {8, 16};
  w2.param = "w2.weight";
  w2.shape = {16, 4};
  w2.at = 128;
  w1.source.kind = w2.source.kind = Source::Kind::Normal;
  w1.source.seed = 1;
  w2.source.seed = 2;
  w1.source.value = w2.source.value = 0.3;
  info.segments = {w1, w2};
  m.bucket("l0", info);
  int64_t stateElems = stage == 3 ? elems / world : elems;
  m.persistent(BufferKind::State, "l0.m", Type(t, {stateElems}));
  m.persistent(BufferKind::State, "l0.v", Type(t, {stateElems}));
  m.persistent(BufferKind::Accum, "l0.acc", Type(t, {elems / world}));
  m.persistent(BufferKind::Accum, "loss.acc", Type(t, {}));
  m.scalar("lr", Type(DType::F64, {1}), 0.01);
  m.scalar("decay", Type(DType::F64, {1}), 0.1);
  m.scalar("b1t", Type(DType::F64, {}), 1);
  m.scalar("b2t", Type(DType::F64, {}), 1);
  m.scalar("inv", Type(DType::F64, {}), 1.0 / static_cast<double>(rows * 4 * world * gradAccum));
  InputMeta label;
  label.role = InputMeta::Role::Label;
  m.input("x", Type(t, {rows, 8}), {});
  m.input("y", Type(t, {rows, 4}), label);
  if (gradAccum == 1) {
    micro(m, "micro.only", world, elems, true, stage, t);
  } else {
    micro(m, "micro.first", world, elems, true, stage, t);
    if (gradAccum > 2)
      micro(m, "micro.mid", world, elems, false, stage, t);
    micro(m, "micro.last", world, elems, false, stage, t);
  }
  update(m, elems, stage, t);
  return m.finish();
}

Device refDevice() {
  auto find = [](const char *op, DType t) { return findKernel(refKernels(), op, t); };
  return {"ref", {{"ref", find}}};
}

} // namespace ds::test
