// SPDX-License-Identifier: Apache-2.0
//
// The machine of ScheduleOracle.h. An instruction takes two steps, one that reads and one that writes, and any
// other stream of any rank may step in between; a collective reads when all ranks have come to it. Streams walk
// through programs as the runtime's threads do: a program ends when every stream is through with it, but for the
// instructions that may run on.
#include "test/unit/ScheduleOracleCode.h"

#include <random>

namespace ds {

using namespace oracle;

namespace {

/// What the bytes of a cell hold: bytes off, off + 1, ... of one write. w = 0: nothing.
struct Value {
  uint64_t w = 0;
  int64_t off = 0;
  uint64_t owner = 0; // the temporary or input it was written through
};

class Machine : oracle::Code {
public:
  explicit Machine(const Schedule &s) : oracle::Code(s) {}
  Outcome run(unsigned seed);

private:
  struct Thread {
    size_t position = 0; // in the sequence of programs
    size_t next = 0;     // in its list there
    bool busy = false;   // the first step is done
    bool arrived = false;
    std::vector<std::pair<int, Value>> writes; // of the second step
  };
  struct Rank {
    std::array<Thread, kStreams> threads;
    std::vector<Value> memory; // by cell
  };

  const Program &program(size_t position) const { return programs[sequence[position]]; }
  bool reached(const Rank &r, int stream, size_t position, int count) const;
  bool ready(const Rank &r, const Thread &t, const Step &step) const;
  bool go(int64_t rank, int stream);
  bool leave(int64_t rank, int stream);
  void begin(Rank &r, const Program *before) const;
  void read(int64_t rank, const Step &step, size_t position);
  void readTogether(const Step &step);
  void pack(int64_t rank, const Step &step);
  void transfer(int64_t rank, const Step &step);
  void copy(int64_t fromRank, int64_t from, Thread &t, const Cells &out, int64_t to,
            int64_t bytes) const;
  void look(int64_t rank, const Cells &c);
  bool arrivedAll() const;
  uint64_t content(int64_t rank, const Cells &c);
  uint64_t content(int64_t rank, int begin, int end, int64_t at);
  void writeAll(Thread &t, const Cells &out, uint64_t w, int64_t shift) const;
  void clobber(Rank &r, const Cells &c) const {
    for (int k = c.begin; k < c.end; ++k)
      r.memory[static_cast<size_t>(k)] = {};
  }
  void finish();

