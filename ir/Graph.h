// SPDX-License-Identifier: Apache-2.0
//
// The graph IR (.dsir): value-semantic SSA over named values. A Module owns symbols (@name: parameters,
// buckets, states, accumulators, scalars, constants) and programs (lists of ops in three phases).
// An op's operands are values; a symbol operand reads the symbol's value at program entry. `-> @s` binds
// the op's last results to symbols: the symbol's value at program exit. One binding per symbol and program.
// All objects live as long as their Module; erased ops are only unlinked.
#pragma once

#include "ir/Ops.h"
#include "ir/Source.h"
#include "ir/Type.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/ilist_node.h"
#include "llvm/ADT/simple_ilist.h"

#include <deque>
#include <memory>
#include <string>

namespace ds {

class Op;
class Program;
class Module;

/// Where an op came from. Printed under --print-origins and carried into the schedule's table.
struct Origin {
  std::string node;   // ONNX node name, or file:line:col of a .dsir op
  std::string module; // module path that the exporter recorded, e.g. "transformer.h.0.attn"
  std::string pass;   // the pass that made it; empty for imported ops
  bool operator==(const Origin &) const = default;
};

enum class ValueKind : uint8_t { Result, Input, Symbol };

class Value {
public:
  ValueKind kind;
  std::string name; // without % or @; unique among the program's values, or the module's symbols
  Type type;
  Op *def = nullptr;                // Result only
  int index = 0;                    // Result: which one
  InputMeta input;                  // Input only
  llvm::SmallVector<Op *, 4> users; // one entry per use; ops of all programs for symbols

  bool isSymbol() const { return kind == ValueKind::Symbol; }
  Value(ValueKind k, std::string n, Type t) : kind(k), name(std::move(n)), type(std::move(t)) {}
};

enum class SymbolKind : uint8_t { Param, Bucket, State, Accum, Scalar, Const };

/// A parameter inside a bucket. Offsets and extents in elements; at is a multiple of kQuantum.
struct Segment {
  std::string param;
  int64_t at = 0;
  std::vector<int64_t> shape;
  int64_t group = 0; // index into @lr and @decay
  Source source;
  std::string exportName; // the initializer's name in the model, for --save-model
};

class Symbol : public Value {
public:
  SymbolKind symbolKind;
  Source source;          // Param, Const; Scalar uses Splat
  std::string exportName; // Param, Const: initializer name in the model
  std::string module;     // Param: module path (layer grouping)
  bool trainable = true;  // Param, Bucket
  bool resident = false;  // Bucket: stays gathered at stage 3
  bool running = false;   // Param, Bucket: statistics that micro-batches update; not trainable
  std::vector<Segment> segments; // Bucket
  std::string place;             // file:line:col of its .dsir declaration, for errors; not printed

  Symbol(SymbolKind k, std::string n, Type t)
      : Value(ValueKind::Symbol, std::move(n), std::move(t)), symbolKind(k) {}
};

enum class Phase : uint8_t { Forward, Backward, Update };

class Op : public llvm::ilist_node<Op> {
public:
  OpKind kind;
  Phase phase = Phase::Forward;
  llvm::SmallVector<Value *, 4> operands; // change through setOperand/erase, which keep users right
  llvm::SmallVector<Value *, 2> results;  // all results; the last bound.size() have no name of use
  llvm::SmallVector<Symbol *, 2> bound;   // `-> @a, @b`: bound to the last results, in order
  Attrs attrs;                            // complete: every attribute of the table has a value
  Origin origin;
  Program *parent = nullptr;

  const OpInfo &info() const { return ds::info(kind); }
  Value *result(int i = 0) const { return results[i]; }
  int numNamed() const { return static_cast<int>(results.size() - bound.size()); }
  /// The symbol that result i is bound to, or null.
  Symbol *boundTo(int i) const { return i < numNamed() ? nullptr : bound[i - numNamed()]; }
  void setOperand(int i, Value *v);
};

/// A list of ops; iteration order is execution order. Names are scoped per program.
class Program {
public:
  std::string
      name; // "micro" (a func before form-programs), "micro.only", "micro.first", ..., "update"
  bool isFunc = false; // printed as `func` until form-programs has run
  llvm::SmallVector<Value *, 4> inputs;
  llvm::simple_ilist<Op> ops;
  llvm::SmallVector<Value *, 8> returns; // named results the runtime reads, or later passes need
  std::string place;                     // file:line:col in .dsir, for errors; not printed
  Module *parent = nullptr;

  Value *input(llvm::StringRef name) const;
  Value *find(llvm::StringRef name) const; // input or result
  /// A name not in use: base, or base.2, base.3, ...
  std::string uniqueName(llvm::StringRef base) const;
  void append(Op *op) { ops.push_back(*op); }
  void insertBefore(Op *at, Op *op) { ops.insert(at->getIterator(), *op); }
  void insertAfter(Op *at, Op *op) { ops.insert(std::next(at->getIterator()), *op); }

private:
  friend class Module;
  llvm::StringMap<Value *> names;
};

class Module {
public:
  std::string name = "module";
  std::vector<std::pair<std::string, int64_t>> mesh; // axis name and size, e.g. {"dp", 4}
  std::string directory;                             // base of relative Source paths; not printed

  Module() = default;
  Module(const Module &) = delete;

  const std::vector<Symbol *> &symbols() const { return symbolOrder; }
  const std::vector<Program *> &programs() const { return programOrder; }
  Symbol *symbol(llvm::StringRef name) const;
  Program *program(llvm::StringRef name) const;
  int64_t axisSize(llvm::StringRef axis) const; // 1 if the mesh has no such axis

  /// The name must be free.
  Symbol *addSymbol(SymbolKind k, std::string name, Type type);
  std::string uniqueSymbolName(llvm::StringRef base) const;
  /// The symbol must have no users. Order of the others is kept.
  void eraseSymbol(Symbol *s);
  Program *addProgram(std::string name);
  void eraseProgram(Program *p);
  /// Programs keep their order; the last one runs last (@update).
  void moveProgramToEnd(Program *p);
  Value *addInput(Program &p, std::string name, Type type);
  /// The input must have no users.
  void eraseInput(Program &p, Value *input);

  /// An unlinked op with fresh results; users of operands are updated. Prefer GraphBuilder.h.
  Op *createOp(Program &p, OpKind k, llvm::ArrayRef<Value *> operands,
               llvm::ArrayRef<std::string> resultNames, llvm::ArrayRef<Type> resultTypes,
               llvm::ArrayRef<Symbol *> bound, Attrs attrs, Phase phase, Origin origin);
  /// Unlinks the op and frees its result names. Its results must have no users.
  void eraseOp(Op *op);
  void rename(Program &p, Value *v, std::string newName);

private:
  std::deque<Value> valueStore;
  std::deque<Symbol> symbolStore;
  std::deque<Op> opStore;
  std::deque<Program> programStore;
  std::vector<Symbol *> symbolOrder;
  std::vector<Program *> programOrder;
  llvm::StringMap<Symbol *> symbolNames;
};

/// Replaces all uses of from by to, inside program p only if given, including returns.
void replaceAllUses(Value *from, Value *to, Program *p = nullptr);

/// A deep copy (the passes work in place; tests and bisecting keep the original).
std::unique_ptr<Module> clone(const Module &m);
/// Copies p as a new program of the same module.
Program *cloneProgram(Module &m, const Program &p, std::string newName);

} // namespace ds
