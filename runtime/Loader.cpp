// SPDX-License-Identifier: Apache-2.0
#include "runtime/Loader.h"

#include "runtime/CheckpointState.h"
#include "runtime/Convert.h"
#include "runtime/Sources.h"

#include <algorithm>
#include <cstring>
#include <fmt/ranges.h>

namespace ds {

static_assert(LoadedRank::kPieceBytes % kBlockAlign == 0);
static constexpr int64_t kReturned = 8; // bytes of a value that a program returns

class RankLoader {
public:
  RankLoader(const Schedule &s, const Device &d, const LoadOptions &o, LoadedRank &out)
      : s(s), device(d), options(o), out(out), buckets(s) {}

  Status run() {
    out.schedule = &s;
    out.rank = options.rank;
    if (device.api) {
      TRY_ASSIGN(out.side, DeviceSide::open(*device.api, options.device, pinnedBytes()));
      out.pinned = out.side->pin(LoadedRank::kPieceBytes, 0);
      out.returned = out.side->pin(kReturned * countReturns(), 0);
    }
    TRY(mapArenas());
    TRY(fillPersistent());
    Status all;
    for (size_t p = 0; p < s.programs.size(); ++p)
      all.merge(loadProgram(p));
    return all;
  }

private:
  int64_t countReturns() const {
    size_t n = 0;
    for (const SchedProgram &p : s.programs)
      n += p.returns.size();
    return static_cast<int64_t>(n);
  }
  // Of the host's arena, values that programs return, the piece that copies go through, and what the caller wants.
  int64_t pinnedBytes() const {
    int64_t bytes = LoadedRank::kPieceBytes + kReturned * countReturns() + options.pinnedBytes;
    for (const ArenaInfo &a : s.arenas)
      bytes += a.space == Space::Host ? a.bytes : 0;
    return bytes + 4 * DeviceSide::kPinAlign;
  }

  Status mapArenas() {
    for (const ArenaInfo &a : s.arenas) {
      if (a.space == Space::Nvme) {
        TRY(openFile(a.bytes));
        out.arenas.emplace_back();
        out.bases.push_back(nullptr);
        continue;
      }
      if (out.side) {
        out.arenas.emplace_back();
        if (a.space == Space::Host) {
          out.bases.push_back(out.side->pin(a.bytes, options.arenaFill));
          continue;
        }
        TRY_ASSIGN(std::byte * base, out.side->allocate(a.bytes, options.arenaFill));
        out.bases.push_back(base);
        continue;
      }
      TRY_ASSIGN(Arena arena, Arena::map(a.bytes, options.arenaFill));
      if (options.pinHost && a.space == Space::Host)
        arena.lock();
      out.bases.push_back(arena.data());
      out.arenas.push_back(std::move(arena));
    }
    return {};
  }

  Status openFile(int64_t bytes) {
    if (options.nvmePath.empty())
      return Status::error(fmt::format("the plan keeps {} bytes of every rank on nvme, and no "
                                       "folder is given",
                                       bytes))
          .note("--nvme-path names one, on a local disk");
    TRY_ASSIGN(out.nvme, BlockFile::create(options.nvmePath, options.rank, bytes, options.nvme));
    TRY_ASSIGN(out.staging, Arena::map(LoadedRank::kPieceBytes, 0));
    return {};
  }

  // Arenas exist for every space in use: a rule of the verifier.
  std::byte *address(Space space, int64_t at) const {
    for (size_t i = 0; i < s.arenas.size(); ++i)
      if (s.arenas[i].space == space)
        return out.bases[i] + at;
    return nullptr;
  }

  // Padding, state, accumulators and scalars start as zero; parameters and constants come from sources.
  Status fillPersistent() {
    for (const Buffer &b : s.persistent)
      if (b.type.space != Space::Nvme) // a new file reads as zeros
        TRY(zero(address(b.type.space, b.offset), b));
    for (const InitInfo &i : s.inits) {
      const Buffer &b = s.persistent[static_cast<size_t>(i.buffer)];
      int64_t n = b.type.elems();
      TRY(fillElems(i.buffer, 0, {b.name, &i.source, n, b.type.dtype}, 0, n));
    }
    for (size_t b = 0; b < s.buckets.size(); ++b)
      TRY(fillWeights(weightSlot(s, b)));
    for (const StateSlot &slot : roundedSlots(s))
      TRY(fillWeights(slot));
    return {};
  }

