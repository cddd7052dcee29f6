// SPDX-License-Identifier: Apache-2.0
#include "test/unit/KernelHarness.h"

#include "ir/Ops.h"
#include "kernels/Element.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace ds::test {

int64_t Tensor::elems() const {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

Tensor tensor(DType dtype, std::vector<int64_t> dims, std::function<double()> next, Layout layout) {
  Tensor t{dtype, std::move(dims), {}, layout};
  for (int64_t i = 0, n = t.elems(); i < n; ++i)
    t.values.push_back(next());
  return t;
}

static void storeNumber(DType dtype, uint8_t *at, double v) {
  elem::dispatchAny(static_cast<uint8_t>(dtype), [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    T x = elem::store<T>(v);
    std::memcpy(at, &x, sizeof(x));
    return nullptr;
  });
}

std::vector<double> numbers(const std::vector<uint8_t> &bytes, DType dtype) {
  std::vector<double> out(bytes.size() / static_cast<size_t>(byteSize(dtype)));
  elem::dispatchAny(static_cast<uint8_t>(dtype), [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    for (size_t i = 0; i < out.size(); ++i) {
      T x;
      std::memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
      out[i] = static_cast<double>(elem::load(x));
    }
    return nullptr;
  });
  return out;
}

namespace {

constexpr size_t kGuard = 256; // bytes of canary before and behind
constexpr uint8_t kCanary = 0xa5;

/// Bytes of a device, as a copy of bytes of the host. Copies are enqueued: the host's bytes must stay.
class OnDevice {
public:
  OnDevice() = default;
  /// The first error of this kernel's life goes into `error`.
  OnDevice(const RunOptions &o, DsMemory memory, size_t bytes, std::string &error)
      : api(o.api), stream(o.stream), memory(memory), bytes(bytes) {
    void *p = nullptr;
    note(api->allocate(memory, bytes, &p), error);
    block = static_cast<uint8_t *>(p);
  }
  OnDevice(OnDevice &&o) noexcept { *this = std::move(o); }
  OnDevice &operator=(OnDevice &&o) noexcept {
    std::swap(api, o.api), std::swap(stream, o.stream), std::swap(memory, o.memory);
    std::swap(bytes, o.bytes), std::swap(block, o.block);
    return *this;
  }
  ~OnDevice() {
    if (block)
      api->release(memory, block);
  }
  void fill(const uint8_t *from, std::string &error) { move(block, from, error); }
  void read(uint8_t *to, std::string &error) const { move(to, block, error); }
  uint8_t *data() const { return block; }

private:
  static void note(const char *message, std::string &error) {
    if (message && error.empty())
      error = message;
  }
  void move(void *to, const void *from, std::string &error) const {
    if (!block)
      return;
    note(api->copy(to, from, bytes, stream), error);
  }

  const DsDeviceApi *api = nullptr;
  void *stream = nullptr;
  DsMemory memory = DsMemoryDevice;
  size_t bytes = 0;
  uint8_t *block = nullptr;
};

/// A tensor in memory. Uninitialised elements, gaps and guards hold the canary.
struct Placed {
  std::vector<int64_t> strides;
  std::unique_ptr<uint8_t, void (*)(void *)> block{nullptr, std::free};
  size_t bytes = 0;
  uint8_t *data = nullptr;
  OnDevice device; // a copy of the block, if the kernel runs there

  Placed(const Tensor &t, int misalign) {
    const int rank = static_cast<int>(t.dims.size());
    std::vector<int> order(rank); // from the outermost in memory to the innermost
    for (int i = 0; i < rank; ++i)
      order[i] = i;
    if (t.layout == Layout::Transposed && rank >= 2)
      std::swap(order[rank - 1], order[rank - 2]);
    strides.resize(rank);
    int64_t next = t.layout == Layout::Stepped ? 2 : 1;
    for (int i = rank - 1; i >= 0; --i) {
      strides[order[i]] = next;
      next *= t.dims[order[i]] + (t.layout == Layout::Padded && i == rank - 1 ? 3 : 0);
    }
    size_t elem = static_cast<size_t>(byteSize(t.dtype));
    bytes = 2 * kGuard + (static_cast<size_t>(next) + static_cast<size_t>(misalign) + 1) * elem;
    block.reset(static_cast<uint8_t *>(std::aligned_alloc(256, (bytes + 255) / 256 * 256)));
    std::memset(block.get(), kCanary, bytes);
    data = block.get() + kGuard + static_cast<size_t>(misalign) * elem;
    for (size_t i = 0; i < t.values.size(); ++i)
      storeNumber(t.dtype, at(t, static_cast<int64_t>(i)), t.values[i]);
    if (t.layout == Layout::Dense && !t.values.empty()) // a benchmark's tensors are large
      for (size_t n = t.values.size(), all = static_cast<size_t>(t.elems()); n < all; n *= 2)
        std::memcpy(data + n * elem, data, std::min(n, all - n) * elem);
  }
  uint8_t *at(const Tensor &t, int64_t i) const {
    int64_t off = 0;
    for (int k = static_cast<int>(t.dims.size()) - 1; k >= 0; --k) {
      off += i % t.dims[k] * strides[k];
      i /= t.dims[k];
    }
    return data + off * byteSize(t.dtype);
  }
  std::vector<uint8_t> rowMajor(const Tensor &t) const {
    size_t elem = static_cast<size_t>(byteSize(t.dtype));
    std::vector<uint8_t> out(static_cast<size_t>(t.elems()) * elem);
    for (int64_t i = 0; i < t.elems(); ++i)
      std::memcpy(out.data() + static_cast<size_t>(i) * elem, at(t, i), elem);
    return out;
  }
  /// Puts the canary back into t's elements; what remains must be canary everywhere.
  bool intact(const Tensor &t) const {
    for (int64_t i = 0; i < t.elems(); ++i)
      std::memset(at(t, i), kCanary, static_cast<size_t>(byteSize(t.dtype)));
    for (size_t i = 0; i < bytes; ++i)
      if (block.get()[i] != kCanary)
        return false;
    return true;
  }
};

/// The op's attributes, complete, as a launch carries them.
struct AttrArray {
  Attrs values;
  std::vector<DsAttr> list;
  std::string error;

  AttrArray(const KernelCase &c) : values(c.attrs) {
    auto kind = opFromText(c.op);
    if (!kind) {
      error = "no such op";
      return;
    }
    const OpInfo &op = info(*kind);
    Status s = completeAttrs(values, op.attrs, c.op);
    if (!s.ok()) {
      error = s.str();
      return;
    }
    for (const AttrSpec &spec : op.attrs) {
      DsAttr a{};
      a.name = spec.name.c_str();
      a.kind = spec.kind;
      const AttrValue &v = *values.find(spec.name);
      if (auto *b = std::get_if<bool>(&v))
        a.i = *b;
      else if (auto *i = std::get_if<int64_t>(&v))
        a.i = *i;
      else if (auto *f = std::get_if<double>(&v))
        a.f = *f;
      else if (auto *t = std::get_if<std::string>(&v))
        a.s = t->c_str();
      else if (auto *l = std::get_if<std::vector<int64_t>>(&v)) {
        a.list = l->data();
        a.count = static_cast<int64_t>(l->size());
      }
      list.push_back(a);
    }
  }
};

} // namespace

struct PreparedKernel::Impl {
  const DsKernel &kernel;
  const KernelCase &c;
  AttrArray attrs;
  std::vector<Placed> inPlaces, outPlaces;
  std::vector<DsTensor> ins, outs;
  std::vector<const DsRun *> runs;
  std::vector<int32_t> numRuns;
  std::unique_ptr<uint8_t, void (*)(void *)> work{nullptr, std::free};
  size_t room = 0;
  OnDevice deviceWork, deviceFault;
  DsLaunch l{};
  void *state = nullptr;
  std::string error;
  RunOptions options;

  Impl(const DsKernel &k, const KernelCase &kc, const RunOptions &o)
      : kernel(k), c(kc), attrs(kc), options(o) {}
  const DsFault *fault() const { return l.fault; }
  int tied(size_t i) const { return i < c.tied.size() ? c.tied[i] : -1; }
  const Placed &outPlace(size_t i) const { return tied(i) >= 0 ? inPlaces[tied(i)] : outPlaces[i]; }
  void describe();
  uint8_t *place(Placed &p);
  void placeWork();
  void readBack();
};

void PreparedKernel::Impl::describe() {
  const RunOptions &o = options;
  auto view = [](const Tensor &t, const Placed &p) {
    return DsTensor{nullptr, t.dims.data(), p.strides.data(), static_cast<int32_t>(t.dims.size()),
                    static_cast<uint8_t>(t.dtype)};
  };
  for (const Tensor &t : c.ins)
    inPlaces.emplace_back(t, o.misalign);
  for (const Tensor &t : c.outs)
    outPlaces.emplace_back(t, o.misalign);
  for (size_t i = 0; i < c.ins.size(); ++i)
    ins.push_back(view(c.ins[i], inPlaces[i]));
  for (size_t i = 0; i < c.outs.size(); ++i)
    outs.push_back(view(c.outs[i], outPlace(i)));
  for (const auto &r : c.runs) {
    runs.push_back(r.data());
    numRuns.push_back(static_cast<int32_t>(r.size()));
  }
  l.ins = ins.data();
  l.outs = outs.data();
  l.numIns = static_cast<int32_t>(ins.size());
  l.numOuts = static_cast<int32_t>(outs.size());
  l.attrs = attrs.list.data();
  l.numAttrs = static_cast<int32_t>(attrs.list.size());
  l.runs = runs.empty() ? nullptr : runs.data();
  l.numRuns = runs.empty() ? nullptr : numRuns.data();
  l.threads = o.threads;
  l.world = 1;
  l.stream = o.stream;
  if (!o.api)
    return;
  deviceFault = OnDevice(o, DsMemoryPinned, sizeof(DsFault), error);
  l.fault = reinterpret_cast<DsFault *>(deviceFault.data());
  if (l.fault)
    *l.fault = {};
}

// Where the kernel finds the tensor's first element.
uint8_t *PreparedKernel::Impl::place(Placed &p) {
  if (!options.api)
    return p.data;
  p.device = OnDevice(options, DsMemoryDevice, p.bytes, error);
  p.device.fill(p.block.get(), error);
  return p.device.data() ? p.device.data() + (p.data - p.block.get()) : nullptr;
}

void PreparedKernel::Impl::placeWork() {
  room = (l.workBytes + 255) / 256 * 256 + 256;
  work.reset(static_cast<uint8_t *>(std::aligned_alloc(256, room)));
  std::memset(work.get(), kCanary, room);
  uint8_t *at = work.get();
  if (options.api) {
    deviceWork = OnDevice(options, DsMemoryDevice, room, error);
    deviceWork.fill(work.get(), error);
    at = deviceWork.data();
  }
  l.work = l.workBytes ? at : nullptr;
}

// What the device holds, into the host's copies.
void PreparedKernel::Impl::readBack() {
  for (auto *places : {&inPlaces, &outPlaces})
    for (Placed &p : *places)
      p.device.read(p.block.get(), error);
  deviceWork.read(work.get(), error);
  if (options.api && error.empty())
    if (const char *message = options.api->streamSync(options.stream))
      error = message;
}

PreparedKernel::PreparedKernel(const DsKernel &kernel, const KernelCase &c, const RunOptions &o)
    : impl(new Impl(kernel, c, o)) {
  Impl &m = *impl;
  m.error = m.attrs.error;
  if (!m.error.empty())
    return;
  m.describe();
  if (kernel.work && !o.noWork)
    m.l.workBytes = kernel.work(&m.l);
  if (const char *message = kernel.prepare ? kernel.prepare(&m.l, &m.state) : nullptr) {
    m.error = message;
    return;
  }
  for (size_t i = 0; i < m.ins.size(); ++i)
    m.ins[i].data = m.place(m.inPlaces[i]);
  for (size_t i = 0; i < m.outs.size(); ++i)
    m.outs[i].data =
        m.tied(i) >= 0 ? m.ins[static_cast<size_t>(m.tied(i))].data : m.place(m.outPlaces[i]);
  m.placeWork();
}

PreparedKernel::~PreparedKernel() {
  if (impl->options.api) // copies may be under way
    impl->options.api->streamSync(impl->options.stream);
  if (impl->kernel.destroy && impl->state)
    impl->kernel.destroy(impl->state);
}

const char *PreparedKernel::enqueue() {
  if (impl->error.empty())
    if (const char *message = impl->kernel.run(&impl->l, impl->state))
      impl->error = message;
  return impl->error.empty() ? nullptr : impl->error.c_str();
}

const char *PreparedKernel::run() {
  enqueue();
  const RunOptions &o = impl->options;
  if (impl->error.empty() && o.api)
    if (const char *message = o.api->streamSync(o.stream))
      impl->error = message;
  const DsFault *f = impl->fault();
  if (impl->error.empty() && f && f->set)
    impl->error = "fault " + std::to_string(f->code) + ": " + std::to_string(f->a) + ", " +
                  std::to_string(f->b);
  return impl->error.empty() ? nullptr : impl->error.c_str();
}

RunResult PreparedKernel::finish() {
  Impl &m = *impl;
  if (m.error.empty())
    m.readBack();
  RunResult result;
  result.error = m.error;
  result.workBytes = m.l.workBytes;
  if (!m.error.empty())
    return result;
  for (size_t i = m.l.workBytes; i < m.room; ++i)
    if (m.work.get()[i] != kCanary)
      result.error = "wrote behind its workspace";
  for (size_t i = 0; i < m.outs.size(); ++i)
    result.bytes.push_back(m.outPlace(i).rowMajor(m.c.outs[i]));
  for (size_t i = 0; i < m.outs.size(); ++i)
    if (!m.outPlaces[i].intact(m.c.outs[i]))
      result.error = "wrote outside result " + std::to_string(i);
  for (size_t i = 0; i < m.ins.size(); ++i) {
    const Tensor &t = m.c.ins[i];
    bool written = false;
    for (size_t k = 0; k < m.outs.size(); ++k)
      written |= m.tied(k) == static_cast<int>(i);
    if (!written && m.inPlaces[i].rowMajor(t) != Placed(t, 0).rowMajor(t))
      result.error = "wrote into operand " + std::to_string(i);
    if (!m.inPlaces[i].intact(t))
      result.error = "wrote outside operand " + std::to_string(i);
  }
  return result;
}

RunResult runKernel(const DsKernel &kernel, const KernelCase &c, const RunOptions &o) {
  PreparedKernel k(kernel, c, o);
  k.run();
  return k.finish();
}

} // namespace ds::test
