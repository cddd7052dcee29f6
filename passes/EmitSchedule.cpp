// SPDX-License-Identifier: Apache-2.0
//
// Graph to schedule: tables, then one instruction per op that is not a view, in program order. Streams follow
// from the instruction's kind (Instrs.def); waits and intervals from the bytes that instructions touch.
//
// What ends `update` runs on into the next micro-batch: gathers of new weights, and with the optimizer on the host its
// launches and transfers. At stage 3 gathers are none of the graph's, so
// the first bucket that a micro-batch needs can be carried: gathered behind its optimizer into a buffer that stays,
// and by `start` before the first update; then no other program gathers it.
#include "passes/Emit.h"
#include "passes/PassManager.h"
#include "passes/Precision.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <array>
#include <set>

namespace ds {

namespace {

BufferKind bufferKind(SymbolKind k) {
  switch (k) {
  case SymbolKind::Param:
  case SymbolKind::Bucket:
    return BufferKind::Param;
  case SymbolKind::State:
    return BufferKind::State;
  case SymbolKind::Accum:
    return BufferKind::Accum;
  case SymbolKind::Scalar:
    return BufferKind::Scalar;
  case SymbolKind::Const:
    return BufferKind::Const;
  }
  return BufferKind::Const;
}

class Emitter {
public:
  Emitter(const Module &m, const PlanConfig &c, bool carryGather)
      : module(m), config(c), carryGather(carryGather) {}

  StatusOr<Schedule> run() {
    out.name = module.name;
    out.directory = module.directory;
    out.mesh = module.mesh;
    out.step = {config.microBatch, config.gradAccum, config.stage};
    symbols();
    inputs();
    if (carryGather)
      start();
    for (Program *p : module.programs())
      TRY(program(*p));
    if (config.overlap && config.carry != "off" && module.program("update"))
      carry();
    return std::move(out);
  }

private:
  void persistent(const std::string &name, BufferKind kind, const Type &t) {
    Buffer b;
    b.name = name;
    b.kind = kind;
    b.type = t;
    b.bytes = t.bytes();
    out.persistent.push_back(b);
  }

  void symbols() {
    llvm::DenseMap<const Symbol *, std::string> masters;
    for (Program *p : module.programs())
      for (Op &op : p->ops)
        if (op.info().trait == Trait::Optimizer)
          if (Symbol *bucket = optimizedBucket(op), *master = masterOf(op);
              bucket && master != bucket)
            masters[bucket] = master->name;
    for (Symbol *s : module.symbols()) {
      if (s->users.empty() && s->symbolKind == SymbolKind::Const)
        continue;
      int index = static_cast<int>(out.persistent.size());
      persistent(s->name, bufferKind(s->symbolKind), localType(s->type, module));
      if (s->symbolKind == SymbolKind::Scalar || s->symbolKind == SymbolKind::Const)
        out.inits.push_back({index, s->source});
      if (s->symbolKind != SymbolKind::Bucket)
        continue;
      BucketInfo b;
      b.name = s->name;
      b.elems = s->type.dims[0];
      b.dtype = s->type.dtype;
      b.sharded = s->type.isShard();
      b.trainable = s->trainable;
      b.running = s->running;
      for (const Segment &g : s->segments)
        b.segments.push_back({g.param, g.at, g.shape, g.group, g.source, g.exportName});
      b.master = masters.lookup(s);
      out.buckets.push_back(std::move(b));
    }
  }

  void inputs() {
    std::set<std::string> seen;
    for (Program *p : module.programs())
      for (Value *in : p->inputs)
        if (seen.insert(in->name).second) {
          persistent(in->name, BufferKind::Input, in->type);
          out.inputs.push_back({in->name, in->input});
        }
  }

  // The first gather of a micro-batch, its buffer, and the program that fills it first. A frozen bucket has no
  // optimizer to gather it behind.
  void start() {
    for (Op &op : module.programs().front()->ops)
      if (op.kind == OpKind::AllGather && op.operands[0]->isSymbol() && op.bound.empty()) {
        auto *bucket = static_cast<const Symbol *>(op.operands[0]);
        if (!bucket->trainable)
          break;
        carried = bucket;
        carryBuffer = static_cast<int>(out.persistent.size());
        persistent(carried->name + ".full", BufferKind::Carry, op.result()->type);
        carriedOver = op.attrs;
        break;
      }
    if (!carried)
      return;
    prog = {};
    prog.name = "start";
    gatherCarried();
    out.programs.push_back(std::move(prog));
  }

