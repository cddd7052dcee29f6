// SPDX-License-Identifier: Apache-2.0
#include "test/unit/ScheduleDamages.h"

#include <algorithm>
#include <numeric>
#include <random>

namespace ds {

std::string_view text(Damage d) {
  constexpr std::string_view names[] = {
#define DAMAGE(name, other) #name,
      DAMAGES(DAMAGE)
#undef DAMAGE
  };
  return names[static_cast<int>(d)];
}

bool mayComputeOther(Damage d) {
  constexpr bool other[] = {
#define DAMAGE(name, other) other,
      DAMAGES(DAMAGE)
#undef DAMAGE
  };
  return other[static_cast<int>(d)];
}

namespace {

int length(const SchedProgram &p) { return static_cast<int>(p.instrs.size()); }
Instr &at(SchedProgram &p, int k) { return p.instrs[static_cast<size_t>(k)]; }
const Instr &at(const SchedProgram &p, int k) { return p.instrs[static_cast<size_t>(k)]; }

/// Puts instruction order[k] at place k. Waits and lives follow their instructions.
void reorder(SchedProgram &p, const std::vector<int> &order) {
  std::vector<int> placeOf(order.size());
  std::vector<Instr> instrs;
  for (size_t k = 0; k < order.size(); ++k) {
    placeOf[static_cast<size_t>(order[k])] = static_cast<int>(k);
    instrs.push_back(at(p, order[k]));
  }
  p.instrs = std::move(instrs);
  auto follow = [&](int &k) { k = placeOf[static_cast<size_t>(k)]; };
  for (Instr &i : p.instrs)
    std::for_each(i.waits.begin(), i.waits.end(), follow);
  for (Buffer &b : p.own) {
    follow(b.first);
    follow(b.last);
  }
}

std::vector<int> inOrder(const SchedProgram &p) {
  std::vector<int> order(p.instrs.size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

void move(SchedProgram &p, int from, int to) {
  std::vector<int> order = inOrder(p);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  reorder(p, order);
}

void swap(SchedProgram &p, int a, int b) {
  std::vector<int> order = inOrder(p);
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  reorder(p, order);
}

/// Who waited for it waits for what it waited for. False if a buffer would be left without a life.
bool drop(SchedProgram &p, int k) {
  Instr gone = at(p, k);
  p.instrs.erase(p.instrs.begin() + k);
  auto shift = [&](int &w) { w -= w > k; };
  std::for_each(gone.waits.begin(), gone.waits.end(), shift);
  for (Instr &i : p.instrs) {
    bool waited = std::find(i.waits.begin(), i.waits.end(), k) != i.waits.end();
    i.waits.erase(std::remove(i.waits.begin(), i.waits.end(), k), i.waits.end());
    std::for_each(i.waits.begin(), i.waits.end(), shift);
    for (int w : gone.waits)
      if (waited && at(p, w).stream != i.stream &&
          std::find(i.waits.begin(), i.waits.end(), w) == i.waits.end())
        i.waits.push_back(w);
  }
  for (Buffer &b : p.own) {
    b.last -= b.last >= k && b.last > b.first;
    b.first -= b.first > k;
    b.last = std::min(b.last, length(p) - 1);
    b.first = std::min(b.first, b.last);
  }
  return length(p) > 0;
}

void insert(SchedProgram &p, int k, Instr i) {
  auto shift = [&](int &w) { w += w >= k; };
  for (Instr &other : p.instrs)
    std::for_each(other.waits.begin(), other.waits.end(), shift);
  std::for_each(i.waits.begin(), i.waits.end(), shift);
  for (Buffer &b : p.own) {
    shift(b.first);
    shift(b.last);
  }
  p.instrs.insert(p.instrs.begin() + k, std::move(i));
}

Type typeAt(const Schedule &s, const SchedProgram &p, PlaceRef r) {
  auto index = static_cast<size_t>(r.index);
  if (r.isView)
    return p.views[index].type;
  return index < s.persistent.size() ? s.persistent[index].type
                                     : p.own[index - s.persistent.size()].type;
}

class Maker {
public:
  Maker(const Schedule &good, Damage d, unsigned seed, int stride,
        const std::function<void(const Damaged &)> &visit)
      : good(good), damage(d), random(seed * 2654435761u + 77u + static_cast<unsigned>(d)),
        stride(stride), visit(visit) {
    skip = below(stride);
  }
  void run() {
    for (size_t k = 0; k < good.programs.size(); ++k) {
      if (damage == Damage::MoveBuffer || damage == Damage::ShortenLife ||
          damage == Damage::LengthenLife || damage == Damage::ChangeSpace)
        buffers(k);
      else if (damage == Damage::MoveView)
        views(k);
      else
        for (int j = 0; j < length(good.programs[k]); ++j)
          instr(k, j);
    }
    if (damage == Damage::MoveBuffer || damage == Damage::ChangeSpace)
      persistent();
    if (damage == Damage::ChangeSpace)
      arenas();
  }

private:
  int below(int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
  /// Whether this place is one that is asked for.
  bool taken() {
    if (skip-- > 0)
      return false;
    skip = stride - 1;
    return true;
  }
  /// Applies `edit` to a copy; false from it: it cannot be applied here.
  template <typename Edit> void make(InstrKind on, const std::string &what, Edit edit) {
    if (!taken())
      return;
    Damaged d{good, damage, on, std::string(text(damage)) + " " + what};
    d.schedule.path.clear();
    if (edit(d.schedule))
      visit(d);
  }
  void instr(size_t k, int j);
  void waits(size_t k, int j);
  void order(size_t k, int j);
  void operands(size_t k, int j);
  void carry(size_t k, int j);
  void buffers(size_t k);
  void views(size_t k);
  void persistent();
  void arenas();
  void place(size_t k, int j);
  void space(InstrKind on, size_t k, int buffer);
  /// One of the list in that space; null: there is none.
  const Buffer *drawn(const std::vector<Buffer> &list, Space space) {
    std::vector<const Buffer *> there;
    for (const Buffer &b : list)
      if (b.type.space == space)
        there.push_back(&b);
    return there.empty() ? nullptr
                         : there[static_cast<size_t>(below(static_cast<int>(there.size())))];
  }
  bool intoProgram(Schedule &s, size_t from, int j, size_t to);
  InstrKind writerOf(size_t k, int buffer) const {
    for (const Instr &i : good.programs[k].instrs)
      for (PlaceRef r : i.outs)
        if ((r.isView ? good.programs[k].views[static_cast<size_t>(r.index)].buffer : r.index) ==
            buffer)
          return i.kind;
    return InstrKind::Launch;
  }

  const Schedule &good;
  Damage damage;
  std::minstd_rand random;
  int stride, skip = 0;
  const std::function<void(const Damaged &)> &visit;
};

void Maker::waits(size_t k, int j) {
  const SchedProgram &p = good.programs[k];
  const Instr &i = at(p, j);
  std::string where = p.name + "." + i.label;
  if (damage == Damage::DropCarriedWait)
    for (size_t w = 0; w < i.carriedWaits.size(); ++w)
      make(i.kind, where, [&](Schedule &s) {
        auto &list = at(s.programs[k], j).carriedWaits;
        list.erase(list.begin() + static_cast<int64_t>(w));
        return true;
      });
  if (damage == Damage::RedirectWait)
    for (size_t w = 0; w < i.carriedWaits.size(); ++w)
      for (int to = 0; to < static_cast<int>(p.carried.size()); ++to)
        if (std::find(i.carriedWaits.begin(), i.carriedWaits.end(), to) == i.carriedWaits.end())
          make(i.kind, where + " to carried " + p.carried[static_cast<size_t>(to)],
               [&](Schedule &s) {
                 at(s.programs[k], j).carriedWaits[w] = to;
                 return true;
               });
  for (size_t w = 0; w < i.waits.size(); ++w) {
    if (damage == Damage::DropWait)
      make(i.kind, where + " for " + at(p, i.waits[w]).label, [&](Schedule &s) {
        auto &list = at(s.programs[k], j).waits;
        list.erase(list.begin() + static_cast<int64_t>(w));
        return true;
      });
    if (damage == Damage::RepeatWait)
      make(i.kind, where, [&](Schedule &s) {
        at(s.programs[k], j).waits.push_back(i.waits[w]);
        return true;
      });
    if (damage != Damage::RedirectWait)
      continue;
    // The nearest ones on both sides on the same stream, and one on any other.
    int from = i.waits[w], earlier = -1, later = -1, any = below(length(p));
    for (int to = 0; to < length(p); ++to)
      if (at(p, to).stream == at(p, from).stream &&
          std::find(i.waits.begin(), i.waits.end(), to) == i.waits.end()) {
        earlier = to < from ? to : earlier;
        later = to > from && later < 0 ? to : later;
      }
    for (int to : {earlier, later, any})
      if (to >= 0 && to != j && std::find(i.waits.begin(), i.waits.end(), to) == i.waits.end())
        make(i.kind, where + " to " + at(p, to).label, [&](Schedule &s) {
          at(s.programs[k], j).waits[w] = to;
          return true;
        });
  }
}

/// Moves an instruction to another program, with the buffers it needs there.
bool Maker::intoProgram(Schedule &s, size_t from, int j, size_t to) {
  SchedProgram &p = s.programs[from], &q = s.programs[to];
  Instr i = at(p, j);
  auto fixed = static_cast<int>(s.persistent.size());
  int place = below(length(q) + 1);
  auto buffer = [&](int index) {
    if (index < fixed)
      return index;
    const Buffer &b = p.own[static_cast<size_t>(index - fixed)];
    for (size_t k = 0; k < q.own.size(); ++k)
      if (q.own[k].name == b.name)
        return fixed + static_cast<int>(k);
    q.own.push_back(b);
    q.own.back().first = 0;
    q.own.back().last = std::max(0, length(q) - 1);
    return fixed + static_cast<int>(q.own.size()) - 1;
  };
  auto ref = [&](PlaceRef &r) {
    if (!r.isView) {
      r.index = buffer(r.index);
      return;
    }
    View v = p.views[static_cast<size_t>(r.index)];
    for (size_t k = 0; k < q.views.size(); ++k)
      if (q.views[k].name == v.name) {
        r.index = static_cast<int>(k);
        return;
      }
    v.buffer = buffer(v.buffer);
    q.views.push_back(v);
    r.index = static_cast<int>(q.views.size()) - 1;
  };
  std::for_each(i.ins.begin(), i.ins.end(), ref);
  std::for_each(i.outs.begin(), i.outs.end(), ref);
  if (i.work >= 0)
    i.work = buffer(i.work);
  i.waits.clear();
  i.carriedWaits.clear();
  i.label += ".moved";
  insert(q, place, i);
  return drop(p, j);
}

void Maker::order(size_t k, int j) {
  const SchedProgram &p = good.programs[k];
  const Instr &i = at(p, j);
  std::string where = p.name + "." + i.label;
  if (damage == Damage::DropInstr)
    make(i.kind, where, [&](Schedule &s) { return drop(s.programs[k], j); });
  if (damage == Damage::RepeatInstr)
    for (int to : {j + 1, j + 1 + below(length(p) - j)})
      make(i.kind, where + " at " + std::to_string(to), [&](Schedule &s) {
        Instr again = i;
        again.label += ".again";
        again.carry = false;
        insert(s.programs[k], to, again);
        return true;
      });
  if (damage == Damage::ExchangeNeighbours && j + 1 < length(p))
    make(i.kind, where, [&](Schedule &s) {
      swap(s.programs[k], j, j + 1);
      return true;
    });
  if (damage == Damage::MoveInstr)
    for (int n = 0; n < 3; ++n) {
      int to = below(length(p));
      if (to != j)
        make(i.kind, where + " to " + std::to_string(to), [&](Schedule &s) {
          move(s.programs[k], j, to);
          return true;
        });
    }
  if (damage == Damage::ChangeProgram && good.programs.size() > 1) {
    size_t to = (k + 1 + static_cast<size_t>(below(static_cast<int>(good.programs.size()) - 1))) %
                good.programs.size();
    make(i.kind, where + " to " + good.programs[to].name,
         [&](Schedule &s) { return intoProgram(s, k, j, to); });
  }
  if (damage == Damage::SwapOnStream && (isCollective(i.kind) || isTransfer(i.kind)))
    for (int other = j + 1, n = 0; other < length(p) && n < 3; ++other)
      if (at(p, other).stream == i.stream) {
        ++n;
        make(i.kind, where + " with " + at(p, other).label, [&](Schedule &s) {
          swap(s.programs[k], j, other);
          return true;
        });
      }
}

void Maker::operands(size_t k, int j) {
  const SchedProgram &p = good.programs[k];
  const Instr &i = at(p, j);
  std::string where = p.name + "." + i.label;
  if (damage == Damage::ChangeOperand)
    for (size_t o = 0; o < i.ins.size() + i.outs.size(); ++o) {
      PlaceRef now = o < i.ins.size() ? i.ins[o] : i.outs[o - i.ins.size()];
      Type type = typeAt(good, p, now);
      std::vector<PlaceRef> same;
      auto consider = [&](PlaceRef r) {
        auto fixed = good.persistent.size();
        int b = r.isView ? p.views[static_cast<size_t>(r.index)].buffer : r.index;
        bool scratch = static_cast<size_t>(b) >= fixed &&
                       p.own[static_cast<size_t>(b) - fixed].kind >= BufferKind::Work;
        if (!(r == now) && !scratch && typeAt(good, p, r) == type)
          same.push_back(r);
      };
      for (size_t b = 0; b < good.persistent.size() + p.own.size(); ++b)
        consider({false, static_cast<int>(b)});
      for (size_t v = 0; v < p.views.size(); ++v)
        consider({true, static_cast<int>(v)});
      for (int n = 0; n < std::min(2, static_cast<int>(same.size())); ++n) {
        PlaceRef to = same[static_cast<size_t>(below(static_cast<int>(same.size())))];
        make(i.kind, where + " " + std::to_string(o), [&](Schedule &s) {
          Instr &bad = at(s.programs[k], j);
          (o < i.ins.size() ? bad.ins[o] : bad.outs[o - i.ins.size()]) = to;
          return true;
        });
      }
    }
  if (damage == Damage::SwapDestinations)
    for (int other = j + 1, n = 0; other < length(p) && n < 2; ++other)
      if (!i.outs.empty() && !at(p, other).outs.empty() && !(i.outs[0] == at(p, other).outs[0]) &&
          typeAt(good, p, i.outs[0]) == typeAt(good, p, at(p, other).outs[0])) {
        ++n;
        make(i.kind, where + " with " + at(p, other).label, [&](Schedule &s) {
          std::swap(at(s.programs[k], j).outs[0], at(s.programs[k], other).outs[0]);
          return true;
        });
      }
  if (damage == Damage::ChangeFirst && i.kind == InstrKind::Launch && i.op == OpKind::Accumulate) {
    bool first = i.attrs.flag("first");
    make(i.kind, where + " flag", [&](Schedule &s) {
      at(s.programs[k], j).attrs.set("first", !first);
      return true;
    });
    make(i.kind, where + " whole", [&](Schedule &s) {
      Instr &bad = at(s.programs[k], j);
      bad.attrs.set("first", !first);
      if (first)
        bad.ins.insert(bad.ins.begin(), bad.outs[0]);
      else
        bad.ins.erase(bad.ins.begin());
      return true;
    });
  }
  if (damage == Damage::ChangeElems && isCollective(i.kind))
    for (int64_t to : {i.elems / 2, i.elems + 1, i.elems * good.world()})
      make(i.kind, where, [&](Schedule &s) {
        at(s.programs[k], j).elems = to;
        return to != i.elems;
      });
}

/// To another kind of transfer, or another stream.
void Maker::place(size_t k, int j) {
  const Instr &i = at(good.programs[k], j);
  std::string where = good.programs[k].name + "." + i.label + " to ";
  auto edit = [&](InstrKind kind, Stream stream) {
    make(i.kind, where + std::string(text(stream)), [&](Schedule &s) {
      at(s.programs[k], j).kind = kind;
      at(s.programs[k], j).stream = stream;
      return true;
    });
  };
  if (damage == Damage::ChangeTransfer && isTransfer(i.kind))
    for (InstrKind to : {InstrKind::Offload, InstrKind::Fetch, InstrKind::Read, InstrKind::Write})
      if (to != i.kind)
        edit(to, streamOf(to));
  if (damage != Damage::ChangeStream)
    return;
  Stream to = i.stream == Stream::Compute ? Stream::Host : Stream::Compute, any = to;
  if (i.kind == InstrKind::Launch)
    edit(i.kind, to);
  else if (any = static_cast<Stream>(below(kStreams)); any != i.stream)
    edit(i.kind, any);
}

/// `carried` lists and waits for them follow in every second damage.
void Maker::carry(size_t k, int j) {
  const Instr &i = at(good.programs[k], j);
  bool drops = damage == Damage::DropCarry;
  if (i.carry != drops)
    return;
  int place = 0; // among what runs on
  for (int other = 0; other < j; ++other)
    place += at(good.programs[k], other).carry;
  for (bool follow : {false, true})
    make(i.kind, good.programs[k].name + "." + i.label + (follow ? " everywhere" : ""),
         [&](Schedule &s) {
           at(s.programs[k], j).carry = !drops;
           if (!follow)
             return true;
           for (SchedProgram &p : s.programs) {
             if (p.name != "micro.only" && p.name != "micro.first")
               continue;
             if (drops)
               p.carried.erase(p.carried.begin() + place);
             else
               p.carried.insert(p.carried.begin() + place, i.label);
             for (Instr &user : p.instrs) {
               if (drops)
                 user.carriedWaits.erase(
                     std::remove(user.carriedWaits.begin(), user.carriedWaits.end(), place),
                     user.carriedWaits.end());
               for (int &w : user.carriedWaits)
                 w += drops ? -(w > place) : (w >= place);
             }
             for (const Instr &user : p.instrs)
               if (!drops && user.label == i.label)
                 return false; // labels of what runs on and of this program must differ
           }
           return true;
         });
}

void Maker::instr(size_t k, int j) {
  switch (damage) {
  case Damage::DropWait:
  case Damage::DropCarriedWait:
  case Damage::RedirectWait:
  case Damage::RepeatWait:
    return waits(k, j);
  case Damage::DropCarry:
  case Damage::MarkCarry:
    return carry(k, j);
  case Damage::ChangeOperand:
  case Damage::SwapDestinations:
  case Damage::ChangeFirst:
  case Damage::ChangeElems:
    return operands(k, j);
  case Damage::ChangeTransfer:
  case Damage::ChangeStream:
    return place(k, j);
  default:
    return order(k, j);
  }
}

void Maker::buffers(size_t k) {
  const SchedProgram &p = good.programs[k];
  for (size_t b = 0; b < p.own.size(); ++b) {
    const Buffer &own = p.own[b];
    InstrKind on = writerOf(k, static_cast<int>(good.persistent.size() + b));
    std::string where = p.name + "." + own.name;
    int64_t align = 0; // of its arena
    for (const ArenaInfo &a : good.arenas)
      align = a.space == own.type.space ? a.align : align;
    if (damage == Damage::ChangeSpace)
      space(on, k, static_cast<int>(good.persistent.size() + b));
    auto life = [&](int first, int last) {
      if (first <= last)
        make(on, where + " to " + std::to_string(first) + ".." + std::to_string(last),
             [&](Schedule &s) {
               s.programs[k].own[b].first = first;
               s.programs[k].own[b].last = last;
               return true;
             });
    };
    if (damage == Damage::ShortenLife) {
      life(own.first + 1, own.last);
      life(own.first, own.last - 1);
      life(own.first, (own.first + own.last) / 2);
    }
    if (damage == Damage::LengthenLife) {
      life(own.first / 2, own.last);
      life(own.first, (own.last + length(p)) / 2);
      life(own.first, length(p)); // one too far
    }
    if (damage != Damage::MoveBuffer)
      continue;
    auto to = [&](int64_t offset) {
      if (offset != own.offset)
        make(on, where + " to " + std::to_string(offset), [&](Schedule &s) {
          s.programs[k].own[b].offset = offset;
          return true;
        });
    };
    const Buffer &onto = *drawn(p.own, own.type.space);
    to(onto.offset);
    to(onto.offset + align); // partly
    to(own.offset + align);
    to(own.offset - align);
    if (below(8) == 0)
      to(own.offset + align / 2);
    if (const Buffer *fixed = drawn(good.persistent, own.type.space); fixed && below(8) == 0)
      to(fixed->offset);
  }
}

void Maker::persistent() {
  for (size_t b = 0; b < good.persistent.size(); ++b) {
    auto onto = static_cast<size_t>(drawn(good.persistent, good.persistent[b].type.space) -
                                    good.persistent.data());
    InstrKind on = InstrKind::Launch;
    for (size_t k = good.programs.size(); k-- > 0;)
      if (InstrKind writer = writerOf(k, static_cast<int>(b)); writer != InstrKind::Launch)
        on = writer;
    if (damage == Damage::ChangeSpace)
      space(on, 0, static_cast<int>(b));
    else if (onto != b)
      make(on, good.persistent[b].name + " onto " + good.persistent[onto].name, [&](Schedule &s) {
        s.persistent[b].offset = s.persistent[onto].offset;
        return true;
      });
  }
}

/// A buffer's space; its views follow in every second damage, and its offset is then one of that arena.
void Maker::space(InstrKind on, size_t k, int buffer) {
  auto fixed = static_cast<int>(good.persistent.size());
  auto own = static_cast<size_t>(buffer < fixed ? buffer : buffer - fixed);
  auto listOf = [&](auto &s) -> auto & {
    return buffer < fixed ? s.persistent : s.programs[k].own;
  };
  const Buffer &now = listOf(good)[own];
  for (Space to : {Space::Device, Space::Host, Space::Nvme})
    for (bool follow : {false, true})
      if (to != now.type.space)
        make(on, now.name + " to " + std::string(text(to)) + (follow ? ", views too" : ""),
             [&](Schedule &s) {
               Buffer &bad = listOf(s)[own];
               bad.type.space = to;
               if (const Buffer *onto = drawn(listOf(good), to); follow && onto)
                 bad.offset = onto->offset;
               for (SchedProgram &p : s.programs)
                 for (View &v : p.views)
                   if (follow && v.buffer == buffer && (buffer < fixed || &p == &s.programs[k]))
                     v.type.space = to;
               return true;
             });
}

void Maker::arenas() {
  for (size_t a = 0; a < good.arenas.size(); ++a)
    for (Space to : {Space::Device, Space::Host, Space::Nvme})
      if (to != good.arenas[a].space)
        make(InstrKind::Launch, "arena " + std::string(text(good.arenas[a].space)),
             [&](Schedule &s) {
               s.arenas[a].space = to;
               return true;
             });
}

void Maker::views(size_t k) {
  const SchedProgram &p = good.programs[k];
  for (size_t v = 0; v < p.views.size(); ++v)
    for (int64_t shift : {-512, 512, 4, 2}) {
      InstrKind on = writerOf(k, p.views[v].buffer);
      make(on, p.name + "." + p.views[v].name + " by " + std::to_string(shift), [&](Schedule &s) {
        s.programs[k].views[v].offset += shift;
        return s.programs[k].views[v].offset >= 0;
      });
    }
}

} // namespace

void forEachDamage(const Schedule &good, Damage d, unsigned seed, int stride,
                   const std::function<void(const Damaged &)> &visit) {
  Maker(good, d, seed, stride, visit).run();
}

} // namespace ds