  Status zero(std::byte *p, const Buffer &b) {
    auto n = static_cast<size_t>(b.bytes);
    if (!out.side || b.type.space == Space::Host) {
      std::memset(p, 0, n);
      return {};
    }
    void *stream = out.side->stream(Stream::Compute);
    TRY(deviceStatus(device.api->fill(p, 0, n, stream)));
    return deviceStatus(device.api->streamSync(stream));
  }

  // Elements [from, from + n) of the tensor, to the buffer's element `to` and on.
  Status fillElems(int buffer, int64_t to, const SourceTensor &t, int64_t from, int64_t n) {
    int64_t size = byteSize(t.dtype);
    return out.write(buffer, to * size, n * size, [&](int64_t at, std::byte *p, int64_t bytes) {
      return readSource(t, s.directory, from + at / size - to, bytes / size, p);
    });
  }

  Status fillWeights(const StateSlot &slot) {
    const Type &type = s.persistent[static_cast<size_t>(slot.buffer)].type;
    int64_t begin = firstElem(s, slot, options.rank), end = begin + type.elems();
    for (const SegmentInfo &g : s.buckets[slot.bucket].segments) {
      int64_t total = Type(type.dtype, g.shape).elems();
      int64_t lo = std::max(begin, g.at), hi = std::min(end, g.at + total);
      if (lo >= hi)
        continue;
      TRY(fillElems(slot.buffer, lo - begin, {g.param, &g.source, total, type.dtype}, lo - g.at,
                    hi - lo));
    }
    return {};
  }

  Status loadProgram(size_t p) {
    const SchedProgram &program = s.programs[p];
    LoadedProgram loaded;
    loaded.program = &program;
    for (int k : carriedOut(program))
      ++loaded.carried[static_cast<int>(program.instrs[static_cast<size_t>(k)].stream)];
    Status all;
    // How many instructions of its stream are done once instruction i is.
    std::vector<uint32_t> position;
    uint32_t counts[kStreams] = {};
    for (const Instr &in : program.instrs)
      position.push_back(++counts[static_cast<int>(in.stream)]);

    for (const Instr &in : program.instrs) {
      LoadedInstr l;
      l.instr = &in;
      resolveWaits(program, in, position, l);
      Status status = loadInstr(p, in, l);
      if (!status.ok())
        all.merge(
            std::move(status).at(fmt::format("{}: {}{}", program.name, in.label, nodeOf(in))));
      loaded.streams[static_cast<int>(in.stream)].push_back(l);
    }
    for (size_t i = 0; i < program.returns.size(); ++i) {
      PlaceInfo place = resolve(s, program, program.returns[i]);
      const std::string &name = program.returnNames[i];
      if (place.buffer->type.space == Space::Nvme)
        all.merge(
            Status::error(fmt::format("{} returns {}, which lies on nvme", program.name, name)));
      auto at = std::find(out.valueNames.begin(), out.valueNames.end(), name);
      LoadedReturn r;
      r.value = static_cast<size_t>(at - out.valueNames.begin());
      r.type = place.type;
      r.empty = place.type->elems() == 0;
      r.data = pointer(place);
      if (out.side && place.buffer->type.space == Space::Device) {
        r.onDevice = r.data;
        r.data = out.returned + kReturned * returns++;
      }
      if (at == out.valueNames.end())
        out.valueNames.push_back(name);
      loaded.returns.push_back(r);
    }
    out.programs.push_back(std::move(loaded));
    return all;
  }

  void resolveWaits(const SchedProgram &program, const Instr &in,
                    const std::vector<uint32_t> &position, LoadedInstr &l) {
    const SchedProgram *before = in.carriedWaits.empty() ? nullptr : s.program("update");
    std::vector<int> carried = before ? carriedOut(*before) : std::vector<int>();
    for (int stream = 0; stream < kStreams; ++stream) {
      uint32_t last = 0;
      for (int w : in.waits)
        if (static_cast<int>(program.instrs[static_cast<size_t>(w)].stream) == stream)
          last = std::max(last, position[static_cast<size_t>(w)]);
      // The carried ones are the last of their stream before this program: counts ..., -1, 0.
      uint32_t behind = 0; // how many come after the latest that is waited for
      bool waits = false;
      for (size_t k = 0; k < carried.size(); ++k)
        if (static_cast<int>(before->instrs[static_cast<size_t>(carried[k])].stream) == stream) {
          ++behind;
          if (std::count(in.carriedWaits.begin(), in.carriedWaits.end(), static_cast<int>(k))) {
            behind = 0;
            waits = true;
          }
        }
      if (last == 0 && waits && stream != static_cast<int>(in.stream))
        l.waits[l.numWaits++] = {stream, uint32_t{0} - behind};
      if (last != 0 && stream != static_cast<int>(in.stream))
        l.waits[l.numWaits++] = {stream, last};
    }
  }