  void gatherCarried() {
    Instr i;
    i.stream = Stream::Comm;
    i.kind = InstrKind::AllGather;
    i.attrs = carriedOver;
    i.ins.push_back({false, out.findPersistent(carried->name)});
    i.outs.push_back({false, carryBuffer});
    i.named = 1;
    i.label = label(out.persistent[carryBuffer].name);
    i.elems = out.persistent[carryBuffer].type.elems();
    i.origin = origin({"", "", "emit-schedule"});
    prog.instrs.push_back(std::move(i));
  }

  // Marks what runs on at the end of update's streams; the first program names it. Nothing that stays behind may need it.
  void carry() {
    SchedProgram &update = *llvm::find_if(out.programs, [](auto &p) { return p.name == "update"; });
    SchedProgram &first = out.programs[carried ? 1 : 0];
    std::array<bool, kStreams> ended{}; // by stream: something later on it stays
    ended[static_cast<size_t>(Stream::Compute)] = ended[static_cast<size_t>(Stream::Feed)] = true;
    llvm::DenseSet<int> read, written; // buffers, by what comes later and stays
    auto bufferOf = [&](PlaceRef r) { return r.isView ? update.views[r.index].buffer : r.index; };
    for (PlaceRef r : update.returns)
      read.insert(bufferOf(r));
    for (auto i = update.instrs.rbegin(); i != update.instrs.rend(); ++i) {
      bool &stays = ended[static_cast<size_t>(i->stream)];
      for (PlaceRef r : i->ins)
        stays |= !outlives(update, bufferOf(r)) || written.contains(bufferOf(r));
      for (PlaceRef r : i->outs)
        stays |= !outlives(update, bufferOf(r)) || written.contains(bufferOf(r)) ||
                 read.contains(bufferOf(r));
      stays |= i->work >= 0 && !outlives(update, i->work);
      i->carry = !stays;
      if (i->carry)
        first.carried.push_back(i->label);
      for (PlaceRef r : stays ? i->ins : std::vector<PlaceRef>())
        read.insert(bufferOf(r));
      for (PlaceRef r : stays ? i->outs : std::vector<PlaceRef>())
        written.insert(bufferOf(r));
    }
    std::reverse(first.carried.begin(), first.carried.end());
    std::set<std::string> running(first.carried.begin(), first.carried.end());
    for (const std::string &l : running)
      labels[first.name].insert(l);
    for (Instr &i : first.instrs)
      if (running.count(i.label))
        i.label = label(first, i.label);
  }

  // Whether a buffer's bytes are there when its program has ended: host memory is only taken by what waits for it.
  bool outlives(const SchedProgram &p, int buffer) const {
    const Buffer &b = bufferAt(out, p, buffer);
    return isPersistent(b.kind) || b.type.space == Space::Host;
  }

  int origin(const Origin &o) {
    if (o.node.empty() && o.module.empty() && o.pass.empty())
      return -1;
    if (lastOrigin >= 0 && isAt(lastOrigin, o)) // ops of one node stand together
      return lastOrigin;
    auto [it, isNew] = origins.try_emplace(o.node + "\n" + o.module + "\n" + o.pass,
                                           static_cast<int>(out.origins.size()));
    if (isNew)
      out.origins.push_back({o.node, o.module, o.pass});
    return lastOrigin = it->second;
  }
  bool isAt(int origin, const Origin &o) const {
    const OriginInfo &i = out.origins[origin];
    return i.node == o.node && i.module == o.module && i.pass == o.pass;
  }

  Status program(Program &p) {
    prog = {};
    prog.name = p.name;
    Storage storage(module, out, prog, carried, carryBuffer);
    TRY(storage.assign(p));
    uniqueNames();
    viewIndex.clear();
    heirs.clear();
    emitted.clear();
    throttles.clear();
    leaving.clear();
    prog.instrs.reserve(p.inputs.size() + p.ops.size());
    for (Value *in : p.inputs)
      feed(*in, storage);
    for (Op &op : p.ops)
      if (storage.isElided(op))
        elide(op);
      else if (!op.info().isView())
        instruction(op, storage);
    for (Value *r : p.returns) {
      prog.returns.push_back(ref(storage.at(r), r->name));
      prog.returnNames.push_back(r->name);
    }
    if (p.name == "update")
      TRY(sliceUpdates(out, prog, config));
    out.programs.push_back(std::move(prog));
    return {};
  }

