// SPDX-License-Identifier: Apache-2.0
#include "ir/GraphBuilder.h"

#include "ir/GraphShapes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/ErrorHandling.h"

namespace ds {

Status ShapeCtx::error(std::string text, const char *rule) const {
  return Status::error(std::string(info(kind).text) + ": " + text + " [" + rule + "]");
}

Status inferTypes(OpKind k, llvm::ArrayRef<Type> operands, const Attrs &attrs, const Module &m,
                  llvm::SmallVectorImpl<Type> &results, llvm::ArrayRef<Symbol *> bound) {
  const OpInfo &op = info(k);
  std::vector<Type> shapes;
  TRY(inferShape({k, {operands.data(), operands.size()}, attrs, m.mesh, shapes}));
  results.assign(shapes.begin(), shapes.end());
  ShapeCtx c{k, operands, attrs, m, results};
  assert(results.size() == static_cast<size_t>(op.outs) &&
         "a shape rule gives every result a type");
  for (const Type &t : results)
    if (std::string p = typeProblem(Type(t.dtype, t.dims), m); !p.empty())
      return Status::error(std::string(op.text) + ": the result has " + p);
  TRY(placeResults(c, bound));
  size_t named = results.size() - std::min(results.size(), bound.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (std::string p = typeProblem(results[i], m); !p.empty())
      return Status::error(std::string(op.text) + ": result " + std::to_string(i) + " is " +
                           results[i].str() + ": " + p);
    if (i >= named && results[i] != bound[i - named]->type)
      return c.error("binds " + results[i].str() + " to @" + bound[i - named]->name +
                         ", which is " + bound[i - named]->type.str(),
                     "G4");
  }
  return {};
}

Status reinferTypes(Module &m, Program &p) {
  llvm::SmallVector<Type, 8> operands, results;
  for (Op &op : p.ops) {
    operands.clear();
    for (Value *v : op.operands)
      operands.push_back(v->type);
    if (Status s = inferTypes(op.kind, operands, op.attrs, m, results, op.bound); !s.ok())
      return std::move(s).at(op.origin.node);
    for (Value *r : op.results)
      r->type = results[r->index];
  }
  return {};
}

StatusOr<Op *> Builder::tryCreate(OpKind k, llvm::ArrayRef<Value *> operands,
                                  llvm::ArrayRef<std::string> names, Attrs attrs,
                                  llvm::ArrayRef<Symbol *> bound) {
  const OpInfo &op = info(k);
  TRY(completeAttrs(attrs, op.attrs, op.text));
  if (names.size() + bound.size() != static_cast<size_t>(op.outs))
    return Status::error(std::string(op.text) + ": number of results is " +
                         std::to_string(op.outs) + ", but " + std::to_string(names.size()) +
                         " named and " + std::to_string(bound.size()) + " bound [G3]");
  llvm::SmallVector<Type, 8> types, results;
  for (Value *v : operands)
    types.push_back(v->type);
  TRY(inferTypes(k, types, attrs, module, results, bound));
  llvm::SmallVector<std::string, 4> unique;
  for (const std::string &n : names) {
    std::string free = program.uniqueName(n);
    for (int64_t i = 2; llvm::is_contained(unique, free); ++i)
      free = program.uniqueName(n + "." + std::to_string(i));
    unique.push_back(std::move(free));
  }
  Op *created = module.createOp(program, k, operands, unique, results, bound, std::move(attrs),
                                phase, origin);
  if (before)
    program.insertBefore(before, created);
  else
    program.append(created);
  return created;
}

Op *Builder::create(OpKind k, llvm::ArrayRef<Value *> operands, llvm::ArrayRef<std::string> names,
                    Attrs attrs, llvm::ArrayRef<Symbol *> bound) {
  StatusOr<Op *> op = tryCreate(k, operands, names, std::move(attrs), bound);
  if (!op.ok())
    llvm::report_fatal_error(llvm::StringRef("internal error in " +
                                             (origin.pass.empty() ? "builder" : origin.pass) +
                                             ":\n" + op.status().str()),
                             /*gen_crash_diag=*/false);
  return *op;
}

} // namespace ds
