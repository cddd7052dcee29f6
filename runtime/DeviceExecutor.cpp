// SPDX-License-Identifier: Apache-2.0
#include "runtime/DeviceExecutor.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>

namespace ds {

static constexpr int kCompute = static_cast<int>(Stream::Compute);
static constexpr size_t kMarks = 4096; // of a stream; a host thread is never that far behind

static constexpr size_t kLeastSegment = 3; // launches; fewer are not worth a graph

static int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

static bool onDevice(int stream) { return DeviceSide::executes(static_cast<Stream>(stream)); }

DeviceExecutor::DeviceExecutor(const Schedule &s, const LoadedRank &rank,
                               const std::vector<size_t> &sequence, Comm &comm, FeedSource *feeder,
                               Abort &abort, TraceRing *trace)
    : RankExecutor(s, rank, sequence, comm, feeder, abort, trace), side(*rank.deviceSide()),
      api(side.api()) {}

// ---- events -----------------------------------------------------------------------------------------

// Count `count` of a stream in a program; at most 0: in the update before it, counted from its end.
const Instr *DeviceExecutor::instrAt(size_t program, int stream, uint32_t count, size_t *of) const {
  auto n = static_cast<int32_t>(count);
  *of = program;
  if (n <= 0) {
    *of = static_cast<size_t>(schedule.program("update") - schedule.programs.data());
    n += static_cast<int32_t>(rank.programs[*of].streams[stream].size());
  }
  return rank.programs[*of].streams[stream][static_cast<size_t>(n - 1)].instr;
}

void *DeviceExecutor::eventOf(size_t program, const Instr *i) const {
  const LoadedProgram &p = rank.programs[program];
  return events[program].ofInstr[static_cast<size_t>(i - p.program->instrs.data())];
}

// In list order. What a launch waits for that an earlier one has waited for already is no wait.
void DeviceExecutor::findSegments(size_t program) {
  const LoadedProgram &p = rank.programs[program];
  std::deque<Segment> found;
  int32_t covered[kStreams];
  std::fill(std::begin(covered), std::end(covered), INT32_MIN);
  for (const LoadedInstr &in : p.streams[kCompute]) {
    bool waits = false;
    for (int w = 0; w < in.numWaits; ++w) {
      int32_t &c = covered[in.waits[w].stream];
      waits |= static_cast<int32_t>(in.waits[w].count) > c;
      c = std::max(c, static_cast<int32_t>(in.waits[w].count));
    }
    if (waits || found.empty())
      found.emplace_back();
    found.back().launches.push_back(&in);
  }
  for (Segment &s : found)
    if (s.launches.size() >= kLeastSegment)
      segments[program].push_back(std::move(s));
  within[program].resize(p.program->instrs.size());
  for (Segment &s : segments[program])
    for (const LoadedInstr *in : s.launches)
      within[program][static_cast<size_t>(in->instr - p.program->instrs.data())] = &s;
}

Status DeviceExecutor::prepare(bool graphs) {
  std::vector<std::vector<bool>> wanted;
  for (const LoadedProgram &p : rank.programs)
    wanted.emplace_back(p.program->instrs.size(), false);
  for (size_t p = 0; p < rank.programs.size(); ++p) {
    const LoadedProgram &loaded = rank.programs[p];
    for (int s = 0; s < kStreams; ++s) {
      for (const LoadedInstr &in : loaded.streams[s])
        for (int w = 0; w < in.numWaits; ++w) {
          size_t of;
          const Instr *i = instrAt(p, in.waits[w].stream, in.waits[w].count, &of);
          wanted[of][static_cast<size_t>(i - rank.programs[of].program->instrs.data())] = true;
        }
      // What the program's end, or the next one's, waits for on this stream.
      for (size_t last : {loaded.streams[s].size(), loaded.streams[s].size() - loaded.carried[s]})
        if (last > 0)
          wanted[p][static_cast<size_t>(loaded.streams[s][last - 1].instr -
                                        loaded.program->instrs.data())] = true;
    }
  }
  for (size_t p = 0; p < rank.programs.size(); ++p) {
    Events e;
    for (size_t k = 0; k < wanted[p].size(); ++k) {
      e.ofInstr.push_back(nullptr);
      if (!wanted[p][k] || !DeviceSide::executes(rank.programs[p].program->instrs[k].stream))
        continue;
      TRY_ASSIGN(e.ofInstr.back(), side.event());
    }
    TRY_ASSIGN(e.end, side.event());
    events.push_back(std::move(e));
  }
  TRY_ASSIGN(fed, side.event());
  segments.resize(rank.programs.size());
  within.resize(rank.programs.size());
  for (size_t p = 0; p < rank.programs.size(); ++p)
    if (graphs)
      findSegments(p);
    else
      within[p].resize(rank.programs[p].program->instrs.size());
  side.settled(); // all that this thread has loaded
  return {};
}

void DeviceExecutor::setMark(int stream, void *event) {
  std::lock_guard lock(marksMutex);
  marks[stream].push_back({done[stream].value() + 1, event});
  if (marks[stream].size() > kMarks)
    marks[stream].pop_front();
}

// For the host's threads: enqueued is not done.
bool DeviceExecutor::settle(int self, int stream, uint32_t target) {
  if (!onDevice(stream)) {
    if (api.order)
      api.order->awaited(&done[stream], target, self == kCompute ? awaiting : nullptr);
    return true;
  }
  void *event = nullptr;
  {
    std::lock_guard lock(marksMutex);
    for (const Mark &m : marks[stream])
      if (static_cast<int32_t>(m.count - target) >= 0) {
        event = m.event;
        break;
      }
  }
  const char *message = event ? api.eventSync(event) : nullptr;
  const auto &[program, instr, update] = places[self];
  if (!message || !program || !instr)
    return ok(message, update, program, "end");
  fail(*program, *instr, update, message);
  return false;
}

// What the host's threads do, an emulated device compares with what it does itself.
const char *DeviceExecutor::execute(const LoadedInstr &in, size_t position, FeedSource *data,
                                    StreamTimes &clock) {
  if (api.order) {
    api.order->label("", in.instr->label.c_str());
    const char *message = nullptr;
    if (in.instr->kind == InstrKind::Launch)
      message = api.order->runs(&in.launch);
    else if (in.src) // into a file
      message = api.order->touches(in.src, in.bytes, 0);
    else
      message = api.order->touches(in.dst, in.bytes, 1);
    if (message)
      return message;
  }
  return RankExecutor::execute(in, position, data, clock);
}

void DeviceExecutor::passed(int stream, uint32_t count) {
  if (api.order)
    api.order->reached(&done[stream], count);
}

void DeviceExecutor::label(const LoadedProgram &p, const char *instr) const {
  if (api.order)
    api.order->label(p.program->name.c_str(), instr);
}

bool DeviceExecutor::ok(const char *message, int64_t update, const LoadedProgram *p,
                        const char *at) {
  if (message && !abort.raised())
    abort.raise(
        Status::error(fmt::format("{}{}{}{}{}",
                                  update < 0 ? "" : fmt::format("update {}: ", update + 1),
                                  p ? p->program->name + ": " : "", at, *at ? ": " : "", message))
            .at(fmt::format("rank {}", rank.rank))
            .note("what the device does, it reports late: at this instruction, or at one before"));
  return !message;
}

// ---- enqueuing --------------------------------------------------------------------------------------

const char *DeviceExecutor::enqueue(const LoadedInstr &in, size_t position, FeedSource *data) {
  if (in.instr->kind == InstrKind::Launch)
    return in.kernel->run(&in.launch, in.state);
  if (isTransfer(in.instr->kind))
    return api.copy(in.dst, in.src, in.bytes, side.stream(in.instr->stream));
  if (in.instr->kind != InstrKind::Feed)
    return comm.run(in.comm) ? nullptr : comm.message();
  if (!data)
    return "no data was given";
  auto micro = std::min(static_cast<int64_t>(position), schedule.step.gradAccum - 1);
  const void *src = data->data(rank.rank, micro, in.input, abort);
  if (!src) {
    if (Status s = data->error(); !s.ok())
      abort.raise(std::move(s));
    return "stopped, because the job was aborted";
  }
  return api.copy(in.dst, src, in.bytes, side.stream(Stream::Feed));
}

bool DeviceExecutor::awaitOthers(size_t program, const LoadedInstr &in, int64_t update) {
  awaiting = side.stream(in.instr->stream);
  for (int w = 0; w < in.numWaits; ++w) {
    int stream = in.waits[w].stream;
    if (!onDevice(stream)) {
      if (!waitFor(kCompute, stream, in.waits[w].count, clocks[kCompute]))
        return false;
      continue;
    }
    size_t of;
    const Instr *i = instrAt(program, stream, in.waits[w].count, &of);
    if (const char *m = api.eventWait(side.stream(in.instr->stream), eventOf(of, i))) {
      fail(rank.programs[program], *in.instr, update, m);
      return false;
    }
  }
  return true;
}

// The host's threads may now wait for it.
void DeviceExecutor::issued(int stream, void *event) {
  if (event)
    setMark(stream, event);
  done[stream].add();
  ++spent.instrs;
}

// With a trace every instruction runs by itself, from when it is enqueued until the host has seen it end.
const char *DeviceExecutor::finish(size_t program, const LoadedInstr &in, int index, int64_t begin,
                                   int64_t update) {
  const char *message = api.streamSync(side.stream(in.instr->stream));
  trace[static_cast<int>(in.instr->stream)].add(
      {update, begin, nowNs(), static_cast<int32_t>(program), index});
  return message;
}

bool DeviceExecutor::issue(size_t program, const LoadedInstr &in, int index, size_t position,
                           int64_t update, FeedSource *data) {
  if (!awaitOthers(program, in, update))
    return false;
  int64_t begin = nowNs();
  label(rank.programs[program], in.instr->label.c_str());
  const char *message = enqueue(in, position, data);
  void *event = events[program].ofInstr[static_cast<size_t>(index)];
  if (!message && event)
    message = api.eventRecord(event, side.stream(in.instr->stream));
  if (!message && trace)
    message = finish(program, in, index, begin, update);
  if (message) {
    fail(rank.programs[program], *in.instr, update, message);
    return false;
  }
  if (!isCollective(in.instr->kind))
    spent.ns += nowNs() - begin;
  issued(static_cast<int>(in.instr->stream), event);
  return !abort.raised();
}

// Errors of a launch's enqueuing come here, and are that launch's.
bool DeviceExecutor::capture(size_t program, Segment &s, int64_t update) {
  void *stream = side.stream(Stream::Compute);
  const LoadedInstr *at = s.launches[0];
  const char *message = api.captureBegin(stream);
  bool begun = !message;
  for (size_t k = 0; k < s.launches.size() && !message; ++k) {
    at = s.launches[k];
    label(rank.programs[program], at->instr->label.c_str());
    message = at->kernel->run(&at->launch, at->state);
    if (void *event = eventOf(program, at->instr); event && !message)
      message = api.captureRecord(event, stream);
  }
  if (message) {
    fail(rank.programs[program], *at->instr, update, message);
    if (begun)
      api.captureEnd(stream, nullptr);
    return false;
  }
  message = api.captureEnd(stream, &s.graph);
  if (s.graph)
    side.keepGraph(s.graph);
  if (message)
    fail(rank.programs[program], *s.launches[0]->instr, update, message);
  return !message;
}

bool DeviceExecutor::issueSegment(size_t program, Segment &s, int64_t update) {
  if (!awaitOthers(program, *s.launches[0], update) || (!s.graph && !capture(program, s, update)))
    return false;
  int64_t begin = nowNs();
  if (const char *message = api.graphLaunch(s.graph, side.stream(Stream::Compute))) {
    fail(rank.programs[program], *s.launches[0]->instr, update, message);
    return false;
  }
  spent.ns += nowNs() - begin;
  ++spent.graphs;
  for (const LoadedInstr *in : s.launches)
    issued(kCompute, eventOf(program, in->instr));
  return !abort.raised();
}

bool DeviceExecutor::issueProgram(size_t program, size_t position, int64_t update,
                                  FeedSource *data) {
  const LoadedProgram &p = rank.programs[program];
  if (before >= 0) // the streams begin behind the end of the program before
    for (int s = 0; s < kStreams; ++s)
      if (onDevice(s) && s != kCompute && !p.streams[s].empty() &&
          !ok(api.eventWait(side.stream(static_cast<Stream>(s)),
                            events[static_cast<size_t>(before)].end),
              update, &p, "begin"))
        return false;
  size_t next[kStreams] = {};
  int index = 0;
  for (const Instr &i : p.program->instrs) {
    auto stream = static_cast<int>(i.stream);
    const LoadedInstr &in = p.streams[stream][next[stream]++];
    Segment *segment = within[program][static_cast<size_t>(index)];
    if (segment && segment->launches[0] == &in) {
      segment->byOne = !segment->isWarm;
      segment->isWarm = true;
      if (!segment->byOne && !issueSegment(program, *segment, update))
        return false;
    }
    if ((!segment || segment->byOne) && onDevice(stream) &&
        !issue(program, in, index, position, update, data))
      return false;
    ++index;
  }
  int previous = before;
  before = static_cast<int>(program);
  return joinStreams(program, previous, update);
}

// The compute stream waits for all others, with what the program before has left running, and what it has then got to is
// the program's end.
bool DeviceExecutor::joinStreams(size_t program, int previous, int64_t update) {
  const LoadedProgram &p = rank.programs[program];
  awaiting = side.stream(Stream::Compute);
  for (int s = 0; s < kStreams; ++s) {
    size_t ended = p.streams[s].size() - p.carried[s];
    if (s == kCompute)
      continue;
    if (!onDevice(s)) {
      if (!waitFor(kCompute, s, static_cast<uint32_t>(ended), clocks[kCompute]))
        return false;
      continue;
    }
    size_t of = program;
    if (ended == 0) {
      if (previous < 0 || rank.programs[static_cast<size_t>(previous)].carried[s] == 0)
        continue;
      of = static_cast<size_t>(previous);
      ended = rank.programs[of].streams[s].size();
    }
    const LoadedProgram &from = rank.programs[of];
    auto last = from.streams[s][ended - 1].instr - from.program->instrs.data();
    void *event = events[of].ofInstr[static_cast<size_t>(last)];
    if (!ok(api.eventWait(side.stream(Stream::Compute), event), update, &p, "end"))
      return false;
  }
  label(p, "returns");
  for (const LoadedReturn &r : p.returns)
    if (r.onDevice && !r.empty &&
        !ok(api.copy(const_cast<void *>(r.data), r.onDevice,
                     static_cast<size_t>(byteSize(r.type->dtype)), side.stream(Stream::Compute)),
            update, &p, rank.valueNames[r.value].c_str()))
      return false;
  if (!ok(api.eventRecord(events[program].end, side.stream(Stream::Compute)), update, &p, "end"))
    return false;
  setMark(kCompute, events[program].end);
  done[kCompute].add();
  for (int s = 0; s < kStreams; ++s)
    bases[kCompute].counts[s] += static_cast<uint32_t>(p.streams[s].size()) + (s == kCompute);
  return true;
}

// The thread waits until the program's values are there.
bool DeviceExecutor::readResults(size_t program, int64_t update) {
  if (!ok(api.eventSync(events[program].end), update, &rank.programs[program], "end"))
    return false;
  for (size_t p = 0; p < rank.programs.size(); ++p)
    if (p == program || std::count(sequence.begin(), sequence.end(), p))
      for (const LoadedReturn &r : rank.programs[p].returns) {
        label(rank.programs[p], "returns");
        auto bytes = static_cast<size_t>(byteSize(r.type->dtype));
        if (api.order && !r.empty && !ok(api.order->touches(r.data, bytes, 0), update))
          return false;
        results[r.value] = r.number();
      }
  const DsFault &f = *side.fault();
  if (f.set == 0)
    return true;
  char text[256];
  std::snprintf(text, sizeof text, api.faultText(f.code), static_cast<long long>(f.a),
                static_cast<long long>(f.b));
  auto [where, instr] = rank.launchOf(f.id);
  fail(rank.programs[where], *instr, update, text);
  return false;
}

// ---- updates ----------------------------------------------------------------------------------------

// Of the calling thread.
bool DeviceExecutor::useDevice(Stream s, int64_t update) {
  Status status = side.use();
  if (!status.ok())
    abort.raise(std::move(status).at(fmt::format("rank {}, update {}", rank.rank, update + 1)));
  if (api.order) // the caller has seen the last update end; what is carried may run on
    api.order->awaited(this, begun[static_cast<int>(s)]++, nullptr);
  side.begin();
  return !abort.raised();
}

// By the compute thread.
void DeviceExecutor::ended() {
  if (api.order)
    api.order->reached(this, begun[kCompute]);
}

void DeviceExecutor::runUpdate(Stream s, int64_t update) {
  if (!useDevice(s, update))
    return;
  if (s == Stream::Feed) {
    // The ring's slot is free once its copies are done.
    if (fedUpdates.wait(++fedBefore, abort) &&
        ok(api.eventSync(fed), update, nullptr, "end of the feeds") && feeder)
      feeder->release(rank.rank);
    return;
  }
  if (s != Stream::Compute)
    return RankExecutor::runUpdate(s, update);
  int64_t begin = nowNs();
  if (!started[kCompute].set && start >= 0 &&
      !issueProgram(static_cast<size_t>(start), 0, update, feeder))
    return;
  started[kCompute].set = true;
  for (size_t position = 0; position < sequence.size(); ++position)
    if (!issueProgram(sequence[position], position, update, feeder))
      return;
  if (!ok(api.eventRecord(fed, side.stream(Stream::Feed)), update, nullptr, "end of the feeds"))
    return;
  fedUpdates.add();
  readResults(sequence.back(), update);
  ended();
  clocks[kCompute].busy += nowNs() - begin;
}

void DeviceExecutor::runEval(Stream s, int64_t update, int64_t batches, FeedSource &data) {
  if (!useDevice(s, update) || s == Stream::Feed)
    return;
  if (s != Stream::Compute)
    return RankExecutor::runEval(s, update, batches, data);
  if (!started[kCompute].set && start >= 0 &&
      !issueProgram(static_cast<size_t>(start), 0, update, &data))
    return;
  started[kCompute].set = true;
  evalSum = evalCount = 0;
  for (int64_t b = 0; b < batches; ++b) {
    if (!issueProgram(static_cast<size_t>(eval), 0, update, &data) ||
        !readResults(static_cast<size_t>(eval), update))
      return;
    data.release(rank.rank);
    evalSum += results[lossValue] * results[countValue];
    evalCount += results[countValue];
  }
  ended();
}

} // namespace ds
