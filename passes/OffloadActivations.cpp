// SPDX-License-Identifier: Apache-2.0
//
// Saved activations that wait for backward in host memory. Between a value's last use in forward and its first in
// backward the device's copy is not needed:
//   %h = ...; use %h                 ->   %h = ...; use %h; %h.host = offload %h
//   backward: use %h                 ->   backward: %h.back = fetch %h.host; use %h.back
// A fetch stands where backward first uses the value that came before it, so that it runs one value ahead.
#include "passes/Offload.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"

namespace ds {

namespace {

constexpr int64_t kSmallest = 64 << 10; // bytes; below, a copy costs more than it frees
constexpr int kNear =
    8; // ops; what is needed again so soon would have to be back before it is gone

/// A forward value that backward reads, by itself or through reshapes.
struct Saved {
  Value *value = nullptr;
  Op *lastForward = nullptr, *firstBackward = nullptr;
};

class Activations {
public:
  Activations(Module &m, Program &p, const std::string &regex,
              const std::vector<std::string> &names)
      : module(m), program(p), pattern(regex), any(!regex.empty()) {
    for (const std::string &name : names)
      chosen.insert(name);
  }

  void run() {
    int n = 0;
    for (Op &op : program.ops)
      position[&op] = n++;
    llvm::SmallVector<Saved, 32> all;
    for (Op &op : program.ops)
      for (Value *v : op.results)
        if (Saved s = savedValue(op, v); s.value)
          all.push_back(s);
    // In the order in which backward needs them.
    llvm::stable_sort(all, [&](const Saved &a, const Saved &b) {
      return position.lookup(a.firstBackward) < position.lookup(b.firstBackward);
    });
    Op *before = nullptr; // what the fetch of a value stands in front of
    for (Saved &s : all) {
      Op *own = s.firstBackward;
      move(s, before ? before : own);
      before = own;
    }
  }

private:
  bool matches(const Op &op, const Value &v) {
    return chosen.contains(v.name) || (any && pattern.match(v.name)) ||
           (any && !op.origin.module.empty() && pattern.match(op.origin.module));
  }

  Saved savedValue(Op &op, Value *v) {
    const Type &t = v->type; // whole on its rank
    if (op.phase != Phase::Forward || op.info().isView() || op.info().isTransfer() ||
        op.info().isCollective() || op.boundTo(v->index) || t.space != Space::Device ||
        t.bytes() < kSmallest || llvm::is_contained(program.returns, v) || !matches(op, *v))
      return {};
    Saved s;
    s.lastForward = &op;
    collect(v, s);
    if (s.firstBackward &&
        position.lookup(s.firstBackward) - position.lookup(s.lastForward) > kNear)
      s.value = v;
    return s;
  }

  void collect(Value *v, Saved &s) {
    for (Op *user : v->users) {
      if (user->info().isView()) {
        collect(user->result(), s);
        continue;
      }
      bool back = user->phase == Phase::Backward;
      Op *&slot = back ? s.firstBackward : s.lastForward;
      if (!slot || (position.lookup(user) < position.lookup(slot)) == back)
        slot = user;
    }
  }

  void move(const Saved &s, Op *fetchBefore) {
    Builder b(module, program);
    b.phase = Phase::Forward;
    b.before = &*std::next(s.lastForward->getIterator());
    b.origin = {s.value->def->origin.node, s.value->def->origin.module, kOffloadPass};
    Value *host = b.op(OpKind::Offload, {s.value}, s.value->name + ".host");
    b.phase = Phase::Backward;
    b.before = fetchBefore;
    Value *back = b.op(OpKind::Fetch, {host}, s.value->name + ".back");
    rewire(s.value, back, s.firstBackward);
  }

  // Backward's uses of v take the copy; views are made anew where it first needs them.
  void rewire(Value *v, Value *back, Op *first) {
    llvm::SmallVector<Op *, 8> users(v->users.begin(), v->users.end());
    for (Op *user : users) {
      if (user == back->def)
        continue;
      if (user->info().isView()) {
        if (!readInBackward(user->result()))
          continue;
        Builder b(module, program);
        b.phase = Phase::Backward;
        b.before = first;
        b.origin = user->origin;
        Value *view = b.op(user->kind, {back}, user->result()->name + ".back", user->attrs);
        rewire(user->result(), view, first);
        if (user->result()->users.empty())
          module.eraseOp(user);
        continue;
      }
      for (int i = 0; user->phase == Phase::Backward && i < static_cast<int>(user->operands.size());
           ++i)
        if (user->operands[i] == v)
          user->setOperand(i, back);
    }
  }

  static bool readInBackward(const Value *v) {
    return llvm::any_of(v->users, [](const Op *user) {
      return user->info().isView() ? readInBackward(user->result())
                                   : user->phase == Phase::Backward;
    });
  }

  Module &module;
  Program &program;
  llvm::Regex pattern;
  bool any; // has a pattern
  llvm::StringSet<> chosen;
  llvm::DenseMap<const Op *, int> position;
};

} // namespace

void offloadActivations(Module &m, Program &p, const std::string &regex,
                        const std::vector<std::string> &names) {
  if (!regex.empty() || !names.empty())
    Activations(m, p, regex, names).run();
}

} // namespace ds
