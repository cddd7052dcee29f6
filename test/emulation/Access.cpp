// SPDX-License-Identifier: Apache-2.0
#include "test/emulation/Access.h"

#include "ir/DType.h"
#include "kernels/Kernel.h"
#include "test/emulation/Grid.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <link.h>

namespace ds::emulated {

static thread_local const Touches *innermost = nullptr;
static thread_local Windows *running __attribute__((tls_model("initial-exec"))) = nullptr;

const Touches *Touches::current() { return innermost; }
Touches::Touches() : outer(innermost) {
  innermost = this;
  all->what = labelled("launch");
}
Touches::~Touches() { innermost = outer; }

void begin(Windows &w) {
  if (w.begun)
    return;
  w.begun = true;
  for (size_t i : w.replaced)
    if (Window &r = w.list[i]; r.known)
      std::memset(r.known, 0, static_cast<size_t>(r.end - r.begin));
}
void written(Windows &w) {
  w.begun = true;
  for (Window &r : w.list)
    if (r.writes && r.known)
      std::memset(r.known, 1, static_cast<size_t>(r.end - r.begin));
}

// Lines of 64 bytes that the running kernel may touch as it likes: stacks, parameters of launches.
static thread_local uintptr_t foreign[64] __attribute__((tls_model("initial-exec"))) = {};

void traceInto(Windows *w) {
  running = w;
  std::fill(std::begin(foreign), std::end(foreign), 0);
  if (w)
    begin(*w);
}

// Bytes from the first element to the last one's end.
static size_t extent(const DsTensor &t) {
  int64_t last = 0;
  for (int32_t i = 0; i < t.rank; ++i) {
    if (t.dims[i] == 0)
      return 0;
    last += (t.dims[i] - 1) * t.strides[i];
  }
  return static_cast<size_t>((last + 1) * byteSize(static_cast<DType>(t.dtype)));
}

Touches::Touches(const DsLaunch &l) : Touches() {
  for (int32_t i = 0; i < l.numIns; ++i)
    reads(l.ins[i].data, extent(l.ins[i]), "operand " + std::to_string(i));
  for (int32_t i = 0; i < l.numOuts; ++i)
    writes(l.outs[i].data, extent(l.outs[i]), "result " + std::to_string(i), isRowMajor(l.outs[i]));
  if (l.work)
    writes(l.work, l.workBytes, "the workspace", true);
  if (l.fault)
    all->list.push_back({reinterpret_cast<const char *>(l.fault),
                         reinterpret_cast<const char *>(l.fault + 1), true, "the fault", nullptr,
                         true});
}

void Touches::reads(const void *p, size_t bytes, const std::string &name) {
  auto *at = static_cast<const char *>(p);
  all->list.push_back({at, at + bytes, false, name, knownAt(p, bytes)});
}

// Where it is also an operand, it holds that at first.
void Touches::writes(const void *p, size_t bytes, const std::string &name, bool replaces) {
  auto *at = static_cast<const char *>(p);
  Window w{at, at + bytes, true, name, knownAt(p, bytes)};
  for (const Window &o : all->list)
    replaces &= o.end <= w.begin || w.end <= o.begin;
  if (replaces && !w.known && !isAllocated(p))
    w.known = all->own.emplace_back(new uint8_t[bytes + 1]()).get();
  all->list.push_back(std::move(w));
  if (replaces)
    all->replaced.push_back(all->list.size() - 1);
}

std::vector<Range> Touches::ranges() const {
  std::vector<Range> out;
  for (const Window &w : all->list)
    if (!w.isFault)
      out.push_back({w.begin, w.end, w.writes});
  return out;
}

// ---- accesses of kernels ----------------------------------------------------------------------------

// "kernels/cuda/Softmax.cu:31" of an instruction, of an inlined function with where it is called from; the module and offset where no symbolizer is.
static std::string placeOf(void *pc) {
  Dl_info info = {};
  if (!dladdr(pc, &info) || !info.dli_fname)
    return "?";
  auto *header = static_cast<const ElfW(Ehdr) *>(info.dli_fbase);
  auto at = reinterpret_cast<uintptr_t>(pc) - 1; // inside of the call
  if (header->e_type == ET_DYN)
    at -= reinterpret_cast<uintptr_t>(info.dli_fbase);
  char command[1024];
  std::snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%zx 2>/dev/null", info.dli_fname,
                static_cast<size_t>(at));
  std::string text;
  if (FILE *f = popen(command, "r")) {
    char line[1024];
    while (std::fgets(line, sizeof line, f))
      if (const char *file = std::strstr(line, "kernels/"))
        text += (text.empty() ? "" : " from ") + std::string(file, std::strcspn(file, " (\n"));
    pclose(f);
  }
  std::snprintf(command, sizeof command, "%s+0x%zx", info.dli_fname, static_cast<size_t>(at));
  return text.empty() ? command : text;
}

