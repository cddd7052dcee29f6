// SPDX-License-Identifier: Apache-2.0
#include "ir/Graph.h"
#include "ir/GraphBuilder.h"
#include "ir/GraphText.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <random>

using namespace ds;

namespace {

constexpr const char *kExample = R"(module @m mesh(dp=2) {
  bucket @l0 : f32[256] shard(dp) {resident} {
    @w at 0 : [8,8] from "w.bin" at 64 as f32 {export="fc.weight"}
    @b at 128 : [8] group 1
  }
  accum @l0.acc : f32[256] shard(dp)
  accum @loss.acc : f32[] partial(dp)
  scalar @inv_count : f64[] repl = 1.0

  program @micro.only(%x: f32[4,8], %labels: i64[4] label below 8) {
  forward:
    %l0.full = all_gather @l0 over dp : f32[256] repl
    %w = view %l0.full at 0 : f32[8,8] repl
    %b = view %l0.full at 128 : f32[8] repl
    %h = matmul %x, %w : f32[4,8]
    %y = add %h, %b : f32[4,8]
    %loss, %lse = cross_entropy %y, %labels, @inv_count {ignore_index=-1} : f32[], f32[4]
  backward:
    %y.grad = cross_entropy_grad %y, %labels, %lse, @inv_count {ignore_index=-1} : f32[4,8]
    %b.grad = reduce_sum %y.grad {axes=[0]} : f32[8]
    %w.grad = matmul %x, %y.grad {trans_a} : f32[8,8]
    %l0.grad = pack %w.grad at 0, %b.grad at 128 : f32[256] partial(dp)
    %l0.grad.shard = reduce_scatter %l0.grad over dp : f32[256] shard(dp)
    accumulate %loss -> @loss.acc {first}
    accumulate @l0.acc, %l0.grad.shard -> @l0.acc
    return %y
  }
}
)";

std::unique_ptr<Module> parsed(std::string_view text) {
  StatusOr<std::unique_ptr<Module>> m = parseModule(text, "t.dsir");
  EXPECT_TRUE(m.ok()) << m.status().str();
  return m.ok() ? std::move(m).take() : nullptr;
}

TEST(Graph, PrintsAsItWasWrittenAndVerifies) {
  std::unique_ptr<Module> m = parsed(kExample);
  ASSERT_TRUE(m);
  EXPECT_EQ(printModule(*m), kExample);
  Status s = verifyModule(*m);
  EXPECT_TRUE(s.ok()) << s.str();
}

TEST(Graph, CloneIsDeep) {
  std::unique_ptr<Module> m = parsed(kExample);
  std::unique_ptr<Module> c = clone(*m);
  m->eraseProgram(m->program("micro.only"));
  EXPECT_TRUE(verifyModule(*m).ok());
  EXPECT_EQ(printModule(*c), kExample);
  EXPECT_TRUE(verifyModule(*c).ok());
  EXPECT_EQ(c->symbol("inv_count")->users.size(), 2u);
}

TEST(Graph, ClonedProgramsShareSymbolsOnly) {
  std::unique_ptr<Module> m = parsed(kExample);
  Program *p = cloneProgram(*m, *m->program("micro.only"), "micro.first");
  EXPECT_TRUE(verifyModule(*m).ok());
  EXPECT_EQ(m->symbol("inv_count")->users.size(), 4u);
  EXPECT_NE(p->find("y"), m->program("micro.only")->find("y"));
  m->eraseProgram(p);
  EXPECT_EQ(printModule(*m), kExample);
}

TEST(Graph, UsesFollowEveryChange) {
  Module m;
  Program *p = m.addProgram("micro");
  Value *x = m.addInput(*p, "x", Type(DType::F32, {4}));
  Builder b(m, *p);
  Value *square = b.op(OpKind::Mul, {x, x}, "square");
  EXPECT_EQ(x->users.size(), 2u); // one entry per use
  Value *y = b.op(OpKind::Exp, {square}, "y");
  p->returns.push_back(y);
  Value *other = b.op(OpKind::Neg, {x}, "other");

  replaceAllUses(y, other);
  EXPECT_EQ(p->returns[0], other);
  y->def->setOperand(0, x);
  EXPECT_TRUE(square->users.empty());
  m.eraseOp(y->def);
  m.eraseOp(square->def);
  EXPECT_EQ(x->users.size(), 1u);
  EXPECT_EQ(p->find("y"), nullptr); // the name is free again
  m.rename(*p, other, "y");
  EXPECT_TRUE(verifyModule(m).ok());
  EXPECT_EQ(printModule(m), "module @module {\n  program @micro(%x: f32[4]) {\n  forward:\n"
                            "    %y = neg %x : f32[4]\n    return %y\n  }\n}\n");
}

TEST(Graph, ReplacingInOneProgramLeavesTheOthers) {
  std::unique_ptr<Module> m = parsed(kExample);
  Program *first = cloneProgram(*m, *m->program("micro.only"), "micro.first");
  Symbol *inv = m->symbol("inv_count");
  Symbol *two = m->addSymbol(SymbolKind::Scalar, "two", inv->type);
  replaceAllUses(inv, two, first);
  EXPECT_EQ(inv->users.size(), 2u);
  EXPECT_EQ(two->users.size(), 2u);
  EXPECT_TRUE(verifyModule(*m).ok());
}

