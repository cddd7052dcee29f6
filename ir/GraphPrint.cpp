// SPDX-License-Identifier: Apache-2.0
//
// .dsir text of a module: one generic op printer, no per-op code beyond GraphSyntax.h.
#include "ir/GraphSyntax.h"
#include "ir/GraphText.h"
#include "ir/SourceText.h"

#include "llvm/ADT/STLExtras.h"

namespace ds {

static std::string valueText(const Value *v) { return (v->isSymbol() ? "@" : "%") + v->name; }

static std::string operandsText(const Op &op) {
  bool one = op.kind == OpKind::View;
  std::vector<int64_t> at = one ? std::vector{op.attrs.i("at")} : op.attrs.list("at");
  std::string s;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    s += (i ? ", " : " ") + valueText(op.operands[i]);
    if (hasOperandOffsets(op.kind) && i < at.size())
      s += " at " + std::to_string(at[i]);
  }
  return s;
}

std::string printOp(const Op &op) {
  std::string s;
  for (int i = 0; i < op.numNamed(); ++i)
    s += (i ? ", %" : "%") + op.results[i]->name;
  if (op.numNamed() > 0)
    s += " = ";
  s += std::string(op.info().text) + operandsText(op);
  if (hasOver(op.kind))
    s += " over " + op.attrs.s("over");
  for (size_t i = 0; i < op.bound.size(); ++i)
    s += (i ? ", @" : " -> @") + op.bound[i]->name;
  s += attrsText(op.attrs, braceAttrs(op.kind));
  for (int i = 0; i < op.numNamed(); ++i)
    s += (i ? ", " : " : ") + op.results[i]->type.str();
  return s;
}

// " // node (pass)", without what FileCheck or a line end would make of it.
static std::string originText(const Origin &o) {
  if (o.node.empty() && o.pass.empty())
    return "";
  std::string s = " //";
  if (!o.node.empty())
    s += " " + o.node;
  if (!o.pass.empty())
    s += " (" + o.pass + ")";
  for (size_t i = 0; i < s.size(); ++i) {
    bool doubled = i > 0 && s[i] == s[i - 1] && (s[i] == '[' || s[i] == '{' || s[i] == '}');
    if (doubled || static_cast<unsigned char>(s[i]) < 0x20)
      s[i] = ' ';
  }
  return s;
}

static std::string segmentText(const Segment &s, DType bucket) {
  std::string out = "@" + s.param + " at " + std::to_string(s.at) + " : " + dimsText(s.shape);
  if (s.group)
    out += " group " + std::to_string(s.group);
  if (std::string source = sourceText(s.source, bucket); !source.empty())
    out += " " + source;
  return out + attrsText({{"export", s.exportName}}, segmentAttrs());
}

static std::string symbolText(const Symbol &s) {
  std::string out = "  " + text(s.symbolKind).str() + " @" + s.name + " : " + s.type.str();
  if (std::string source = sourceText(s.source, s.type.dtype); !source.empty())
    out += " " + source;
  Attrs attrs = {{"export", s.exportName},
                 {"module", s.module},
                 {"frozen", !s.trainable && !s.running},
                 {"running", s.running},
                 {"resident", s.resident}};
  out += attrsText(attrs, symbolAttrs());
  if (s.symbolKind != SymbolKind::Bucket)
    return out + "\n";
  out += " {\n";
  for (const Segment &segment : s.segments)
    out += "    " + segmentText(segment, s.type.dtype) + "\n";
  return out + "  }\n";
}

static std::string signature(const Program &p) {
  std::string s = (p.isFunc ? "  func @" : "  program @") + p.name + "(";
  for (const Value *v : p.inputs) {
    s += (v == p.inputs.front() ? "%" : ", %") + v->name + ": " + v->type.str();
    if (std::string meta = inputMetaText(v->input); !meta.empty())
      s += " " + meta;
  }
  return s + ") {\n";
}

static std::string programText(const Program &p, const PrintOptions &o) {
  std::string s = signature(p);
  // Every phase has its label, but for the only one of `update`.
  bool labelled = p.name != "update";
  Phase phase = firstPhase(p);
  for (const Op &op : p.ops) {
    if (labelled || op.phase != phase)
      s += "  " + text(op.phase).str() + ":\n";
    labelled = false;
    phase = op.phase;
    s += "    " + printOp(op) + (o.origins ? originText(op.origin) : "") + "\n";
  }
  for (size_t i = 0; i < p.returns.size(); ++i)
    s += (i ? ", " : "    return ") + valueText(p.returns[i]);
  return s + (p.returns.empty() ? "  }\n" : "\n  }\n");
}

std::string printModule(const Module &m, const PrintOptions &o) {
  std::string s = "module @" + m.name;
  for (auto &[axis, size] : m.mesh)
    s += (axis == m.mesh.front().first ? " mesh(" : ", ") + axis + "=" + std::to_string(size);
  s += m.mesh.empty() ? " {\n" : ") {\n";
  for (const Symbol *symbol : m.symbols())
    s += symbolText(*symbol);
  for (const Program *p : m.programs())
    s += (m.symbols().empty() && p == m.programs().front() ? "" : "\n") + programText(*p, o);
  return s + "}\n";
}

} // namespace ds