  // The ONNX node behind it, for messages.
  std::string nodeOf(const Instr &in) const {
    if (in.origin < 0 || s.origins[static_cast<size_t>(in.origin)].node.empty())
      return "";
    return fmt::format(" ({} of {})",
                       in.kind == InstrKind::Launch ? info(in.op).text : text(in.kind),
                       s.origins[static_cast<size_t>(in.origin)].node);
  }

  Status loadInstr(size_t p, const Instr &in, LoadedInstr &l) {
    const SchedProgram &program = s.programs[p];
    if (in.kind == InstrKind::Launch)
      return loadLaunch(p, in, l);
    PlaceInfo dst = resolve(s, program, in.outs.at(0));
    l.dst = pointer(dst);
    if (in.kind == InstrKind::Feed) {
      l.bytes = static_cast<size_t>(dst.type->bytes());
      for (size_t i = 0; i < s.inputs.size(); ++i)
        if (s.inputs[i].name == dst.buffer->name)
          l.input = static_cast<int>(i);
      return l.input >= 0 ? Status() : Status::internal("feeds no input");
    }
    PlaceInfo src = resolve(s, program, in.ins.at(0));
    if (isTransfer(in.kind)) {
      l.src = pointer(src);
      l.bytes = static_cast<size_t>(dst.type->bytes());
      const PlaceInfo &onDisk = in.kind == InstrKind::Read ? src : dst;
      l.at = onDisk.begin + options.rank * onDisk.rankStride;
      return {};
    }
    CommOp op;
    op.kind = in.kind;
    op.label = program.name + ": " + in.label;
    int bucket = buckets.bucketOf(p, dst.bufferIndex);
    op.bucket = bucket < 0 ? in.label : s.buckets[static_cast<size_t>(bucket)].name;
    op.dtype = src.type->dtype;
    op.src = pointer(src);
    op.dst = pointer(dst);
    if (in.work >= 0) {
      const Buffer &work = bufferAt(s, program, in.work);
      op.work = address(work.type.space, work.offset);
      op.workBytes = work.bytes;
    }
    int64_t have = src.type->elems(), want = dst.type->elems();
    op.elems = std::max(have, want);
    bool sizes = in.kind == InstrKind::AllReduce       ? have == want
                 : in.kind == InstrKind::ReduceScatter ? have == want * s.world()
                                                       : have * s.world() == want;
    if (!sizes)
      return Status::internal(fmt::format("{} elements to {} on {} ranks", have, want, s.world()));
    l.comm = out.commOps.size();
    out.commOps.push_back(std::move(op));
    return {};
  }

  std::byte *pointer(const PlaceInfo &place) const {
    if (place.buffer->type.space == Space::Nvme)
      return nullptr; // of reads and writes, which go by the byte of the file
    return address(place.buffer->type.space, place.begin + options.rank * place.rankStride);
  }

  DsTensor tensor(const PlaceInfo &place) {
    const std::vector<int64_t> &dims = place.type->dims;
    const std::vector<int64_t> *strides = place.strides;
    if (strides->empty() && !dims.empty()) {
      std::vector<int64_t> rowMajor(dims.size(), 1);
      for (size_t i = dims.size() - 1; i > 0; --i)
        rowMajor[i - 1] = rowMajor[i] * dims[i];
      strides = &out.strides.emplace_back(std::move(rowMajor));
    }
    static const int64_t none = 0; // never null, also for scalars
    DsTensor t = {};
    t.dims = dims.empty() ? &none : dims.data();
    t.strides = dims.empty() ? &none : strides->data();
    t.rank = static_cast<int32_t>(dims.size());
    t.dtype = static_cast<uint8_t>(place.type->dtype);
    return t;
  }

