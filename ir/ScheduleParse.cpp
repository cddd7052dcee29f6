// SPDX-License-Identifier: Apache-2.0
//
// .dsched text -> Schedule (docs/schedule.md). Line by line: the first word says what a line declares.
// Checks what the struct cannot express (unknown names, unknown words, numbers out of range); everything
// else is the verifier's. Any input ends in a schedule or in one error with a place.
#include "ir/Schedule.h"
#include "ir/ScheduleNames.h"
#include "ir/SourceText.h"

#include <charconv>
#include <unordered_map>

namespace ds {

namespace {

constexpr int64_t kMaxRanks = 1 << 20;
constexpr size_t kMaxText = size_t{1} << 30; // keeps every count of things inside an int

using Index = std::unordered_map<std::string, int>;

/// A name, and where it stands.
struct Named {
  std::string name;
  size_t pos;
};

class Parser {
public:
  Parser(std::string_view text, std::string_view path) : src(text), lex(text, path) {
    lex.setNewlines(true);
    s.path = path;
  }
  StatusOr<Schedule> run();

private:
  Status header();
  Status table();
  Status arena();
  Status buffer(SchedProgram *p);
  Status bucket();
  Status segment(BucketInfo &b);
  Status init();
  Status input();
  Status origin();
  Status program();
  Status programLine(SchedProgram &p);
  Status view(SchedProgram &p);
  Status carriedLine(SchedProgram &p);
  Status instr(SchedProgram &p, Stream stream);
  Status destinations(SchedProgram &p, Instr &i);
  Status operation(Instr &i, const Named &word);
  Status clauses(SchedProgram &p, Instr &i);
  Status returns(SchedProgram &p);

  /// Skips blank lines and comments; then the lexer stands at a line's first token.
  void skipLines() {
    while (lex.peek().kind == Tok::Newline)
      lex.next();
  }
  Status endOfLine() {
    const Token &t = lex.peek();
    if (t.kind == Tok::Newline || t.kind == Tok::Eof)
      return {};
    return lex.errorHere("expected the end of the line, found '" + std::string(t.text) + "'");
  }
  /// The line of the current token; asked for in increasing order only.
  int line() {
    size_t pos = lex.peek().pos;
    for (; counted < pos; ++counted)
      lineNumber += src[counted] == '\n';
    return lineNumber;
  }
  StatusOr<int64_t> number(int64_t low, int64_t high, std::string_view what);
  StatusOr<int64_t> keyed(std::string_view key, int64_t low, int64_t high);
  StatusOr<DType> dtype();
  StatusOr<Space> space();
  StatusOr<Named> named();
  StatusOr<PlaceRef> place(const SchedProgram &p, const Named &word);
  Status places(const SchedProgram &p, std::vector<PlaceRef> &list);
  StatusOr<int> bufferRef(const SchedProgram &p);
  StatusOr<int> labelIndex(const SchedProgram &p, const Named &use);
  Status declare(Index &names, const std::string &name, int index, size_t pos);

