// SPDX-License-Identifier: Apache-2.0
#include "tools/Diagnostics.h"

#include "ir/Lexer.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstdio>
#include <unistd.h>

namespace ds {

StatusOr<std::string> readInput(const std::string &path) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path);
  if (!buffer)
    return Status::error(path + ": " + buffer.getError().message());
  return (*buffer)->getBuffer().str();
}

// Reads line and column of "path:line:col".
static bool parsePlace(llvm::StringRef place, llvm::StringRef path, int64_t &line,
                       int64_t &column) {
  auto [rest, columnText] = place.rsplit(':');
  auto [file, lineText] = rest.rsplit(':');
  return file == path && !lineText.getAsInteger(10, line) && !columnText.getAsInteger(10, column) &&
         line > 0 && column > 0;
}

int64_t lineOf(const std::string &place, std::string_view path) {
  int64_t line = 0, column = 0;
  bool ok = parsePlace(place, llvm::StringRef(path.data(), path.size()), line, column);
  return ok ? line : 0;
}

static bool hasSnippet(const ErrorEntry &e) {
  for (const std::string &n : e.notes)
    if (n.starts_with(" "))
      return true;
  return false;
}

static std::string snippetAt(const std::string &place, std::string_view text,
                             std::string_view path) {
  int64_t line = 0, column = 0;
  if (!parsePlace(place, llvm::StringRef(path.data(), path.size()), line, column))
    return "";
  size_t start = 0;
  for (int64_t i = 1; i < line; ++i) {
    start = text.find('\n', start);
    if (start == std::string_view::npos)
      return "";
    ++start;
  }
  size_t pos = start + static_cast<size_t>(column) - 1;
  return pos <= text.size() ? snippet(text, pos) + "\n" : "";
}

std::string diagnostics(const Status &s, std::string_view tool, std::string_view text,
                        std::string_view path) {
  std::string out;
  for (const ErrorEntry &e : s.entries()) {
    out += (e.place.empty() ? std::string(tool) : e.place) + ": error: " + e.text + "\n";
    if (!hasSnippet(e))
      out += snippetAt(e.place, text, path);
    for (const std::string &n : e.notes)
      out += (n.starts_with(" ") ? "" : "note: ") + n + "\n";
  }
  return out;
}

void exitOnFatalErrors(const char *tool) {
  llvm::install_fatal_error_handler(
      [](void *data, const char *reason, bool) {
        std::fprintf(stderr, "%s: %s\n", static_cast<const char *>(data), reason);
        std::fflush(stdout);
        _exit(static_cast<int>(Code::Internal));
      },
      const_cast<char *>(tool));
}

} // namespace ds
