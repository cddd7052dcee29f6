// SPDX-License-Identifier: Apache-2.0
//
// .dsched text -> Schedule (docs/schedule.md). Line by line: the first word says what a line declares.
// Checks what the struct cannot express (unknown names, unknown words, numbers out of range); everything
// else is the verifier's. Any input ends in a schedule or in one error with a place.
#include "ir/ScheduleParser.h"

namespace ds {

static constexpr int64_t kMaxRanks = 1 << 20;
static constexpr size_t kMaxText = size_t{1} << 30; // keeps every count of things inside an int

std::string ScheduleParser::shown(const Token &t) {
  if (t.kind == Tok::Newline || t.kind == Tok::Eof)
    return "the end of the line";
  return "'" + std::string(t.text) + "'";
}

StatusOr<int64_t> ScheduleParser::number(int64_t low, int64_t high, std::string_view what) {
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(int64_t n, lex.integer());
  if (n < low || n > high)
    return lex.error(pos, std::string(what) + " must lie in [" + std::to_string(low) + ", " +
                              std::to_string(high) + "], found " + std::to_string(n));
  return n;
}

/// key=N
StatusOr<int64_t> ScheduleParser::keyed(std::string_view key, int64_t low, int64_t high) {
  TRY(lex.expect(key));
  TRY(lex.expect("="));
  return number(low, high, key);
}

StatusOr<DType> ScheduleParser::dtype() {
  std::optional<DType> t = dtypeFromText(lex.peek().text);
  if (!t || lex.peek().kind != Tok::Name)
    return lex.errorHere("expected an element type such as f32, found " + shown(lex.peek()));
  lex.next();
  return *t;
}

StatusOr<Space> ScheduleParser::space() {
  for (Space space : {Space::Device, Space::Host, Space::Nvme})
    if (lex.accept(text(space)))
      return space;
  return lex.errorHere("expected device, host or nvme, found " + shown(lex.peek()));
}

Status ScheduleParser::declare(Index &names, const std::string &name, int index, size_t pos) {
  if (persistent.count(name) || own.count(name) || views.count(name))
    return lex.error(pos, "the name " + nameText(name) + " is declared twice");
  names.emplace(name, index);
  return {};
}

StatusOr<ScheduleParser::Named> ScheduleParser::named() {
  size_t pos = lex.peek().pos;
  TRY_ASSIGN(std::string name, parseName(lex));
  return Named{std::move(name), pos};
}

StatusOr<PlaceRef> ScheduleParser::place(const SchedProgram &p, const Named &word) {
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
Status ScheduleParser::places(const SchedProgram &p, std::vector<PlaceRef> &list) {
  do {
    TRY_ASSIGN(Named word, named());
    TRY_ASSIGN(PlaceRef r, place(p, word));
    list.push_back(r);
  } while (lex.accept(","));
  return {};
}

StatusOr<int> ScheduleParser::bufferRef(const SchedProgram &p) {
  TRY_ASSIGN(Named word, named());
  TRY_ASSIGN(PlaceRef r, place(p, word));
  if (r.isView)
    return lex.error(word.pos, nameText(word.name) + " is a view, expected a buffer");
  return r.index;
}

Status ScheduleParser::header() {
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

Status ScheduleParser::arena() {
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
Status ScheduleParser::buffer(SchedProgram *p) {
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
Status ScheduleParser::segment(BucketInfo &b) {
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
Status ScheduleParser::bucket() {
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

Status ScheduleParser::init() {
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

Status ScheduleParser::input() {
  InputInfo i;
  TRY_ASSIGN(i.name, parseName(lex));
  TRY_ASSIGN(i.meta, parseInputMeta(lex));
  s.inputs.push_back(std::move(i));
  return {};
}

Status ScheduleParser::origin() {
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
Status ScheduleParser::table() {
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

StatusOr<Schedule> ScheduleParser::run() {
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

StatusOr<Schedule> parseSchedule(std::string_view text, std::string_view path) {
  return ScheduleParser(text, path).run();
}

} // namespace ds
