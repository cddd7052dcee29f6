// SPDX-License-Identifier: Apache-2.0
//
// Schedule -> .dsched text (docs/schedule.md). Tables come first, then the programs. Never fails, also on
// a schedule that breaks rules: an index outside its table prints as "?", so that it can be looked at.
#include "ir/Schedule.h"
#include "ir/SourceText.h"

#include "ir/ScheduleNames.h"

#include <algorithm>

namespace ds {

namespace {

std::string padded(std::string s, size_t width) {
  if (s.size() < width)
    s.append(width - s.size(), ' ');
  return s;
}

constexpr size_t kMaxColumn = 32; // longer names are printed whole and push their line to the right

/// The widest name, address and size of a list of buffers.
struct Columns {
  size_t name = 0, address = 0, bytes = 0;
};

std::string address(const Buffer &b) {
  return std::string(text(b.type.space)) + "+" + std::to_string(b.offset);
}

Columns columnsOf(const std::vector<Buffer> &buffers) {
  Columns c;
  for (const Buffer &b : buffers) {
    c.name = std::max(c.name, std::min(nameText(b.name).size(), kMaxColumn));
    c.address = std::max(c.address, address(b).size());
    c.bytes = std::max(c.bytes, std::to_string(b.bytes).size());
  }
  return c;
}

/// The type without its space, which the address says already.
std::string typeText(Type t) {
  t.space = Space::Device;
  return t.str();
}

class Printer {
public:
  explicit Printer(const Schedule &s) : s(s) {}
  std::string run();

private:
  void arena(const ArenaInfo &a);
  void buffer(const Buffer &b, const Columns &c, const SchedProgram *p);
  void bucket(const BucketInfo &b);
  void origin(size_t i);
  void program(const SchedProgram &p);
  void view(const SchedProgram &p, const View &v);
  void instr(const SchedProgram &p, const Instr &i);
  void returns(const SchedProgram &p);

  std::string label(const SchedProgram &p, int i) const {
    bool known = i >= 0 && i < static_cast<int>(p.instrs.size());
    return known ? nameText(p.instrs[i].label) : "?";
  }
  std::string bufferName(const SchedProgram &p, int i) const {
    bool known = i >= 0 && i < static_cast<int>(s.persistent.size() + p.own.size());
    return known ? nameText(bufferAt(s, p, i).name) : "?";
  }
  std::string place(const SchedProgram &p, PlaceRef r) const {
    if (!r.isView)
      return bufferName(p, r.index);
    bool known = r.index >= 0 && r.index < static_cast<int>(p.views.size());
    return known ? nameText(p.views[r.index].name) : "?";
  }
  template <typename It> std::string places(const SchedProgram &p, It begin, It end) const {
    std::string list;
    for (It it = begin; it != end; ++it)
      list += (it == begin ? "" : ", ") + place(p, *it);
    return list;
  }

