// SPDX-License-Identifier: Apache-2.0
//
// The programs of one update window, in the order in which they run.
// S9: the set of programs fits the number of micro-batches, or there is `forward` alone, which runs once. Programs join at their boundaries: every stream
// is drained but for what S12 lets run on, so rules about order need to look at one program at a time.
// S6: every byte of an accumulator is stored exactly once, then added to once in every later micro-batch, and
// read only after it was stored.
#include "ir/ScheduleNames.h"
#include "ir/ScheduleVerify.h"

#include <algorithm>
#include <map>

namespace ds {

namespace {

/// Disjoint half-open intervals of bytes.
class ByteSet {
public:
  bool intersects(int64_t begin, int64_t end) const {
    auto it = parts.upper_bound(begin);
    if (it != parts.begin() && std::prev(it)->second > begin)
      return true;
    return it != parts.end() && it->first < end;
  }
  bool contains(int64_t begin, int64_t end) const {
    auto it = parts.upper_bound(begin);
    return it != parts.begin() && std::prev(it)->second >= end;
  }
  void add(int64_t begin, int64_t end) {
    auto it = parts.upper_bound(begin);
    if (it != parts.begin() && std::prev(it)->second >= begin)
      --it;
    while (it != parts.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = parts.erase(it);
    }
    parts.emplace(begin, end);
  }
  void add(const ByteSet &other) {
    for (auto [begin, end] : other.parts)
      add(begin, end);
  }
  /// The first part that `other` does not hold, or {0, 0}.
  std::pair<int64_t, int64_t> missingIn(const ByteSet &other) const {
    for (auto [begin, end] : parts)
      if (!other.contains(begin, end))
        return {begin, end};
    return {0, 0};
  }

private:
  std::map<int64_t, int64_t> parts; // begin -> end
};

struct Accumulator {
  ByteSet stored;
  std::string label;             // of the instruction that stored the first of it
  ByteSet storedHere, addedHere; // by the current program
  std::string adder;             // the current program's last `accumulate` into it
};

class Window {
public:
  Window(const Schedule &s, Findings &f) : s(s), f(f) {}
  void run();

private:
  bool programs();
  void evaluation(const SchedProgram &p);
  void visit(const SchedProgram &p);
  void instr(const SchedProgram &p, const Instr &i);
  void store(const SchedProgram &p, const Instr &i, const Access &a);
  void add(const SchedProgram &p, const Instr &i, const Access &a);
  void completePack(const SchedProgram &p, const Instr &i, const Access &a);

