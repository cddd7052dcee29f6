// SPDX-License-Identifier: Apache-2.0
//
// Lookups on a schedule, and where a place lies in its arena.
#include "ir/Schedule.h"

namespace ds {

std::string_view text(Stream s) {
  constexpr std::string_view names[] = {"compute", "comm", "feed", "host",
                                        "d2h",     "h2d",  "read", "write"};
  return names[static_cast<int>(s)];
}

std::string_view text(InstrKind k) {
  switch (k) {
#define INSTR(kind, text, stream, summary)                                                         \
  case InstrKind::kind:                                                                            \
    return text;
#include "ir/Instrs.def"
#undef INSTR
  }
  return "";
}

Stream streamOf(InstrKind k) {
  switch (k) {
#define INSTR(kind, text, stream, summary)                                                         \
  case InstrKind::kind:                                                                            \
    return Stream::stream;
#include "ir/Instrs.def"
#undef INSTR
  }
  return Stream::Compute;
}

bool isCollective(InstrKind k) { return streamOf(k) == Stream::Comm; }

bool isTransfer(InstrKind k) { return streamOf(k) >= Stream::D2h; }

Stream launchStream(Space s) { return s == Space::Host ? Stream::Host : Stream::Compute; }

std::string_view text(BufferKind k) {
  constexpr std::string_view names[] = {"param", "state", "accum", "scalar", "const",
                                        "carry", "input", "temp",  "work",   "staging"};
  return names[static_cast<int>(k)];
}

bool isPersistent(BufferKind k) { return k <= BufferKind::Input; }

int64_t Schedule::world() const {
  int64_t n = 1;
  for (const auto &[axis, size] : mesh)
    n *= size;
  return n;
}

const SchedProgram *Schedule::program(std::string_view name) const {
  for (const SchedProgram &p : programs)
    if (p.name == name)
      return &p;
  return nullptr;
}

int Schedule::findPersistent(std::string_view name) const {
  for (size_t i = 0; i < persistent.size(); ++i)
    if (persistent[i].name == name)
      return static_cast<int>(i);
  return -1;
}

const Buffer &bufferAt(const Schedule &s, const SchedProgram &p, int index) {
  int count = static_cast<int>(s.persistent.size());
  return index < count ? s.persistent[index] : p.own[index - count];
}

/// Bytes from the first element's start to the last one's end; 0 if there is no element.
static int64_t windowBytes(const Type &t, const std::vector<int64_t> &strides) {
  if (strides.empty())
    return t.bytes();
  int64_t last = 0; // element offset of the last element
  for (size_t i = 0; i < t.dims.size(); ++i) {
    if (t.dims[i] == 0)
      return 0;
    last += (t.dims[i] - 1) * strides[i];
  }
  return (last + 1) * byteSize(t.dtype);
}

PlaceInfo resolve(const Schedule &s, const SchedProgram &p, PlaceRef r) {
  static const std::vector<int64_t> rowMajor;
  if (!r.isView) {
    const Buffer &b = bufferAt(s, p, r.index);
    return {&b.name, &b, r.index, b.offset, 0, b.type.bytes(), &b.type, &rowMajor};
  }
  const View &v = p.views[r.index];
  const Buffer &b = bufferAt(s, p, v.buffer);
  int64_t bytes = windowBytes(v.type, v.strides);
  return {&v.name,           &b,    v.buffer, b.offset + v.offset,
          v.own ? bytes : 0, bytes, &v.type,  &v.strides};
}

std::vector<int> carriedOut(const SchedProgram &p) {
  std::vector<int> out;
  for (size_t k = 0; k < p.instrs.size(); ++k)
    if (p.instrs[k].carry)
      out.push_back(static_cast<int>(k));
  return out;
}

} // namespace ds