  std::string_view src;
  Lexer lex;
  Schedule s;
  Index persistent;             // name -> buffer
  Index own, views;             // of the current program; own in the numbering of SchedProgram
  Index labels, carried;        // of the current program; carried: what the one before left running
  std::vector<Named> intervals; // two labels for each own buffer, in order
  std::vector<std::pair<int, Named>> waits; // instruction, and a label it waits for
  size_t counted = 0;
  int lineNumber = 1;
};

std::string shown(const Token &t) {
  if (t.kind == Tok::Newline || t.kind == Tok::Eof)
    return "the end of the line";
  return "'" + std::string(t.text) + "'";
}

StatusOr<int64_t> Parser::number(int64_t low, int64_t high, std::string_view what) {
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(int64_t n, lex.integer());
  if (n < low || n > high)
    return lex.error(pos, std::string(what) + " must lie in [" + std::to_string(low) + ", " +
                              std::to_string(high) + "], found " + std::to_string(n));
  return n;
}

/// key=N
StatusOr<int64_t> Parser::keyed(std::string_view key, int64_t low, int64_t high) {
  TRY(lex.expect(key));
  TRY(lex.expect("="));
  return number(low, high, key);
}

StatusOr<DType> Parser::dtype() {
  std::optional<DType> t = dtypeFromText(lex.peek().text);
  if (!t || lex.peek().kind != Tok::Name)
    return lex.errorHere("expected an element type such as f32, found " + shown(lex.peek()));
  lex.next();
  return *t;
}

StatusOr<Space> Parser::space() {
  for (Space space : {Space::Device, Space::Host, Space::Nvme})
    if (lex.accept(text(space)))
      return space;
  return lex.errorHere("expected device, host or nvme, found " + shown(lex.peek()));
}

Status Parser::declare(Index &names, const std::string &name, int index, size_t pos) {
  if (persistent.count(name) || own.count(name) || views.count(name))
    return lex.error(pos, "the name " + nameText(name) + " is declared twice");
  names.emplace(name, index);
  return {};
}

StatusOr<Named> Parser::named() {
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string name, parseName(lex));
  return Named{std::move(name), pos};
}

StatusOr<PlaceRef> Parser::place(const SchedProgram &p, const Named &word) {
  if (auto it = views.find(word.name); it != views.end())
    return PlaceRef{true, it->second};
  if (auto it = own.find(word.name); it != own.end())
    return PlaceRef{false, it->second};
  if (auto it = persistent.find(word.name); it != persistent.end())
    return PlaceRef{false, it->second};
  return lex.error(word.pos, "program " + nameText(p.name) + " has no buffer or view " +
                                 nameText(word.name) + " above this line");
}

/// A, B, C
Status Parser::places(const SchedProgram &p, std::vector<PlaceRef> &list) {
  do {
    TRY_ASSIGN(Named word, named());
    TRY_ASSIGN(PlaceRef r, place(p, word));
    list.push_back(r);
  } while (lex.accept(","));
  return {};
}

StatusOr<int> Parser::bufferRef(const SchedProgram &p) {
  TRY_ASSIGN(Named word, named());
  TRY_ASSIGN(PlaceRef r, place(p, word));
  if (r.isView)
    return lex.error(word.pos, nameText(word.name) + " is a view, expected a buffer");
  return r.index;
}

Status Parser::header() {
  skipLines();
  TRY(lex.expect("schedule"));
  if (lex.peek().kind == Tok::String) {
    TRY_ASSIGN(s.name, lex.string());
  } else {
    TRY_ASSIGN(s.name, lex.global());
  }
  if (lex.accept("mesh")) {
    TRY(lex.expect("("));
    int64_t ranks = 1;
    do {
      TRY_ASSIGN(std::string axis, parseName(lex));
      TRY(lex.expect("="));
      TRY_ASSIGN(int64_t size, number(1, kMaxRanks / ranks, "the size of a mesh axis"));
      ranks *= size;
      s.mesh.emplace_back(std::move(axis), size);
    } while (lex.accept(","));
    TRY(lex.expect(")"));
  }
  TRY(lex.expect("stage"));
  TRY_ASSIGN(s.step.stage, number(0, 3, "stage"));
  TRY(lex.expect("micro_batch"));
  TRY_ASSIGN(s.step.microBatch, number(1, int64_t{1} << 40, "micro_batch"));
  TRY(lex.expect("grad_accum"));
  TRY_ASSIGN(s.step.gradAccum, number(1, int64_t{1} << 40, "grad_accum"));
  TRY(lex.expect("{"));
  return endOfLine();
}

Status Parser::arena() {
  ArenaInfo a;
  TRY_ASSIGN(a.space, space());
  TRY_ASSIGN(a.bytes, keyed("bytes", 0, kMaxBytes));
  TRY_ASSIGN(a.persistentBytes, keyed("persistent", 0, kMaxBytes));
  TRY_ASSIGN(a.align, keyed("align", 1, 1 << 30));
  TRY_ASSIGN(a.load, keyed("load", 0, kMaxBytes));
  s.arenas.push_back(a);
  return {};
}

/// NAME KIND SPACE+OFFSET BYTES [FIRST, LAST] : TYPE, the interval only inside a program.
Status Parser::buffer(SchedProgram *p) {
  Buffer b;
  b.line = line();
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(b.name, parseName(lex));
  bool known = false;
  for (int k = 0; k <= static_cast<int>(BufferKind::Staging) && !known; ++k) {
    b.kind = static_cast<BufferKind>(k);
    known = lex.accept(text(b.kind));
  }
  if (!known)
    return lex.errorHere("expected a kind of buffer such as param or temp, found " +
                         shown(lex.peek()));
  TRY_ASSIGN(Space where, space());
  TRY(lex.expect("+"));
  TRY_ASSIGN(b.offset, number(0, kMaxBytes, "an offset"));
  TRY_ASSIGN(b.bytes, number(0, kMaxBytes, "a size"));
  if (p) {
    TRY(lex.expect("["));
    for (int k = 0; k < 2; ++k) {
      if (k)
        TRY(lex.expect(","));
      TRY_ASSIGN(Named label, named());
      intervals.push_back(std::move(label));
    }
    TRY(lex.expect("]"));
  }
  TRY(lex.expect(":"));
  TRY_ASSIGN(b.type, parseType(lex));
  b.type.space = where;
  if (!p) {
    TRY(declare(persistent, b.name, static_cast<int>(s.persistent.size()), pos));
    s.persistent.push_back(std::move(b));
    return {};
  }
  TRY(declare(own, b.name, static_cast<int>(s.persistent.size() + p->own.size()), pos));
  p->own.push_back(std::move(b));
  return {};
}

/// PARAM at N : [DIMS] group G SOURCE export "NAME"
Status Parser::segment(BucketInfo &b) {
  SegmentInfo g;
  TRY_ASSIGN(g.param, parseName(lex));
  TRY(lex.expect("at"));
  TRY_ASSIGN(g.at, number(0, kMaxBytes, "an offset"));
  TRY(lex.expect(":"));
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(g.shape, parseInts(lex));
  if (static_cast<int64_t>(g.shape.size()) > kMaxRank || !checkedProduct(g.shape, 8))
    return lex.error(pos, "the shape is out of range");
  TRY(lex.expect("group"));
  TRY_ASSIGN(g.group, number(0, 1 << 20, "a group"));
  TRY_ASSIGN(g.source, parseSource(lex, b.dtype));
  if (lex.accept("export")) {
    TRY_ASSIGN(g.exportName, lex.string());
  }
  b.segments.push_back(std::move(g));
  return endOfLine();
}

/// NAME elems=N DTYPE sharded|whole trainable|running|frozen [master STATE] {, a segment on each line, }
Status Parser::bucket() {
  BucketInfo b;
  TRY_ASSIGN(b.name, parseName(lex));
  TRY_ASSIGN(b.elems, keyed("elems", 0, kMaxBytes / 8));
  TRY_ASSIGN(b.dtype, dtype());
  b.sharded = lex.accept("sharded");
  if (!b.sharded)
    TRY(lex.expect("whole"));
  b.trainable = lex.accept("trainable");
  b.running = !b.trainable && lex.accept("running");
  if (!b.trainable && !b.running)
    TRY(lex.expect("frozen"));
  if (lex.accept("master")) {
    TRY_ASSIGN(b.master, parseName(lex));
  }
  TRY(lex.expect("{"));
  TRY(endOfLine());
  for (skipLines(); !lex.accept("}"); skipLines())
    TRY(segment(b));
  s.buckets.push_back(std::move(b));
  return {};
}

Status Parser::init() {
  InitInfo i;
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string name, parseName(lex));
  auto it = persistent.find(name);
  if (it == persistent.end())
    return lex.error(pos, "there is no buffer " + nameText(name) + " above this line");
  i.buffer = it->second;
  TRY_ASSIGN(i.source, parseSource(lex, s.persistent[i.buffer].type.dtype));
  if (i.source.kind == Source::Kind::Zeros)
    return lex.errorHere("expected from, init or =, found " + shown(lex.peek()));
  s.inits.push_back(std::move(i));
  return {};
}