  const Schedule &s;
  std::string out;
};

void Printer::arena(const ArenaInfo &a) {
  out += "  arena " + std::string(text(a.space)) + " bytes=" + std::to_string(a.bytes) +
         " persistent=" + std::to_string(a.persistentBytes) + " align=" + std::to_string(a.align) +
         " load=" + std::to_string(a.load) + "\n";
}

void Printer::buffer(const Buffer &b, const Columns &c, const SchedProgram *p) {
  out += (p ? "    buffer " : "  buffer ") + padded(nameText(b.name), c.name) + " " +
         padded(std::string(text(b.kind)), p ? 7 : 6) + " " + padded(address(b), c.address) + " " +
         padded(std::to_string(b.bytes), c.bytes);
  if (p)
    out += " [" + label(*p, b.first) + ", " + label(*p, b.last) + "]";
  out += " : " + typeText(b.type) + "\n";
}

void Printer::bucket(const BucketInfo &b) {
  out += "  bucket " + nameText(b.name) + " elems=" + std::to_string(b.elems) + " " +
         std::string(text(b.dtype)) + (b.sharded ? " sharded" : " whole") +
         (b.trainable ? " trainable"
          : b.running ? " running"
                      : " frozen") +
         (b.master.empty() ? "" : " master " + nameText(b.master)) + " {\n";
  for (const SegmentInfo &g : b.segments) {
    out += "    " + nameText(g.param) + " at " + std::to_string(g.at) + " : " + dimsText(g.shape) +
           " group " + std::to_string(g.group);
    if (std::string source = sourceText(g.source, b.dtype); !source.empty())
      out += " " + source;
    if (!g.exportName.empty())
      out += " export " + quoted(g.exportName);
    out += "\n";
  }
  out += "  }\n";
}

void Printer::origin(size_t i) {
  const OriginInfo &o = s.origins[i];
  out += "  origin " + std::to_string(i);
  if (!o.node.empty())
    out += " node " + quoted(o.node);
  if (!o.module.empty())
    out += " module " + quoted(o.module);
  if (!o.pass.empty())
    out += " pass " + quoted(o.pass);
  out += "\n";
}

void Printer::view(const SchedProgram &p, const View &v) {
  out += "    view " + nameText(v.name) + " = " + (v.own ? "own " : "") + bufferName(p, v.buffer);
  if (!v.own || v.offset)
    out += "+" + std::to_string(v.offset);
  out += " : " + typeText(v.type);
  if (!v.strides.empty())
    out += " strides " + dimsText(v.strides);
  out += "\n";
}

void Printer::instr(const SchedProgram &p, const Instr &i) {
  auto named = i.outs.begin() + std::clamp<int64_t>(i.named, 0, i.outs.size());
  std::string first = named == i.outs.begin() ? "" : place(p, i.outs[0]);
  out += "    " + padded(std::string(text(i.stream)), 7) + " ";
  if (std::string label = nameText(i.label); label != first)
    out += label + " : ";
  if (named != i.outs.begin())
    out += places(p, i.outs.begin(), named) + " = ";
  out += i.kind == InstrKind::Launch ? info(i.op).text : text(i.kind);
  if (!i.ins.empty())
    out += " " + places(p, i.ins.begin(), i.ins.end());
  if (isCollective(i.kind) && i.attrs.find("over"))
    out += " over " + i.attrs.s("over");
  if (named != i.outs.end())
    out += " -> " + places(p, named, i.outs.end());
  if (i.kind == InstrKind::Launch)
    out += attrsText(i.attrs, info(i.op).attrs);
  else if (isCollective(i.kind))
    out += " {elems=" + std::to_string(i.elems) + "}";
  if (i.work >= 0)
    out += " work " + bufferName(p, i.work);
  if (i.carry)
    out += " carry";
  if (!i.waits.empty() || !i.carriedWaits.empty()) {
    std::vector<std::string> labels;
    for (int c : i.carriedWaits)
      labels.push_back(c >= 0 && c < static_cast<int>(p.carried.size()) ? nameText(p.carried[c])
                                                                        : "?");
    for (int w : i.waits)
      labels.push_back(label(p, w));
    std::sort(labels.begin(), labels.end());
    for (size_t k = 0; k < labels.size(); ++k)
      out += (k ? ", " : "  wait ") + labels[k];
  }
  if (i.origin >= 0)
    out += "  @" + std::to_string(i.origin);
  out += "\n";
}

void Printer::returns(const SchedProgram &p) {
  for (size_t k = 0; k < p.returns.size(); ++k) {
    std::string where = place(p, p.returns[k]);
    std::string name = k < p.returnNames.size() ? nameText(p.returnNames[k]) : where;
    out += (k ? ", " : "    return ") + (name == where ? where : name + " = " + where);
  }
  if (!p.returns.empty())
    out += "\n";
}

void Printer::program(const SchedProgram &p) {
  out += "\n  program " + nameText(p.name) + " {\n";
  Columns c = columnsOf(p.own);
  for (const Buffer &b : p.own)
    buffer(b, c, &p);
  for (const View &v : p.views)
    view(p, v);
  for (size_t k = 0; k < p.carried.size(); ++k)
    out += (k ? ", " : "    carried ") + nameText(p.carried[k]);
  out += p.carried.empty() ? "" : "\n";
  if (!p.own.empty() || !p.views.empty() || !p.carried.empty())
    out += "\n";
  for (const Instr &i : p.instrs)
    instr(p, i);
  returns(p);
  out += "  }\n";
}

std::string Printer::run() {
  out = "schedule " + (isName(s.name) ? "@" + s.name : quoted(s.name));
  for (size_t i = 0; i < s.mesh.size(); ++i)
    out +=
        (i ? ", " : " mesh(") + nameText(s.mesh[i].first) + "=" + std::to_string(s.mesh[i].second);
  out += s.mesh.empty() ? "" : ")";
  out += " stage " + std::to_string(s.step.stage) + " micro_batch " +
         std::to_string(s.step.microBatch) + " grad_accum " + std::to_string(s.step.gradAccum) +
         " {\n";
  for (const ArenaInfo &a : s.arenas)
    arena(a);
  out += s.persistent.empty() ? "" : "\n";
  Columns c = columnsOf(s.persistent);
  for (const Buffer &b : s.persistent)
    buffer(b, c, nullptr);
  for (const BucketInfo &b : s.buckets)
    bucket(b);
  for (const InitInfo &i : s.inits) {
    bool known = i.buffer >= 0 && i.buffer < static_cast<int>(s.persistent.size());
    DType declared = known ? s.persistent[i.buffer].type.dtype : i.source.stored;
    if (std::string source = sourceText(i.source, declared); !source.empty()) // zeros need no line
      out +=
          "  init " + (known ? nameText(s.persistent[i.buffer].name) : "?") + " " + source + "\n";
  }
  for (const InputInfo &i : s.inputs) {
    std::string meta = inputMetaText(i.meta);
    out += "  input " + nameText(i.name) + (meta.empty() ? "" : " ") + meta + "\n";
  }
  for (size_t i = 0; i < s.origins.size(); ++i)
    origin(i);
  for (const SchedProgram &p : s.programs)
    program(p);
  return out + "}\n";
}

} // namespace

std::string printSchedule(const Schedule &s) { return Printer(s).run(); }

} // namespace ds