[[noreturn]] static void refuse(const char *at, size_t bytes, bool write, const std::string &why,
                                void *pc) {
  const Windows &r = *running;
  running = nullptr;
  std::string where;
  for (const Window &w : r.list)
    if (at >= w.begin && at < w.end)
      where = "byte " + std::to_string(at - w.begin) + " of " + w.name;
  if (where.empty()) { // the nearest one
    const Window *near = nullptr;
    auto distance = [&](const Window &w) { return at < w.begin ? w.begin - at : at - w.end; };
    for (const Window &w : r.list)
      if (!near || distance(w) < distance(*near))
        near = &w;
    if (near)
      where = std::to_string(distance(*near)) + " bytes " +
              (at < near->begin ? "before " : "behind ") + near->name + " of " +
              std::to_string(near->end - near->begin) + " bytes";
  }
  fail(placeOf(pc) + ": " + r.what + " " + (write ? "writes " : "reads ") + std::to_string(bytes) +
       " bytes, " + where + ": " + why);
}

constexpr ptrdiff_t kBeside =
    256; // operands that are no allocation have as much round them in tests

// The access's window; null for what is no business of the launch.
static Window *checkSlowly(const char *at, size_t bytes, bool write, void *pc) {
  Windows &r = *running;
  bool beside = false, overlaps = false;
  for (Window &w : r.list) {
    if (at >= w.begin && at + bytes <= w.end && (w.writes || !write)) {
      r.last = &w;
      return &w;
    }
    overlaps |= at < w.end && w.begin < at + bytes;
    beside |= at < w.end + kBeside && w.begin - kBeside < at + bytes && !w.isFault &&
              !isAllocated(w.begin);
  }
  if (overlaps && write)
    refuse(at, bytes, write, "it is not to be written, or not so far", pc);
  if (overlaps || beside || isAllocated(at))
    refuse(at, bytes, write, "it belongs to no operand", pc);
  uintptr_t line = reinterpret_cast<uintptr_t>(at) / 64;
  foreign[line % 64] = line;
  return nullptr;
}

void touched(const void *p, size_t bytes, bool write, void *pc) {
  Windows *r = running;
  if (!r)
    return;
  auto *at = static_cast<const char *>(p);
  Window *w = r->last;
  if (!w || at < w->begin || at + bytes > w->end || (write && !w->writes)) {
    uintptr_t line = reinterpret_cast<uintptr_t>(at) / 64;
    if (foreign[line % 64] == line)
      return;
    w = checkSlowly(at, bytes, write, pc);
  }
  // Accesses of up to 16 bytes are single instructions, which a device takes at multiples of their size only.
  if (const uintptr_t each = std::min<size_t>(bytes, 16);
      w && std::has_single_bit(each) && reinterpret_cast<uintptr_t>(at) % each)
    refuse(at, bytes, write, "it is not aligned", pc);
  if (!w || !w->known)
    return;
  uint8_t *known = w->known + (at - w->begin);
  if (write)
    std::memset(known, 1, bytes);
  else if (std::memchr(known, 0, bytes))
    refuse(at, bytes, write, "nobody has written it", pc);
}

#ifdef DS_EMULATED_TRACES
bool tracesAccesses() { return true; }
#else
bool tracesAccesses() { return false; }
#endif

} // namespace ds::emulated

// ---- what the compiler calls ------------------------------------------------------------------------
#ifdef DS_EMULATED_TRACES
extern "C" {
void __tsan_init() {}
#define ACCESS(size)                                                                               \
  void __tsan_read##size(void *p) {                                                                \
    ds::emulated::touched(p, size, false, __builtin_return_address(0));                            \
  }                                                                                                \
  void __tsan_write##size(void *p) {                                                               \
    ds::emulated::touched(p, size, true, __builtin_return_address(0));                             \
  }                                                                                                \
  void __tsan_unaligned_read##size(void *p) {                                                      \
    ds::emulated::touched(p, size, false, __builtin_return_address(0));                            \
  }                                                                                                \
  void __tsan_unaligned_write##size(void *p) {                                                     \
    ds::emulated::touched(p, size, true, __builtin_return_address(0));                             \
  }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
void __tsan_read_range(void *p, size_t n) {
  ds::emulated::touched(p, n, false, __builtin_return_address(0));
}
void __tsan_write_range(void *p, size_t n) {
  ds::emulated::touched(p, n, true, __builtin_return_address(0));
}
void __tsan_vptr_update(void **, void *) {}
void __tsan_vptr_read(void **) {}
}
#endif
