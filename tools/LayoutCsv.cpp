// SPDX-License-Identifier: Apache-2.0
#include "tools/LayoutCsv.h"

#include <array>
#include <charconv>
#include <map>

namespace ds {

namespace {

// Differences of times, and sums of sizes and offsets, then fit 64 bits.
constexpr int64_t kMostTime = int64_t(1) << 61, kMostBytes = int64_t(1) << 60;
constexpr int kMostErrors = 10;

enum Column { Id, Lower, Upper, Size, Offset, kColumns };
constexpr const char *kNames[kColumns] = {"id", "lower", "upper", "size", "offset"};

struct Cell {
  std::string_view text;
  size_t column; // in the line, from 1
};

// A line's cells without the blanks around them.
std::vector<Cell> split(std::string_view line) {
  std::vector<Cell> cells;
  for (size_t at = 0; at <= line.size();) {
    size_t end = std::min(line.find(',', at), line.size());
    size_t from = at, to = end;
    while (from < to && (line[from] == ' ' || line[from] == '\t'))
      ++from;
    while (to > from && (line[to - 1] == ' ' || line[to - 1] == '\t'))
      --to;
    cells.push_back({line.substr(from, to - from), from + 1});
    at = end + 1;
  }
  return cells;
}

class Reader {
public:
  Reader(const std::string &text, const std::string &path) : rest(text), path(path) {
    if (rest.substr(0, 3) == "\xef\xbb\xbf") // the byte order mark that spreadsheets write
      rest.remove_prefix(3);
  }

  StatusOr<LayoutFile> read() {
    std::string_view line;
    if (!nextLine(line))
      return Status::error("the file is empty, expected a line id,lower,upper,size").at(path);
    TRY(readHeader(split(line)));
    while (nextLine(line) && errors.entries().size() < kMostErrors)
      errors.merge(readRow(split(line)));
    if (!errors.ok())
      return std::move(errors);
    return std::move(file);
  }

private:
  // The next line that is not blank.
  bool nextLine(std::string_view &line) {
    while (!rest.empty()) {
      size_t end = rest.find('\n');
      line = rest.substr(0, end);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
      ++number;
      if (!line.empty() && line.back() == '\r')
        line.remove_suffix(1);
      if (line.find_first_not_of(" \t") != std::string_view::npos)
        return true;
    }
    return false;
  }

  Status error(const Cell &c, const std::string &text) const {
    return Status::error(text).at(path + ":" + std::to_string(number) + ":" +
                                  std::to_string(c.column));
  }

  Status readHeader(const std::vector<Cell> &cells) {
    Status s;
    where.fill(-1);
    for (size_t k = 0; k < cells.size(); ++k) {
      std::string name(cells[k].text);
      int column = 0;
      while (column < kColumns && name != kNames[column])
        ++column;
      if (column == kColumns) {
        std::string near = nearest(name, {kNames, kNames + kColumns});
        s.merge(error(cells[k], "column '" + name +
                                    "' is unknown, expected id, lower, upper, size" + " or offset" +
                                    (near.empty() ? "" : "; did you mean " + near + "?")));
      } else if (where[column] >= 0) {
        s.merge(error(cells[k], "column " + name + " is there twice"));
      } else {
        where[column] = static_cast<int>(k);
      }
    }
    bool known = s.ok(); // else a column may be missing because its name is misspelt
    for (int column = Id; column < Offset; ++column)
      if (known && where[column] < 0)
        s.merge(error(cells[0], std::string("column ") + kNames[column] +
                                    " is missing, expected id, lower, upper and size"));
    file.hasOffsets = where[Offset] >= 0;
    columns = cells.size();
    return s;
  }

  Status readNumber(const Cell &c, Column column, int64_t least, int64_t most, int64_t &out) const {
    auto [end, code] = std::from_chars(c.text.data(), c.text.data() + c.text.size(), out);
    bool isNumber = code != std::errc::invalid_argument && end == c.text.data() + c.text.size();
    if (!isNumber)
      return error(c, std::string(kNames[column]) + " is '" + std::string(c.text) +
                          "', expected a whole number");
    if (code == std::errc::result_out_of_range || out < least || out > most)
      return error(c, std::string(kNames[column]) + " is " + std::string(c.text) +
                          ", expected a number from " + std::to_string(least) + " to " +
                          std::to_string(most));
    return {};
  }

  Status readRow(const std::vector<Cell> &cells) {
    if (cells.size() != columns)
      return error(cells.back(), "the line has " + std::to_string(cells.size()) +
                                     " values, the header has " + std::to_string(columns));
    std::string id(cells[where[Id]].text);
    if (id.empty())
      return error(cells[where[Id]], "id is empty");
    auto [before, isNew] = lineOfId.emplace(id, number);
    if (!isNew)
      return error(cells[where[Id]],
                   "id " + id + " is that of line " + std::to_string(before->second) + " too");
    int64_t lower = 0, upper = 0;
    PackItem item{};
    Status s = readNumber(cells[where[Lower]], Lower, -kMostTime, kMostTime, lower);
    s.merge(readNumber(cells[where[Upper]], Upper, -kMostTime, kMostTime, upper));
    s.merge(readNumber(cells[where[Size]], Size, 0, kMostBytes, item.bytes));
    if (file.hasOffsets)
      s.merge(readNumber(cells[where[Offset]], Offset, 0, kMostBytes, item.offset));
    if (!s.ok())
      return s;
    if (lower >= upper)
      return error(cells[where[Upper]], "upper is " + std::to_string(upper) + " and lower " +
                                            std::to_string(lower) +
                                            ": a life [lower, upper) needs lower < upper");
    if ((sum += item.bytes) > kMostBytes)
      return error(cells[where[Size]], "sizes up to this line sum to more than " +
                                           std::to_string(kMostBytes) + " bytes");
    item.first = lower;
    item.last = upper - 1;
    file.ids.push_back(id);
    file.items.push_back(item);
    file.lines.push_back(number);
    return {};
  }

  std::string_view rest;
  const std::string &path;
  int number = 0;
  size_t columns = 0;
  std::array<int, kColumns> where;
  std::map<std::string, int> lineOfId;
  int64_t sum = 0;
  LayoutFile file;
  Status errors;
};

} // namespace

StatusOr<LayoutFile> parseLayout(const std::string &text, const std::string &path) {
  return Reader(text, path).read();
}

std::string printLayout(const LayoutFile &file) {
  std::string out = "id,lower,upper,size,offset\n";
  for (size_t i = 0; i < file.items.size(); ++i) {
    const PackItem &item = file.items[i];
    out += file.ids[i] + "," + std::to_string(item.first) + "," + std::to_string(item.last + 1) +
           "," + std::to_string(item.bytes) + "," + std::to_string(item.offset) + "\n";
  }
  return out;
}

} // namespace ds
