// SPDX-License-Identifier: Apache-2.0
//
// Programs of .dsched text: views, instructions, what runs on from one program into the next.
#include "ir/ScheduleParser.h"

#include <charconv>

namespace ds {

/// NAME = [own] BUFFER[+OFFSET] : TYPE [strides [..]]
Status ScheduleParser::view(SchedProgram &p) {
  View v;
  v.line = line();
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(v.name, parseName(lex));
  TRY(lex.expect("="));
  v.own = lex.accept("own");
  TRY_ASSIGN(v.buffer, bufferRef(p));
  if (lex.accept("+")) {
    TRY_ASSIGN(v.offset, number(0, kMaxBytes, "an offset"));
  }
  TRY(lex.expect(":"));
  TRY_ASSIGN(v.type, parseType(lex));
  v.type.space = bufferAt(s, p, v.buffer).type.space;
  if (lex.accept("strides")) {
    size_t at = lex.peek().pos;
    TRY_ASSIGN(v.strides, parseInts(lex));
    if (v.strides.size() != v.type.dims.size())
      return lex.error(at, "expected " + std::to_string(v.type.dims.size()) + " strides, found " +
                               std::to_string(v.strides.size()));
  }
  TRY(declare(views, v.name, static_cast<int>(p.views.size()), pos));
  p.views.push_back(std::move(v));
  return {};
}

/// [LABEL :] [A, B =] OP
Status ScheduleParser::destinations(SchedProgram &p, Instr &i) {
  TRY_ASSIGN(Named word, named());
  Named label = word;
  bool labelled = lex.accept(":");
  if (labelled) {
    TRY_ASSIGN(word, named());
  }
  bool more = lex.at(",") || lex.at("=");
  while (more) {
    TRY_ASSIGN(PlaceRef r, place(p, word));
    i.outs.push_back(r);
    more = lex.accept(",");
    if (!more)
      TRY(lex.expect("="));
    TRY_ASSIGN(word, named());
  }
  i.named = static_cast<int>(i.outs.size());
  if (!labelled && i.outs.empty())
    return lex.error(label.pos, "an instruction without a destination in front needs a label: "
                                "LABEL : " +
                                    word.name + " ...");
  i.label = label.name;
  if (carried.count(i.label))
    return lex.error(label.pos,
                     "the label " + nameText(i.label) + " is that of a carried instruction [S4]");
  if (!labels.emplace(i.label, static_cast<int>(p.instrs.size())).second)
    return lex.error(label.pos, "the label " + nameText(i.label) + " is declared twice [S4]");
  return operation(i, word);
}

Status ScheduleParser::operation(Instr &i, const Named &word) {
  for (int k = 0; k <= static_cast<int>(InstrKind::Write); ++k)
    if (auto kind = static_cast<InstrKind>(k); text(kind) == word.name) {
      i.kind = kind;
      return {};
    }
  std::optional<OpKind> op = opFromText(word.name);
  if (!op) {
    std::string near = nearest(word.name, opTexts());
    return lex.error(word.pos, "unknown operation '" + word.name + "'" +
                                   (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  i.op = *op;
  return {};
}

/// [over AXES] [-> A, B] [{attributes}] [work BUFFER] [carry] [wait L, M] [@ORIGIN]
Status ScheduleParser::clauses(SchedProgram &p, Instr &i) {
  if (lex.accept("over")) {
    std::string axes;
    do {
      TRY_ASSIGN(std::string axis, lex.name());
      axes += (axes.empty() ? "" : ",") + axis;
    } while (lex.accept(","));
    if (!isCollective(i.kind))
      return lex.errorHere("only collectives go over mesh axes");
    i.attrs.set("over", axes);
  }
  if (lex.accept("->"))
    TRY(places(p, i.outs));
  if (isCollective(i.kind)) {
    TRY(lex.expect("{"));
    TRY_ASSIGN(i.elems, keyed("elems", 0, kMaxBytes / 8));
    TRY(lex.expect("}"));
  } else if (i.kind == InstrKind::Launch) {
    size_t pos = lex.peek().pos;
    TRY_ASSIGN(i.attrs, parseAttrs(lex, info(i.op).attrs, info(i.op).text));
    if (Status st = completeAttrs(i.attrs, info(i.op).attrs, info(i.op).text); !st.ok())
      return lex.error(pos, st.entries()[0].text);
  }
  if (lex.accept("work")) {
    TRY_ASSIGN(i.work, bufferRef(p));
  }
  i.carry = lex.accept("carry");
  if (lex.accept("wait")) {
    do {
      TRY_ASSIGN(Named use, named());
      waits.push_back({static_cast<int>(p.instrs.size()), std::move(use)});
    } while (lex.accept(","));
  }
  if (lex.peek().kind == Tok::Global) {
    std::string_view digits = lex.peek().text;
    auto r = std::from_chars(digits.data(), digits.data() + digits.size(), i.origin);
    if (r.ec != std::errc() || r.ptr != digits.data() + digits.size() || i.origin < 0 ||
        i.origin >= static_cast<int>(s.origins.size()))
      return lex.errorHere("expected the number of an origin declared above, found '@" +
                           std::string(digits) + "'");
    lex.next();
  }
  return {};
}

Status ScheduleParser::instr(SchedProgram &p, Stream stream) {
  Instr i;
  i.stream = stream;
  i.line = line();
  TRY(destinations(p, i));
  bool clause = lex.at("over") || lex.at("work") || lex.at("carry") || lex.at("wait");
  if (!clause && (lex.peek().kind == Tok::Name || lex.peek().kind == Tok::String))
    TRY(places(p, i.ins));
  TRY(clauses(p, i));
  p.instrs.push_back(std::move(i));
  return {};
}

/// return A, NAME = B
Status ScheduleParser::returns(SchedProgram &p) {
  do {
    TRY_ASSIGN(Named word, named());
    p.returnNames.push_back(word.name);
    if (lex.accept("=")) {
      TRY_ASSIGN(word, named());
    }
    TRY_ASSIGN(PlaceRef r, place(p, word));
    p.returns.push_back(r);
  } while (lex.accept(","));
  return {};
}

/// carried L, M
Status ScheduleParser::carriedLine(SchedProgram &p) {
  do {
    TRY_ASSIGN(Named word, named());
    if (!carried.emplace(word.name, static_cast<int>(p.carried.size())).second ||
        labels.count(word.name))
      return lex.error(word.pos, "the label " + nameText(word.name) + " is declared twice [S4]");
    p.carried.push_back(std::move(word.name));
  } while (lex.accept(","));
  return {};
}

Status ScheduleParser::programLine(SchedProgram &p) {
  if (lex.accept("buffer"))
    return buffer(&p);
  if (lex.accept("view"))
    return view(p);
  if (lex.accept("carried"))
    return carriedLine(p);
  if (lex.accept("return"))
    return returns(p);
  for (int k = 0; k < kStreams; ++k)
    if (lex.accept(text(static_cast<Stream>(k))))
      return instr(p, static_cast<Stream>(k));
  std::string streams;
  for (int k = 0; k < kStreams; ++k)
    streams += (k ? ", " : "") + std::string(text(static_cast<Stream>(k)));
  return lex.errorHere("expected buffer, view, carried, a stream (" + streams +
                       "), return or '}', found " + shown(lex.peek()));
}

StatusOr<int> ScheduleParser::labelIndex(const SchedProgram &p, const Named &use) {
  auto it = labels.find(use.name);
  if (it == labels.end())
    return lex.error(use.pos,
                     "program " + nameText(p.name) + " has no instruction " + nameText(use.name));
  return it->second;
}

Status ScheduleParser::program() {
  SchedProgram p;
  own.clear(), views.clear(), labels.clear(), carried.clear(), intervals.clear(), waits.clear();
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(p.name, parseName(lex));
  if (s.program(p.name))
    return lex.error(pos, "program " + nameText(p.name) + " is declared twice");
  TRY(lex.expect("{"));
  TRY(endOfLine());
  for (skipLines(); !lex.accept("}"); skipLines()) {
    TRY(programLine(p));
    TRY(endOfLine());
  }
  for (size_t b = 0; b < p.own.size(); ++b) {
    TRY_ASSIGN(p.own[b].first, labelIndex(p, intervals[2 * b]));
    TRY_ASSIGN(p.own[b].last, labelIndex(p, intervals[2 * b + 1]));
  }
  for (const auto &[instr, use] : waits) {
    if (auto it = carried.find(use.name); it != carried.end()) {
      p.instrs[instr].carriedWaits.push_back(it->second);
      continue;
    }
    TRY_ASSIGN(int target, labelIndex(p, use));
    p.instrs[instr].waits.push_back(target);
  }
  s.programs.push_back(std::move(p));
  return {};
}

} // namespace ds