  Status loadLaunch(size_t p, const Instr &in, LoadedInstr &l) {
    const SchedProgram &program = s.programs[p];
    const OpInfo &op = info(in.op);
    std::vector<PlaceInfo> ins, outs;
    for (PlaceRef r : in.ins)
      ins.push_back(resolve(s, program, r));
    for (PlaceRef r : in.outs)
      outs.push_back(resolve(s, program, r));
    std::vector<DsTensor> &inTensors = out.tensors.emplace_back();
    std::vector<DsTensor> &outTensors = out.tensors.emplace_back();
    for (const PlaceInfo &i : ins)
      inTensors.push_back(tensor(i));
    for (const PlaceInfo &o : outs)
      outTensors.push_back(tensor(o));

    l.launch.ins = inTensors.data();
    l.launch.outs = outTensors.data();
    l.launch.numIns = static_cast<int32_t>(ins.size());
    l.launch.numOuts = static_cast<int32_t>(outs.size());
    l.launch.threads = options.threads;
    l.launch.rank = options.rank;
    l.launch.world = static_cast<int32_t>(s.world());
    TRY(setAttrs(in, op, l.launch));
    TRY(setRuns(p, in, ins, l.launch));
    if (in.work >= 0)
      l.launch.workBytes = static_cast<size_t>(bufferAt(s, program, in.work).bytes);
    if (ins.empty() && outs.empty())
      return Status::internal("has neither operands nor results");
    DType first = (ins.empty() ? outs : ins)[0].type->dtype;
    bool onHost = in.stream == Stream::Host;
    if (out.side && !onHost) {
      l.launch.stream = out.side->stream(in.stream);
      l.launch.fault = out.side->fault();
      l.launch.id = static_cast<int32_t>(out.launches.size());
      out.launches.push_back({p, &in});
    }
    l.kernel =
        find(op.text.data(), first, device.api && onHost ? device.hostKernels : device.kernels);
    if (!l.kernel)
      return Status::error(
          fmt::format("device {} has no kernel for {} on {}", device.name, op.text, text(first)));
    if (l.kernel->prepare)
      if (const char *message = l.kernel->prepare(&l.launch, &l.state))
        return withWork(Status::error(fmt::format("{}: {}", op.text, message)), *l.kernel,
                        l.launch);
    if (l.kernel->destroy)
      out.prepared.push_back({l.kernel, l.state});
    if (const char *note = l.kernel->note ? l.kernel->note(l.state) : nullptr)
      ++out.choices[note];

    // Only now the addresses: prepare must not depend on them.
    for (size_t i = 0; i < ins.size(); ++i)
      inTensors[i].data = pointer(ins[i]);
    for (size_t i = 0; i < outs.size(); ++i)
      outTensors[i].data = pointer(outs[i]);
    if (in.work >= 0) {
      const Buffer &work = bufferAt(s, program, in.work);
      l.launch.work = address(work.type.space, work.offset);
    }
    return {};
  }

  // A plan for one device may be short of what another's kernels need.
  static Status withWork(Status s, const DsKernel &kernel, const DsLaunch &l) {
    size_t wanted = kernel.work ? kernel.work(&l) : 0;
    if (wanted <= l.workBytes)
      return s;
    return std::move(s).note(
        fmt::format("the plan has {} bytes of workspace here, and this device's kernel needs {}: "
                    "plan for it (dsplan --target, or dsexec with the model)",
                    l.workBytes, wanted));
  }

  Status setAttrs(const Instr &in, const OpInfo &op, DsLaunch &launch) {
    Attrs &values = out.attrValues.emplace_back(in.attrs);
    TRY(completeAttrs(values, op.attrs, op.text));
    std::vector<DsAttr> &list = out.attrLists.emplace_back();
    for (const AttrSpec &spec : op.attrs) {
      const AttrValue &v = *values.find(spec.name);
      DsAttr a = {};
      a.name = spec.name.c_str(); // the op table lives as long as the process
      a.kind = spec.kind;
      if (const auto *b = std::get_if<bool>(&v))
        a.i = *b;
      else if (const auto *i = std::get_if<int64_t>(&v))
        a.i = *i;
      else if (const auto *f = std::get_if<double>(&v))
        a.f = *f;
      else if (const auto *t = std::get_if<std::string>(&v))
        a.s = t->c_str();
      else if (const auto *many = std::get_if<std::vector<int64_t>>(&v)) {
        a.list = many->data();
        a.count = static_cast<int64_t>(many->size());
      }
      list.push_back(a);
    }
    launch.attrs = list.data();
    launch.numAttrs = static_cast<int32_t>(list.size());
    return {};
  }