  // A temporary must not share a name with a persistent buffer.
  void uniqueNames() {
    names.clear();
    for (const Buffer &b : out.persistent)
      names.insert(b.name);
    for (Buffer &b : prog.own)
      b.name = unique(b.name);
  }

  std::string unique(const std::string &base) {
    std::string name = base;
    for (int n = 2; !names.insert(name).second; ++n)
      name = base + "." + std::to_string(n);
    return name;
  }

  PlaceRef ref(const Place &p, const std::string &name) {
    const Buffer &b = bufferAt(out, prog, p.buffer);
    if (p.offset == 0 && !p.own && !p.heir && p.type.dims == b.type.dims &&
        p.type.dtype == b.type.dtype)
      return {false, p.buffer};
    llvm::SmallVector<int, 1> &same =
        viewIndex[llvm::hash_combine(p.buffer, p.offset, p.own, p.type.dtype, p.heir)];
    for (int k : same)
      if (const View &v = prog.views[k]; v.buffer == p.buffer && v.offset == p.offset &&
                                         v.own == p.own && heirs[k] == p.heir && v.type == p.type)
        return {true, k};
    int index = static_cast<int>(prog.views.size());
    same.push_back(index);
    heirs.push_back(p.heir);
    View &v = prog.views.emplace_back();
    v.name = unique(name);
    v.buffer = p.buffer;
    v.offset = p.offset;
    v.type = p.type;
    v.own = p.own;
    return {true, index};
  }

  std::string label(const std::string &base) { return label(prog, base); }
  std::string label(const SchedProgram &p, const std::string &base) {
    llvm::StringSet<> &used = labels[p.name];
    std::string name = base;
    for (int n = 2; !used.insert(name).second; ++n)
      name = base + "." + std::to_string(n);
    return name;
  }

  void feed(const Value &in, const Storage &storage) {
    Instr i;
    i.stream = Stream::Feed;
    i.kind = InstrKind::Feed;
    i.outs.push_back(ref(storage.at(&in), in.name));
    i.label = label("feed." + in.name);
    prog.instrs.push_back(std::move(i));
  }

  // The op would have waited for its operand; the next launch does so in its place, or every bucket's gradients
  // would live to the program's end.
  void elide(Op &op) {
    auto made = emitted.find(op.operands[0]->def);
    if (made == emitted.end())
      return;
    Stream s = prog.instrs[made->second].stream;
    if (s != Stream::Compute && s != Stream::Host)
      throttles.push_back(made->second);
  }

  void instruction(Op &op, const Storage &storage) {
    Instr i;
    i.op = op.kind;
    i.attrs = op.attrs;
    i.origin = origin(op.origin);
    for (Value *v : op.operands)
      i.ins.push_back(ref(storage.at(v), v->name));
    for (int r = 0; r < static_cast<int>(op.results.size()); ++r) {
      Value *v = op.results[r];
      i.outs.push_back(ref(storage.at(v), r < op.numNamed() ? v->name : op.boundTo(r)->name));
    }
    i.named = op.numNamed();
    std::string base(op.info().text);
    if (i.named > 0)
      base = op.result()->name;
    else if (!op.bound.empty())
      base += "." + op.bound[0]->name;
    i.label = label(base);
    kind(op, i);
    i.stream = i.kind == InstrKind::Launch
                   ? launchStream(resolve(out, prog, i.outs[0]).buffer->type.space)
                   : streamOf(i.kind);
    workspace(op, i);
    if (i.stream == Stream::Compute)
      i.throttles.swap(throttles);
    if (i.kind == InstrKind::Offload)
      leave(static_cast<int>(prog.instrs.size()));
    emitted[&op] = static_cast<int>(prog.instrs.size());
    prog.instrs.push_back(std::move(i));
    if (carried && llvm::is_contained(op.bound, carried))
      gatherCarried();
  }

