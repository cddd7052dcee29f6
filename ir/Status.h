// SPDX-License-Identifier: Apache-2.0
//
// The one error type. A Status is ok, or a list of errors, each with the place it is about and notes.
// Libraries return it and never print, exit or throw; tools print it and turn code() into the exit code.
// Message form (docs/architecture.md): "<place>: error: <subject>: <what is wrong, with both sides>".
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ds {

enum class Code { Ok = 0, User = 1, DoesNotFit = 2, Internal = 70 };

struct ErrorEntry {
  std::string place; // file:line:col, JSON path, onnx(node), rank N; empty if the caller knows it
  std::string text;
  std::vector<std::string>
      notes; // may start with a place of their own; source lines start with a blank
};

class [[nodiscard]] Status {
public:
  Status() = default;
  static Status error(std::string text, Code code = Code::User);
  static Status internal(std::string text) { return error(std::move(text), Code::Internal); }

  bool ok() const { return !rep; }
  Code code() const { return rep ? rep->code : Code::Ok; }

  /// Sets the place of every entry that has none yet.
  Status at(std::string_view place) &&;
  /// Puts "prefix: " before every place, for callers that know an outer place (a rank, a file).
  Status in(std::string_view prefix) &&;
  /// Adds a note to the last entry.
  Status note(std::string text) &&;
  /// Appends the entries of other; keeps the worse code. All problems of one kind are reported at once.
  void merge(Status other);

  const std::vector<ErrorEntry> &entries() const;
  /// One line per entry and note, each ended by a newline: "place: error: text", "place: note: ...".
  std::string str() const;

private:
  struct Rep {
    Code code = Code::User;
    std::vector<ErrorEntry> entries;
  };
  std::unique_ptr<Rep> rep;
};

template <typename T> class [[nodiscard]] StatusOr {
public:
  StatusOr(T v) : val(std::move(v)) {}
  StatusOr(Status s) : st(std::move(s)) {
    assert(!st.ok() && "StatusOr needs an error or a value");
  }

  bool ok() const { return val.has_value(); }
  Status status() && { return std::move(st); }
  const Status &status() const & { return st; }
  T &operator*() { return *val; }
  const T &operator*() const { return *val; }
  T *operator->() { return &*val; }
  const T *operator->() const { return &*val; }
  T take() && { return std::move(*val); }

private:
  Status st;
  std::optional<T> val;
};

// Returns early from a function that returns Status or StatusOr.
#define TRY(expr)                                                                                  \
  do {                                                                                             \
    if (::ds::Status tryStatus_ = (expr); !tryStatus_.ok())                                        \
      return tryStatus_;                                                                           \
  } while (0)

#define DS_CONCAT_(a, b) a##b
#define DS_CONCAT(a, b) DS_CONCAT_(a, b)
// TRY_ASSIGN(auto x, f()): x is the value, or the error is returned.
#define TRY_ASSIGN(decl, expr)                                                                     \
  auto DS_CONCAT(tryOr_, __LINE__) = (expr);                                                       \
  if (!DS_CONCAT(tryOr_, __LINE__).ok())                                                           \
    return std::move(DS_CONCAT(tryOr_, __LINE__)).status();                                        \
  decl = std::move(DS_CONCAT(tryOr_, __LINE__)).take()

/// The candidate nearest to word by edit distance, or "" if none is near (for "did you mean").
std::string nearest(std::string_view word, const std::vector<std::string> &candidates);

} // namespace ds
