// SPDX-License-Identifier: Apache-2.0
#include "runtime/Executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>

namespace ds {

static int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

StatusOr<std::vector<size_t>> updateSequence(const Schedule &s) {
  std::vector<std::string> names;
  if (s.step.gradAccum == 1)
    names.push_back("micro.only");
  for (int64_t m = 0; s.step.gradAccum > 1 && m < s.step.gradAccum; ++m)
    names.push_back(m == 0                      ? "micro.first"
                    : m == s.step.gradAccum - 1 ? "micro.last"
                                                : "micro.mid");
  names.push_back("update");
  std::vector<size_t> out;
  for (const std::string &name : names) {
    const SchedProgram *p = s.program(name);
    if (!p)
      return Status::error(fmt::format("the schedule has no program {}, which {} micro-batches per "
                                       "update need",
                                       name, s.step.gradAccum));
    out.push_back(static_cast<size_t>(p - s.programs.data()));
  }
  return out;
}

RankExecutor::RankExecutor(const Schedule &s, const LoadedRank &rank,
                           const std::vector<size_t> &sequence, Comm &comm, FeedSource *feeder,
                           Abort &abort, TraceRing *trace)
    : schedule(s), rank(rank), sequence(sequence), comm(comm), feeder(feeder), abort(abort),
      trace(trace), results(rank.valueNames.size()) {
  if (const SchedProgram *p = s.program("start"))
    start = static_cast<int>(p - s.programs.data());
  if (const SchedProgram *p = s.program("eval"))
    eval = static_cast<int>(p - s.programs.data());
  for (size_t v = 0; v < rank.valueNames.size(); ++v) {
    if (rank.valueNames[v] == "eval_loss")
      lossValue = v;
    if (rank.valueNames[v] == "eval_count")
      countValue = v;
  }
}

void RankExecutor::runEval(Stream s, int64_t update, int64_t batches, FeedSource &data) {
  int stream = static_cast<int>(s);
  if (!started[stream].set && start >= 0 &&
      !runProgram(static_cast<size_t>(start), 0, stream, update, &data))
    return;
  started[stream].set = true;
  if (s == Stream::Compute)
    evalSum = evalCount = 0;
  for (int64_t b = 0; b < batches; ++b) {
    if (!runProgram(static_cast<size_t>(eval), 0, stream, update, &data))
      return;
    if (s == Stream::Feed)
      data.release(rank.rank);
    if (s != Stream::Compute)
      continue;
    evalSum += results[lossValue] * results[countValue];
    evalCount += results[countValue];
  }
}

void RankExecutor::runUpdate(Stream s, int64_t update) {
  int stream = static_cast<int>(s);
  if (!started[stream].set && start >= 0 &&
      !runProgram(static_cast<size_t>(start), 0, stream, update, feeder))
    return;
  started[stream].set = true;
  for (size_t position = 0; position < sequence.size(); ++position)
    if (!runProgram(sequence[position], position, stream, update, feeder))
      return;
  if (s == Stream::Feed && feeder)
    feeder->release(rank.rank);
}

bool RankExecutor::waitFor(int self, int stream, uint32_t count, StreamTimes &clock) {
  uint32_t target = bases[self].counts[stream] + count;
  if (done[stream].reached(target))
    return settle(self, stream, target) && !abort.raised();
  int64_t begin = now();
  bool ok = done[stream].wait(target, abort) && settle(self, stream, target);
  if (stream == static_cast<int>(Stream::Comm))
    clock.commWait += now() - begin;
  else if (stream >= static_cast<int>(Stream::Host))
    clock.ioWait += now() - begin;
  return ok;
}

bool RankExecutor::runProgram(size_t program, size_t position, int stream, int64_t update,
                              FeedSource *data) {
  const LoadedProgram &p = rank.programs[program];
  StreamTimes &clock = clocks[stream];
  for (const LoadedInstr &in : p.streams[stream]) {
    places[stream] = {&p, in.instr, update};
    for (int w = 0; w < in.numWaits; ++w)
      if (!waitFor(stream, in.waits[w].stream, in.waits[w].count, clock))
        return false;
    int64_t begin = now(), waited = clock.dataWait;
    if (const char *message = execute(in, position, data, clock)) {
      fail(p, *in.instr, update, message);
      return false;
    }
    int64_t end = now();
    clock.busy += end - begin - (clock.dataWait - waited);
    if (trace)
      trace[stream].add({update, begin, end, static_cast<int32_t>(program),
                         static_cast<int32_t>(in.instr - p.program->instrs.data())});
    passed(stream, done[stream].value() + 1);
    done[stream].add();
  }
  places[stream] = {&p, nullptr, update};

  // Programs join. The compute stream comes last: it reads what the program returns, and its own end then
  // lets the others go on to the next program, which may reuse those bytes.
  constexpr int kCompute = static_cast<int>(Stream::Compute);
  for (int other = 0; other < kStreams; ++other) {
    auto count = static_cast<uint32_t>(p.streams[other].size());
    count -= p.carried[other];
    if (stream != kCompute && other != kCompute)
      continue;
    if (other != stream && !waitFor(stream, other, count + (other == kCompute), clock))
      return false;
  }
  if (stream == kCompute) {
    for (const LoadedReturn &r : p.returns)
      results[r.value] = r.number();
    done[kCompute].add();
  }
  for (int s = 0; s < kStreams; ++s)
    bases[stream].counts[s] += static_cast<uint32_t>(p.streams[s].size()) + (s == kCompute);
  return !abort.raised();
}

void RankExecutor::runInOrder(int64_t update, InstrHook &hook) {
  if (!started[0].set && start >= 0 &&
      !runProgramInOrder(static_cast<size_t>(start), 0, update, hook))
    return;
  started[0].set = true;
  for (size_t position = 0; position < sequence.size(); ++position)
    if (!runProgramInOrder(sequence[position], position, update, hook))
      return;
  if (feeder)
    feeder->release(rank.rank);
}

bool RankExecutor::runProgramInOrder(size_t program, size_t position, int64_t update,
                                     InstrHook &hook) {
  const LoadedProgram &p = rank.programs[program];
  size_t next[kStreams] = {};
  const char *message = hook.beginProgram(p);
  for (const Instr &i : p.program->instrs) {
    int stream = static_cast<int>(i.stream);
    const LoadedInstr &in = p.streams[stream][next[stream]++];
    if (!message)
      message = hook.before(p, in);
    if (!message)
      message = execute(in, position, feeder, clocks[stream]);
    if (!message)
      message = hook.after(p, in);
    if (message) {
      fail(p, i, update, message);
      return false;
    }
  }
  for (const LoadedReturn &r : p.returns)
    results[r.value] = r.number();
  return !abort.raised();
}

const char *RankExecutor::execute(const LoadedInstr &in, size_t position, FeedSource *data,
                                  StreamTimes &clock) {
  if (in.instr->kind == InstrKind::Launch)
    return in.kernel->run(&in.launch, in.state);
  if (in.instr->kind == InstrKind::Read || in.instr->kind == InstrKind::Write)
    return moveBlocks(in);
  if (isTransfer(in.instr->kind)) {
    std::memcpy(in.dst, in.src, in.bytes);
    return nullptr;
  }
  if (in.instr->kind != InstrKind::Feed)
    return comm.run(in.comm) ? nullptr : "stopped, because the job was aborted";
  if (!data)
    return "no data was given";
  int64_t begin = now();
  auto micro = std::min(static_cast<int64_t>(position), schedule.step.gradAccum - 1);
  const void *src = data->data(rank.rank, micro, in.input, abort);
  clock.dataWait += now() - begin;
  if (!src) {
    if (Status s = data->error(); !s.ok())
      abort.raise(std::move(s));
    return "stopped, because the job was aborted";
  }
  std::memcpy(in.dst, src, in.bytes);
  return nullptr;
}

const char *RankExecutor::moveBlocks(const LoadedInstr &in) {
  auto bytes = static_cast<int64_t>(in.bytes);
  Status s = in.instr->kind == InstrKind::Read ? rank.file()->read(in.at, in.dst, bytes, abort)
                                               : rank.file()->write(in.at, in.src, bytes, abort);
  if (s.ok())
    return nullptr;
  Status &kept = ioErrors[static_cast<int>(in.instr->stream)];
  kept = std::move(s);
  return kept.entries()[0].text.c_str();
}

void RankExecutor::fail(const LoadedProgram &p, const Instr &in, int64_t update,
                        const char *message) {
  if (abort.raised()) // the cause is known; this is a consequence
    return;
  std::string_view op = in.kind == InstrKind::Launch ? info(in.op).text : text(in.kind);
  OriginInfo from;
  if (in.origin >= 0)
    from = schedule.origins[static_cast<size_t>(in.origin)];
  std::string node = from.node.empty() ? "" : " of " + from.node;
  std::string when = // `forward` runs outside of training
      p.program->name == "forward" ? "" : fmt::format("update {}: ", update + 1);
  Status s = Status::error(fmt::format("{}{}: {} ({}{}): {}", when, p.program->name, in.label, op,
                                       node, message))
                 .at(fmt::format("rank {}", rank.rank));
  // What the file's own error says beside its text.
  if (const Status &io = ioErrors[static_cast<int>(in.stream)]; !io.ok()) {
    s = std::move(s).note("the file is " + io.entries()[0].place);
    for (const std::string &note : io.entries()[0].notes)
      s = std::move(s).note(note);
  }
  if (!from.pass.empty())
    s = std::move(s).note(fmt::format("{} was inserted by {}", in.label, from.pass));
  abort.raise(std::move(s));
}

} // namespace ds