  // Nothing reads the device's copy of what was offloaded, so nobody waits for the copy to end, and its bytes would
  // live to the program's end. Two copies may be under way; the launch after the next one waits for the first.
  void leave(int offload) {
    leaving.push_back(offload);
    if (leaving.size() > 2) {
      throttles.push_back(leaving.front());
      leaving.erase(leaving.begin());
    }
  }

  // Collectives and transfers are called the same in both tables.
  void kind(Op &op, Instr &i) {
    if (op.info().isLaunch())
      return;
    while (text(i.kind) != op.info().text)
      i.kind = static_cast<InstrKind>(static_cast<int>(i.kind) + 1);
    if (op.info().isCollective()) // of the whole vector
      i.elems = (op.kind == OpKind::AllGather ? op.result() : op.operands[0])->type.elems();
  }

  void workspace(Op &op, Instr &i) {
    bool sums = i.kind == InstrKind::ReduceScatter || i.kind == InstrKind::AllReduce;
    if ((i.kind != InstrKind::Launch && !sums) || !config.workspaceBytes)
      return;
    localTypes(op.operands, workIns);
    localTypes(op.results, workOuts);
    int64_t bytes = config.workspaceBytes(op.kind, workIns, workOuts, op.attrs);
    if (bytes <= 0)
      return;
    Buffer b;
    b.name = unique(i.label + (sums ? ".parts" : ".ws"));
    b.kind = sums ? BufferKind::Staging : BufferKind::Work;
    b.type = Type(DType::U8, {bytes});
    b.type.space = i.stream == Stream::Host ? Space::Host : Space::Device;
    b.bytes = bytes;
    i.work = static_cast<int>(out.persistent.size() + prog.own.size());
    prog.own.push_back(b);
  }

  // Into what the op before left, which has most of its room already.
  void localTypes(llvm::ArrayRef<Value *> values, std::vector<Type> &types) const {
    types.resize(values.size());
    for (auto [v, type] : llvm::zip(values, types)) {
      type = v->type;
      if (type.isShard())
        type = localType(type, module);
    }
  }

  const Module &module;
  const PlanConfig &config;
  bool carryGather;
  const Symbol *carried = nullptr; // the bucket, or none
  int carryBuffer = -1;
  Attrs carriedOver; // the gather's
  Schedule out;
  SchedProgram prog;
  llvm::StringMap<int> origins; // by node, module and pass
  int lastOrigin = -1;
  llvm::DenseMap<size_t, llvm::SmallVector<int, 1>> viewIndex; // by hash
  std::vector<const Value *> heirs;                            // by view
  llvm::StringSet<> names;
  llvm::StringMap<llvm::StringSet<>> labels; // by program
  std::vector<Type> workIns, workOuts;
  llvm::DenseMap<const Op *, int> emitted; // index of the op's instruction
  std::vector<int> throttles;              // what the next launch waits for on top
  std::vector<int> leaving;                // offloads that no launch waits for yet, oldest first
};

} // namespace

// The first gather, at stage 3.
static bool mayCarryGather(const PlanConfig &c) {
  return c.stage == 3 && c.overlap && c.prefetchBucketSize > 0 && c.carry != "off";
}

StatusOr<Schedule> emitSchedule(const Module &m, const PlanConfig &c) {
  return Emitter(m, c, mayCarryGather(c)).run();
}

StatusOr<Schedule> scheduleModule(const Module &m, const PlanConfig &c) {
  bool mayCarry = mayCarryGather(c);
  TRY_ASSIGN(Schedule s, Emitter(m, c, mayCarry).run());
  TRY(planMemory(s, c));
  if (!mayCarry || c.carry == "on" || s.programs[0].name != "start")
    return s;
  TRY_ASSIGN(Schedule without, Emitter(m, c, false).run());
  TRY(planMemory(without, c));
  int64_t most = without.arenas[0].bytes + without.arenas[0].bytes / 100;
  return s.arenas[0].bytes <= most ? std::move(s) : std::move(without);
}

StatusOr<Schedule> planSchedule(Module &m, const PlanConfig &c) {
  TRY(runPasses(m, c, defaultPipeline(), {}));
  TRY_ASSIGN(Schedule s, scheduleModule(m, c));
  TRY(verifySchedule(s));
  return s;
}

} // namespace ds
