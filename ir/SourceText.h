// SPDX-License-Identifier: Apache-2.0
//
// The pieces of text that .dsir and .dsched share: types, attributes, sources and input clauses. Every
// text function's output is read back by the parser of the same name. Printed pieces have no blank around
// them and are empty for defaults. Parsers check ranges, so that sizes computed later cannot overflow.
#pragma once

#include "ir/Attr.h"
#include "ir/Lexer.h"
#include "ir/Source.h"
#include "ir/Type.h"

#include <string>
#include <vector>

namespace ds {

/// No tensor, offset or file position may be larger: sums of two such numbers still fit an int64_t.
inline constexpr int64_t kMaxBytes = int64_t{1} << 60;

/// The product of dims times `unit`, or nullopt if a dimension is negative or the product > kMaxBytes.
std::optional<int64_t> checkedProduct(const std::vector<int64_t> &dims, int64_t unit = 1);

/// Type::str() backwards: f32[64,256] shard(dp) host. Dimensions >= 0, rank <= kMaxRank.
StatusOr<Type> parseType(Lexer &lex);
/// [8,64]; elements may be negative (attributes). The caller checks ranges.
StatusOr<std::vector<int64_t>> parseInts(Lexer &lex);

/// `{a, b=3}`, or nothing if the next token is no '{'. Names and kinds come from specs; the caller still
/// calls completeAttrs. Errors name the op through `subject`, and the nearest attribute.
StatusOr<Attrs> parseAttrs(Lexer &lex, const std::vector<AttrSpec> &specs,
                           std::string_view subject);

/// from "m.data" at 4096 as f32 | init normal(7,0.02) | = 0.5 | = hex "0000803f" [as f32] | (empty: zeros). Hex says its
/// type only where it is not the declared one.
std::string sourceText(const Source &s, DType declared);
/// Reads a source if there is one, else returns Zeros. `as` may be left out: then the stored type is
/// `declared`. File paths must be relative and stay inside the model's directory.
StatusOr<Source> parseSource(Lexer &lex, DType declared);

/// [label | count [of labels]] [ignore -100] [below 50257]; empty for unchecked data.
std::string inputMetaText(const InputMeta &m);
StatusOr<InputMeta> parseInputMeta(Lexer &lex);

} // namespace ds