Status Parser::input() {
  InputInfo i;
  TRY_ASSIGN(i.name, parseName(lex));
  TRY_ASSIGN(i.meta, parseInputMeta(lex));
  s.inputs.push_back(std::move(i));
  return {};
}

Status Parser::origin() {
  OriginInfo o;
  auto next = static_cast<int64_t>(s.origins.size());
  TRY_ASSIGN(next, number(next, next, "the number of this origin"));
  if (lex.accept("node")) {
    TRY_ASSIGN(o.node, lex.string());
  }
  if (lex.accept("module")) {
    TRY_ASSIGN(o.module, lex.string());
  }
  if (lex.accept("pass")) {
    TRY_ASSIGN(o.pass, lex.string());
  }
  s.origins.push_back(std::move(o));
  return {};
}

/// NAME = [own] BUFFER[+OFFSET] : TYPE [strides [..]]
Status Parser::view(SchedProgram &p) {
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
Status Parser::destinations(SchedProgram &p, Instr &i) {
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

Status Parser::operation(Instr &i, const Named &word) {
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
Status Parser::clauses(SchedProgram &p, Instr &i) {
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

Status Parser::instr(SchedProgram &p, Stream stream) {
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
Status Parser::returns(SchedProgram &p) {
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
Status Parser::carriedLine(SchedProgram &p) {
  do {
    TRY_ASSIGN(Named word, named());
    if (!carried.emplace(word.name, static_cast<int>(p.carried.size())).second ||
        labels.count(word.name))
      return lex.error(word.pos, "the label " + nameText(word.name) + " is declared twice [S4]");
    p.carried.push_back(std::move(word.name));
  } while (lex.accept(","));
  return {};
}

Status Parser::programLine(SchedProgram &p) {
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

StatusOr<int> Parser::labelIndex(const SchedProgram &p, const Named &use) {
  auto it = labels.find(use.name);
  if (it == labels.end())
    return lex.error(use.pos,
                     "program " + nameText(p.name) + " has no instruction " + nameText(use.name));
  return it->second;
}

Status Parser::program() {
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

Status Parser::table() {
  if (lex.accept("arena"))
    return arena();
  if (lex.accept("buffer"))
    return buffer(nullptr);
  if (lex.accept("bucket"))
    return bucket();
  if (lex.accept("init"))
    return init();
  if (lex.accept("input"))
    return input();
  if (lex.accept("origin"))
    return origin();
  if (lex.accept("program"))
    return program();
  return lex.errorHere(
      "expected arena, buffer, bucket, init, input, origin, program or '}', found " +
      shown(lex.peek()));
}

StatusOr<Schedule> Parser::run() {
  if (src.size() > kMaxText)
    return Status::error("a schedule has at most 2^30 bytes of text, found " +
                         std::to_string(src.size()));
  TRY(header());
  for (skipLines(); !lex.accept("}"); skipLines()) {
    // Programs number their buffers after the persistent ones, so these must be complete by then.
    if (!s.programs.empty() && !lex.at("program"))
      return lex.errorHere("expected another program or '}', found " + shown(lex.peek()));
    TRY(table());
    TRY(endOfLine());
  }
  skipLines();
  if (lex.peek().kind != Tok::Eof)
    return lex.errorHere("expected the end of the file, found " + shown(lex.peek()));
  return std::move(s);
}

} // namespace

StatusOr<Schedule> parseSchedule(std::string_view text, std::string_view path) {
  return Parser(text, path).run();
}

} // namespace ds
