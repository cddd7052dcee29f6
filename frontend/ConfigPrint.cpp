// SPDX-License-Identifier: Apache-2.0
//
// The resolved config as JSON with a comment per value. Reading it back gives the same values.
#include "frontend/ConfigFile.h"
#include "frontend/ConfigTable.h"
#include "ir/Json.h"

#include <algorithm>

namespace ds {

namespace {

class Printer {
public:
  explicit Printer(const PlanConfig &config) : c(config) {}

  std::string print() {
    std::string out;
    for (const std::string &a : c.assumptions)
      out += "// assumed: " + a + "\n";
    for (const std::string &n : c.noEffect)
      out += "// no effect: " + n + "\n";
    open("");
    for (const ConfigKey &k : configTable())
      if (std::string_view(k.when).starts_with("stage") || k.mismatch(c).empty())
        add(k);
    moveTo({});
    close();
    return out + text();
  }

private:
  struct Line {
    std::string text, comment;
    bool opens = false, closes = false;
  };

  void open(const std::string &name) {
    lines.push_back(
        {indent() + (name.empty() ? "" : jsonQuoted(name) + ": ") + "{", "", true, false});
    ++depth;
  }

  void close() {
    --depth;
    lines.push_back({indent() + "}", "", false, true});
  }

  std::string indent() const { return std::string(2 * depth, ' '); }

  // Closes and opens blocks until `blocks` are the open ones.
  void moveTo(const std::vector<std::string> &blocks) {
    size_t same = 0;
    while (same < std::min(blocks.size(), at.size()) && blocks[same] == at[same])
      ++same;
    for (size_t i = at.size(); i > same; --i)
      close();
    at.resize(same);
    for (size_t i = same; i < blocks.size(); ++i)
      open(blocks[i]);
    at = blocks;
  }

  void add(const ConfigKey &k) {
    std::vector<std::string> parts(1);
    for (const char *p = k.path; *p; ++p)
      *p == '.' ? parts.emplace_back() : parts.back() += *p;
    std::string name = parts.back();
    parts.pop_back();
    auto source = c.source.find(k.path);
    std::string comment = source == c.source.end() ? "default" : source->second;
    size_t bracket = name.find('[');
    if (bracket != name.npos && name.substr(bracket) != "[0]") { // goes on in the line of element 0
      std::string &line = lines.back().text;
      line.insert(line.size() - 1, ", " + k.json(c));
      return;
    }
    moveTo(parts);
    std::string value = bracket == name.npos ? k.json(c) : "[" + k.json(c) + "]";
    lines.push_back({indent() + jsonQuoted(name.substr(0, bracket)) + ": " + value, comment});
  }

  std::string text() const {
    std::string out;
    for (size_t i = 0; i < lines.size(); ++i) {
      bool last = i + 1 == lines.size() || lines[i + 1].closes;
      out += lines[i].text + (last || lines[i].opens ? "" : ",") +
             (lines[i].comment.empty() ? "" : " // " + lines[i].comment) + "\n";
    }
    return out;
  }

  PlanConfig c;
  std::vector<Line> lines;
  std::vector<std::string> at;
  size_t depth = 0;
};

} // namespace

std::string printConfig(const PlanConfig &c) { return Printer(c).print(); }

} // namespace ds