TEST(Graph, BuilderMakesNamesUniqueAndInsertsBefore) {
  Module m;
  Program *p = m.addProgram("micro");
  Value *x = m.addInput(*p, "x", Type(DType::F32, {4}));
  Builder b(m, *p);
  Value *last = b.op(OpKind::Neg, {x}, "x");
  EXPECT_EQ(last->name, "x.2");
  b.before = last->def;
  Value *early = b.op(OpKind::Exp, {x}, "x");
  EXPECT_EQ(early->name, "x.3");
  EXPECT_EQ(&p->ops.front(), early->def);
}

TEST(Graph, BuilderRefusesWhatTheRuleRefuses) {
  Module m;
  Program *p = m.addProgram("micro");
  Value *x = m.addInput(*p, "x", Type(DType::F32, {4}));
  Symbol *acc = m.addSymbol(SymbolKind::Accum, "acc", Type(DType::F32, {5}));
  Builder b(m, *p);
  auto error = [](StatusOr<Op *> r) { return r.ok() ? "" : r.status().entries()[0].text; };
  EXPECT_EQ(error(b.tryCreate(OpKind::Add, {x}, {"y"})), "add: takes 2 operands, has 1 [G3]");
  EXPECT_EQ(error(b.tryCreate(OpKind::Exp, {x}, {"y"}, {}, {acc})),
            "exp: number of results is 1, but 1 named and 1 bound [G3]");
  EXPECT_EQ(error(b.tryCreate(OpKind::Copy, {x}, {}, {}, {acc})),
            "copy: binds f32[4] to @acc, which is f32[5] [G4]");
  EXPECT_EQ(error(b.tryCreate(OpKind::Transpose, {x}, {"y"})),
            "transpose: attribute 'perm' is missing");
  EXPECT_TRUE(p->ops.empty());
  EXPECT_TRUE(x->users.empty());
}

TEST(Graph, ReinferFollowsNewPlacements) {
  std::unique_ptr<Module> m = parsed(R"(module @m {
  bucket @b : f32[256] {
  }
  program @update() {
    %n = neg @b : f32[256]
    %y = exp %n : f32[256]
    return %y
  }
}
)");
  Program &p = *m->program("update");
  m->mesh = {{"dp", 2}};
  m->symbol("b")->type.placement = Placement::Shard;
  m->symbol("b")->type.axes = "dp";
  EXPECT_FALSE(verifyModule(*m).ok());
  ASSERT_TRUE(reinferTypes(*m, p).ok());
  EXPECT_EQ(p.find("y")->type.str(), "f32[256] shard(dp)");
  EXPECT_TRUE(verifyModule(*m).ok());
}

TEST(Graph, VerifierSeesWhatNoTextCanSay) {
  std::unique_ptr<Module> m = parsed(kExample);
  Program &p = *m->program("micro.only");
  Value *y = p.find("y"), *x = p.find("x");
  auto rules = [&] { return verifyModule(*m).str(); };
  x->users.push_back(y->def);
  EXPECT_NE(rules().find("%x has 2 uses, but lists 3 [G1]"), std::string::npos) << rules();
  x->users.pop_back();
  y->type.dims = {8, 4};
  EXPECT_NE(rules().find("[G4]"), std::string::npos) << rules();
  y->type.dims = {4, 8};
  p.ops.remove(*y->def);
  p.append(y->def);
  EXPECT_NE(rules().find("%y is not defined before this op of @micro.only [G1]"), std::string::npos)
      << rules();
}

// Damaged text is an error or a module, never a crash, and what parses prints the same twice.
TEST(Graph, DamagedTextNeverCrashes) {
  std::mt19937 random(20);
  const std::string text = kExample;
  const std::string pieces[] = {"%",
                                "@",
                                "9223372036854775807",
                                "-1",
                                "{",
                                "}",
                                "[[",
                                "\"",
                                ":",
                                "->",
                                "partial",
                                "f64[4611686018427387904,4]",
                                "over",
                                "\n",
                                ",",
                                "mesh(dp=1048576)"};
  int read = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string s = text;
    for (int edits = 1 + random() % 3; edits > 0; --edits) {
      size_t at = random() % s.size(), length = random() % 12;
      switch (random() % 3) {
      case 0:
        s.erase(at, length);
        break;
      case 1:
        s.insert(at, pieces[random() % std::size(pieces)]);
        break;
      default:
        s.insert(at, s.substr(random() % s.size(), length));
      }
    }
    StatusOr<std::unique_ptr<Module>> m = parseModule(s, "t");
    if (!m.ok())
      continue;
    ++read;
    (void)verifyModule(**m).ok();
    std::string printed = printModule(**m);
    StatusOr<std::unique_ptr<Module>> again = parseModule(printed, "t");
    ASSERT_TRUE(again.ok()) << printed << again.status().str();
    EXPECT_EQ(printModule(**again), printed);
  }
  EXPECT_GT(read, 100); // most edits of comments, names and numbers still parse
}

} // namespace