  /// Elements from `first` on of the `of` that a buffer, or a rank's slice of it, has.
  struct Extent {
    int64_t first, of;
  };
  static Extent extentOf(const PlaceInfo &at) {
    if (at.rankStride || !isPersistent(at.buffer->kind))
      return {0, at.type->elems()};
    return {(at.begin - at.buffer->offset) / byteSize(at.type->dtype), at.buffer->type.elems()};
  }

  // Temporaries may hold a slice of a large update, as something that persists says: states, or gradients.
  static Extent extentOfSlice(const std::vector<PlaceInfo> &ins, size_t count) {
    for (size_t i = 0; i < count; ++i)
      if (isPersistent(ins[i].buffer->kind))
        return extentOf(ins[i]);
    return extentOf(ins[0]);
  }

  // The optimizer's elementwise operands have the bucket's runs; a sum of squares has each operand's own.
  Status setRuns(size_t p, const Instr &in, const std::vector<PlaceInfo> &ins, DsLaunch &launch) {
    size_t count =
        in.op == OpKind::SumSquares ? ins.size() : static_cast<size_t>(bucketOperands(in.op));
    if (count == 0)
      return {};
    auto &pointers = out.runPointers.emplace_back(ins.size(), nullptr);
    auto &counts = out.runCounts.emplace_back(ins.size(), 0);
    for (size_t i = 0; i < std::min(count, ins.size()); ++i) {
      int b = buckets.bucketOf(p, ins[i].bufferIndex);
      if (b < 0)
        return Status::internal(fmt::format("operand {} belongs to no bucket", *ins[i].name));
      const BucketInfo &bucket = s.buckets[static_cast<size_t>(b)];
      int64_t elems = ins[i].type->elems();
      Extent e = in.op == OpKind::SumSquares ? extentOf(ins[i]) : extentOfSlice(ins, count);
      if (e.of != bucket.elems && e.of * s.world() != bucket.elems)
        return Status::internal(fmt::format("operand {} is of {} elements, its bucket {} has {}",
                                            *ins[i].name, e.of, bucket.name, bucket.elems));
      int64_t begin = e.first + (e.of == bucket.elems ? 0 : options.rank * e.of);
      auto &runs = out.runLists.emplace_back(bucketRuns(bucket, begin, begin + elems));
      runs.reserve(1); // a null list would mean "all elements"; this rank may own padding only
      pointers[i] = runs.data();
      counts[i] = static_cast<int32_t>(runs.size());
    }
    launch.runs = pointers.data();
    launch.numRuns = counts.data();
    return {};
  }

  const DsKernel *find(const char *op, DType first, const std::vector<DeviceKernels> &tables) {
    for (size_t i = 0; i < tables.size(); ++i)
      if (const DsKernel *k = tables[i].find(op, first)) {
        std::string what = fmt::format("{} on {}", op, text(first));
        std::vector<std::string> &list = out.borrowed[tables[i].name];
        if (i > 0 && std::find(list.begin(), list.end(), what) == list.end())
          list.push_back(std::move(what));
        return k;
      }
    return nullptr;
  }

  const Schedule &s;
  const Device &device;
  const LoadOptions &options;
  LoadedRank &out;
  int64_t returns = 0; // so far
  BucketMap buckets;
};

StatusOr<std::unique_ptr<LoadedRank>> LoadedRank::load(const Schedule &s, const Device &d,
                                                       const LoadOptions &o) {
  std::unique_ptr<LoadedRank> rank(new LoadedRank);
  TRY(RankLoader(s, d, o, *rank).run());
  return rank;
}

std::vector<std::string> LoadedRank::borrowNotes(const std::string &device) const {
  std::vector<std::string> notes;
  for (const auto &[from, list] : borrowed)
    if (!list.empty())
      notes.push_back(
          fmt::format("device {} takes from {}: {}", device, from, fmt::join(list, ", ")));
  return notes;
}

double LoadedReturn::number() const { return empty ? 0 : toDouble(type->dtype, data, 0); }

LoadedRank::~LoadedRank() {
  for (auto &[kernel, state] : prepared)
    kernel->destroy(state);
}

} // namespace ds