  const Schedule &s;
  Findings &f;
  std::vector<const SchedProgram *> window;
  std::map<int, Accumulator> accums; // by buffer
  std::vector<Access> list;
};

/// S9. Fills the window.
bool Window::programs() {
  std::vector<std::string> want;
  int64_t n = s.step.gradAccum;
  if (n == 1)
    want = {"micro.only", "update"};
  else if (n == 2)
    want = {"micro.first", "micro.last", "update"};
  else
    want = {"micro.first", "micro.mid", "micro.last", "update"};
  std::vector<std::string> have;
  for (const SchedProgram &p : s.programs)
    if ((p.name == "start" && &p == s.programs.data()) ||
        (p.name == "eval" && &p == &s.programs.back()))
      continue; // once before the first window; between two updates, when all streams are idle
    else
      have.push_back(p.name);
  auto list = [](const std::vector<std::string> &names) {
    std::string text;
    for (const std::string &name : names)
      text += (text.empty() ? "" : ", ") + nameText(name);
    return text;
  };
  if (n < 1 || s.step.microBatch < 1 || s.step.stage < 0 || s.step.stage > 3)
    f.add("S9", 0, "stage must lie in [0, 3], micro_batch and grad_accum must be at least 1");
  else if (have == std::vector<std::string>{"forward"} && s.programs.size() == 1)
    return false; // no window
  else if (have != want)
    f.add("S9", 0,
          "grad_accum " + std::to_string(n) + " needs the programs " + list(want) +
              " in this order, found " + (have.empty() ? "none" : list(have)));
  for (const SchedProgram &p : s.programs)
    if (p.name != "start" && p.name != "eval")
      window.push_back(&p);
  return have == want;
}

void Window::store(const SchedProgram &p, const Instr &i, const Access &a) {
  Accumulator &acc = accums[a.buffer];
  bool again = acc.stored.intersects(a.begin, a.end);
  if (again)
    f.add("S6", p, i,
          "stores " + nameText(*a.name) + ", which " + acc.label +
              " has stored before in this window; it must add");
  else if (p.name == "micro.mid")
    f.add("S6", p, i,
          "stores " + nameText(*a.name) +
              ", but this program runs many times in a window; it must add");
  if (!again)
    acc.storedHere.add(a.begin, a.end);
  acc.stored.add(a.begin, a.end);
  if (acc.label.empty())
    acc.label = p.name + "'s " + nameText(i.label);
}

/// Other operations than `accumulate` may change a sum in place, in as many steps as they like.
void Window::add(const SchedProgram &p, const Instr &i, const Access &a) {
  Accumulator &acc = accums[a.buffer];
  if (i.kind == InstrKind::Launch && i.op == OpKind::Accumulate) {
    bool twice = !acc.adder.empty() && acc.addedHere.intersects(a.begin, a.end);
    if (twice || acc.storedHere.intersects(a.begin, a.end))
      f.add("S6", p, i,
            "adds to " + nameText(*a.name) + ", " + bytesText(a) + ", which " +
                (twice ? acc.adder + " has added to" : acc.label + " has stored") +
                " already; a micro-batch counts once");
    acc.adder = nameText(i.label);
  }
  acc.addedHere.add(a.begin, a.end);
}

/// A pack into an accumulator some of whose operands were computed in place: they were stored by then, so
/// only the bytes between them are stored now.
void Window::completePack(const SchedProgram &p, const Instr &i, const Access &a) {
  std::vector<Access> reads;
  for (const Access &r : list)
    if (!r.write && overlap(r, a))
      reads.push_back(r);
  std::sort(reads.begin(), reads.end(),
            [](const Access &x, const Access &y) { return x.begin < y.begin; });
  Access gap = a;
  auto storeUpTo = [&](int64_t end) {
    gap.end = end;
    if (gap.begin < gap.end)
      store(p, i, gap);
  };
  for (const Access &r : reads) {
    storeUpTo(r.begin);
    gap.begin = std::max(gap.begin, r.end);
  }
  storeUpTo(a.end);
}

void Window::instr(const SchedProgram &p, const Instr &i) {
  accesses(s, p, i, list);
  auto isAccum = [&](const Access &a) {
    return bufferAt(s, p, a.buffer).kind == BufferKind::Accum;
  };
  for (const Access &a : list)
    if (!a.write && isAccum(a) && !accums[a.buffer].stored.contains(a.begin, a.end))
      f.add("S6", p, i, "reads " + nameText(*a.name) + ", which nothing has stored in this window");
  bool accumulates = i.kind == InstrKind::Launch && i.op == OpKind::Accumulate;
  if (accumulates && i.attrs.flag("first") != (i.ins.size() == 1))
    f.add("S6", p, i,
          i.ins.size() == 1 ? "has one operand, but is not {first}"
                            : "is {first}, but reads the accumulator");
  for (const Access &a : list) {
    if (!a.write || !isAccum(a))
      continue;
    bool reads = std::any_of(list.begin(), list.end(),
                             [&](const Access &r) { return !r.write && overlap(r, a); });
    if (reads && i.kind == InstrKind::Launch && i.op == OpKind::Pack)
      completePack(p, i, a);
    else if (reads)
      add(p, i, a);
    else
      store(p, i, a);
  }
}

void Window::visit(const SchedProgram &p) {
  for (auto &[buffer, acc] : accums) {
    acc.storedHere = acc.addedHere = {};
    acc.adder.clear();
  }
  for (const Instr &i : p.instrs)
    instr(p, i);
  for (PlaceRef r : p.returns) {
    Access a = accessOf(s, p, r, false);
    const Buffer &b = bufferAt(s, p, a.buffer);
    if (b.kind == BufferKind::Accum && !accums[a.buffer].stored.contains(a.begin, a.end))
      f.add("S6", b.line,
            p.name + ": returns " + nameText(*a.name) +
                ", which nothing has stored in this window");
  }
  if (p.name == "update")
    return;
  for (const auto &[buffer, acc] : accums) {
    const Buffer &b = bufferAt(s, p, buffer);
    ByteSet has = acc.storedHere;
    has.add(acc.addedHere);
    auto [begin, end] = acc.stored.missingIn(has);
    if (begin < end)
      f.add("S6", b.line,
            p.name + ": nothing is added to " + nameText(b.name) + ", which " + acc.label +
                " has stored; this micro-batch would be lost from " +
                bytesText({b.type.space, begin, end}));
  }
}

/// Evaluation leaves no trace in what training keeps, nor does a forward run in weights.
void Window::evaluation(const SchedProgram &p) {
  for (const Instr &i : p.instrs)
    for (PlaceRef r : i.outs)
      if (PlaceInfo at = resolve(s, p, r);
          isPersistent(at.buffer->kind) && at.buffer->kind != BufferKind::Input)
        f.add("S9", p, i,
              "writes " + nameText(*at.name) + "; " + p.name +
                  " may write inputs and temporaries only");
}

void Window::run() {
  for (const char *name : {"eval", "forward"})
    if (const SchedProgram *p = s.program(name))
      evaluation(*p);
  if (!programs())
    return;
  for (const SchedProgram *p : window)
    visit(*p);
}

} // namespace

void verifyWindow(const Schedule &s, Findings &f) { Window(s, f).run(); }

} // namespace ds