  std::minstd_rand random;
  std::vector<Rank> ranks;
  Outcome outcome;
};

/// Whether a stream has ended `count` instructions of the program at `position` of the sequence.
bool Machine::reached(const Rank &r, int stream, size_t position, int count) const {
  const Thread &t = r.threads[static_cast<size_t>(stream)];
  return t.position > position || (t.position == position && static_cast<int>(t.next) >= count);
}

bool Machine::ready(const Rank &r, const Thread &t, const Step &step) const {
  for (int other = 0; other < kStreams; ++other)
    if (int count = step.waits[static_cast<size_t>(other)];
        count > 0 && !reached(r, other, t.position, count))
      return false;
  for (int other = 0; other < kStreams && t.position > startLength; ++other) // else nothing runs on
    if (int count = step.carriedWaits[static_cast<size_t>(other)];
        count > 0 && !reached(r, other, t.position - 1, count))
      return false;
  return true;
}

uint64_t Machine::content(int64_t rank, int begin, int end, int64_t at) {
  const std::vector<Value> &m = ranks[static_cast<size_t>(rank)].memory;
  uint64_t h = 7;
  Value last;
  int64_t lastBytes = -1;
  for (int k = begin; k < end; ++k) {
    auto c = static_cast<size_t>(k);
    const Value &v = m[c];
    outcome.garbage |= v.w == 0;
    if (lastBytes < 0 || v.w != last.w || v.off != last.off + lastBytes)
      h = mix(mix(mix(h, static_cast<uint64_t>(bounds[c] - at)), v.w),
              static_cast<uint64_t>(v.off));
    last = v;
    lastBytes = bounds[c + 1] - bounds[c];
  }
  return end > begin ? mix(h, static_cast<uint64_t>(bounds[static_cast<size_t>(end)] - at)) : h;
}

/// Whether the place holds what was written through its own buffer.
void Machine::look(int64_t rank, const Cells &c) {
  const std::vector<Value> &m = ranks[static_cast<size_t>(rank)].memory;
  for (int k = c.begin; k < c.end && c.owner; ++k)
    outcome.foreign |= m[static_cast<size_t>(k)].owner != c.owner;
}

uint64_t Machine::content(int64_t rank, const Cells &c) {
  look(rank, c);
  return content(rank, c.begin, c.end, c.at);
}

void Machine::writeAll(Thread &t, const Cells &out, uint64_t w, int64_t shift) const {
  for (int k = out.begin; k < out.end; ++k)
    t.writes.emplace_back(k,
                          Value{w | 1, shift + bounds[static_cast<size_t>(k)] - out.at, out.owner});
}

/// The first step of a launch, a feed or a transfer.
void Machine::read(int64_t rank, const Step &step, size_t position) {
  auto r = static_cast<size_t>(rank);
  Thread &t = ranks[r].threads[static_cast<size_t>(step.instr->stream)];
  uint64_t h = step.key;
  if (step.instr->kind == InstrKind::Feed) { // the ring's slot is the micro-batch's
    auto micro = static_cast<int64_t>((position - startLength) % windowLength);
    h = mix(mix(h, static_cast<uint64_t>(rank)),
            static_cast<uint64_t>((position - startLength) / windowLength));
    h = mix(h, static_cast<uint64_t>(std::min(micro, s.step.gradAccum - 1)));
    h = mix(h, static_cast<uint64_t>(step.outs[0][0].at));
  }
  for (const auto &in : step.ins)
    h = mix(h, content(rank, in[r]));
  clobber(ranks[r], step.work);
  if (isTransfer(step.instr->kind))
    return transfer(rank, step);
  if (step.instr->kind == InstrKind::Launch && step.instr->op == OpKind::Pack)
    return pack(rank, step);
  for (size_t o = 0; o < step.outs.size(); ++o)
    writeAll(t, step.outs[o][r], mix(h, o), 0);
}

/// Bytes from `from` on of one rank's memory go to another's, and keep their identity.
void Machine::copy(int64_t fromRank, int64_t from, Thread &t, const Cells &out, int64_t to,
                   int64_t bytes) const {
  const std::vector<Value> &m = ranks[static_cast<size_t>(fromRank)].memory;
  for (int k = cellAt(to), end = cellAt(to + bytes); k < end; ++k) {
    int64_t byte = from + bounds[static_cast<size_t>(k)] - to;
    auto c =
        static_cast<size_t>(std::upper_bound(bounds.begin(), bounds.end(), byte) - bounds.begin()) -
        1;
    t.writes.emplace_back(k, Value{m[c].w, m[c].off + byte - bounds[c], out.owner});
  }
}

/// What it copies keeps its identity.
void Machine::transfer(int64_t rank, const Step &step) {
  auto r = static_cast<size_t>(rank);
  const Cells &in = step.ins[0][r], &out = step.outs[0][r];
  copy(rank, in.at, ranks[r].threads[static_cast<size_t>(step.instr->stream)], out, out.at,
       bounds[static_cast<size_t>(out.end)] - out.at);
}

/// Zeros, and the operands in them.
void Machine::pack(int64_t rank, const Step &step) {
  auto r = static_cast<size_t>(rank);
  Thread &t = ranks[r].threads[static_cast<size_t>(step.instr->stream)];
  const Cells &out = step.outs[0][r];
  writeAll(t, out, mix(step.key, step.packInto),
           0); // that another buffer has zeros there too is luck
  for (size_t k = 0; k < step.ins.size(); ++k)
    look(rank, step.ins[k][r]);
  for (size_t k = 0; k < step.ins.size(); ++k)
    if (const Cells &in = step.ins[k][r]; in.end > in.begin)
      copy(rank, in.at, t, out, out.at + step.packAt[k],
           bounds[static_cast<size_t>(in.end)] - in.at);
}

/// The first step of a collective, on all ranks.
void Machine::readTogether(const Step &step) {
  uint64_t sum = step.key;
  if (step.instr->kind == InstrKind::AllReduce)
    for (int64_t r = 0; r < world; ++r)
      sum = mix(sum, content(r, step.ins[0][static_cast<size_t>(r)]));
  for (int64_t r = 0; r < world; ++r) {
    Thread &t = ranks[static_cast<size_t>(r)].threads[static_cast<size_t>(Stream::Comm)];
    const Cells &out = step.outs[0][static_cast<size_t>(r)];
    if (step.instr->kind == InstrKind::AllReduce)
      writeAll(t, out, sum, 0);
    if (step.instr->kind == InstrKind::ReduceScatter) { // a slice of a sum is the sum of slices
      uint64_t h = step.key;
      for (int64_t q = 0; q < world; ++q) {
        const Cells &in = step.ins[0][static_cast<size_t>(q)];
        look(q, in);
        int64_t at = in.at + r * step.slice;
        h = mix(h, content(q, cellAt(at), cellAt(at + step.slice), at));
      }
      writeAll(t, out, h, 0);
    }
    if (step.instr->kind != InstrKind::AllGather)
      continue;
    for (int64_t q = 0; q < world; ++q) { // copies: contents keep their identity
      const Cells &in = step.ins[0][static_cast<size_t>(q)];
      content(q, in); // counts unwritten bytes
      int64_t to = out.at + q * step.slice, end = bounds[static_cast<size_t>(out.end)];
      copy(q, in.at, t, out, to, std::min(step.slice, end - to));
    }
  }
  for (Rank &r : ranks) {
    Thread &t = r.threads[static_cast<size_t>(Stream::Comm)];
    t.busy = true;
    clobber(r, step.work);
  }
}

bool Machine::arrivedAll() const {
  return std::all_of(ranks.begin(), ranks.end(), [](const Rank &r) {
    const Thread &t = r.threads[static_cast<size_t>(Stream::Comm)];
    return t.arrived && !t.busy;
  });
}

/// A program begins: inputs and temporaries hold nothing, but for what still runs of the program before. Sums hold nothing
/// in the first window, which is enough.
void Machine::begin(Rank &r, const Program *before) const {
  std::vector<Value> kept;
  if (before)
    kept = r.memory;
  for (const ArenaInfo &a : s.arenas)
    clobber(r, cells({baseOf(a.space) + a.persistentBytes, baseOf(a.space) + a.bytes}, 0));
  auto keep = [&](const Cells &c) {
    if (c.owner && c.at >> 48 == static_cast<int64_t>(Space::Host))
      std::copy(kept.begin() + c.begin, kept.begin() + c.end, r.memory.begin() + c.begin);
  };
  for (size_t t = 0; before && t < kStreams; ++t) {
    const std::vector<Step> &list = before->streams[t];
    for (size_t k = list.size() - static_cast<size_t>(before->runsOn[t]); k < list.size(); ++k)
      for (const auto *places : {&list[k].ins, &list[k].outs})
        for (const auto &byRank : *places)
          keep(byRank[0]); // the same on every rank
  }
  for (const Buffer &b : s.persistent)
    if (b.kind == BufferKind::Input)
      clobber(r, cells(b));
}

/// Goes on to the next program if this one has ended.
bool Machine::leave(int64_t rank, int stream) {
  constexpr int kCompute = static_cast<int>(Stream::Compute);
  Rank &r = ranks[static_cast<size_t>(rank)];
  Thread &t = r.threads[static_cast<size_t>(stream)];
  const Program &p = program(t.position);
  if (stream != kCompute && r.threads[kCompute].position == t.position)
    return false; // compute reads what is returned first
  if (stream == kCompute) {
    for (int other = 0; other < kStreams; ++other) {
      auto count = static_cast<int>(p.streams[static_cast<size_t>(other)].size());
      if (!reached(r, other, t.position, count - p.runsOn[static_cast<size_t>(other)]))
        return false;
    }
    for (size_t k = 0; k < p.returns.size(); ++k)
      outcome.results[(t.position * 16 + std::min<size_t>(k, 15)) * static_cast<size_t>(world) +
                      static_cast<size_t>(rank)] =
          content(rank, p.returns[k][static_cast<size_t>(rank)]);
    if (t.position + 1 < sequence.size())
      begin(r, &p);
  }
  ++t.position;
  t.next = 0;
  return true;
}

/// One step of a stream, if it can take one.
bool Machine::go(int64_t rank, int stream) {
  Rank &r = ranks[static_cast<size_t>(rank)];
  Thread &t = r.threads[static_cast<size_t>(stream)];
  if (t.position == sequence.size())
    return false;
  const std::vector<Step> &list = program(t.position).streams[static_cast<size_t>(stream)];
  if (t.next == list.size())
    return leave(rank, stream);
  const Step &step = list[t.next];
  bool together = isCollective(step.instr->kind);
  if (t.busy) {
    for (const auto &[cell, value] : t.writes)
      r.memory[static_cast<size_t>(cell)] = value;
    clobber(r, step.work);
    t.writes.clear();
    t.busy = t.arrived = false;
    ++t.next;
    return true;
  }
  if (t.arrived) {
    if (!arrivedAll())
      return false;
    readTogether(step);
    return true;
  }
  if (!ready(r, t, step))
    return false;
  if (together)
    t.arrived = true;
  else {
    read(rank, step, t.position);
    t.busy = true;
  }
  return true;
}

/// What is left when everything has ended.
void Machine::finish() {
  for (const Buffer &b : s.persistent) {
    if (b.kind == BufferKind::Accum || b.kind == BufferKind::Input)
      continue;
    Cells c = cells(b);
    uint64_t first = 0;
    for (int64_t r = 0; r < world; ++r) {
      uint64_t h = content(r, c);
      first = r == 0 ? h : first;
      outcome.ranksDiffer |= b.type.isRepl() && h != first;
      outcome.results.push_back(h);
    }
  }
}

Outcome Machine::run(unsigned seed) {
  random.seed(seed * 2654435761u + 12345);
  outcome = {};
  ranks.assign(static_cast<size_t>(world), {});
  for (int64_t r = 0; r < world; ++r) {
    Rank &rank = ranks[static_cast<size_t>(r)];
    rank.memory.resize(bounds.size() - 1);
    for (const Buffer &b : s.persistent) {
      if (b.kind == BufferKind::Accum || b.kind == BufferKind::Input || b.kind == BufferKind::Carry)
        continue;
      Cells c = cells(b);
      for (int k = c.begin; k < c.end; ++k)
        rank.memory[static_cast<size_t>(k)] = {hashText(b.name),
                                               bounds[static_cast<size_t>(k)] - c.at +
                                                   (b.type.isShard() ? r * b.type.bytes() : 0)};
    }
    begin(rank, nullptr);
  }
  outcome.results.assign(sequence.size() * 16 * static_cast<size_t>(world), 0);
  // Some streams hang back until nothing else can go on, others for a while only.
  int streams = static_cast<int>(world) * kStreams;
  std::vector<int> hangsBack(static_cast<size_t>(streams));
  for (int &h : hangsBack)
    h = random() % 3 == 0;
  bool going = true;
  while (going) {
    going = false;
    auto from = static_cast<int>(random() % static_cast<unsigned>(streams));
    if (random() % 64 == 0)
      hangsBack[static_cast<size_t>(from)] ^= 1;
    for (int pass = 0; pass < 2 && !going; ++pass)
      for (int k = 0; k < streams && !going; ++k) {
        int at = (from + k) % streams;
        if (hangsBack[static_cast<size_t>(at)] == pass)
          going = go(at / kStreams, at % kStreams);
      }
  }
  for (const Rank &r : ranks)
    for (const Thread &t : r.threads)
      outcome.stuck |= t.position != sequence.size();
  if (!outcome.stuck)
    finish();
  return std::move(outcome);
}

} // namespace

std::vector<Outcome> runWindows(const Schedule &s, unsigned seed, int runs) {
  Machine m(s);
  std::vector<Outcome> outcomes;
  for (int k = 0; k < runs; ++k)
    outcomes.push_back(m.run(seed * 64 + static_cast<unsigned>(k)));
  return outcomes;
}

} // namespace ds
