// SPDX-License-Identifier: Apache-2.0
#include "ir/Status.h"

#include <algorithm>

namespace ds {

Status Status::error(std::string text, Code code) {
  Status s;
  s.rep = std::make_unique<Rep>();
  s.rep->code = code;
  s.rep->entries.push_back({"", std::move(text), {}});
  return s;
}

Status Status::at(std::string_view place) && {
  if (rep)
    for (ErrorEntry &e : rep->entries)
      if (e.place.empty())
        e.place = place;
  return std::move(*this);
}

Status Status::in(std::string_view prefix) && {
  if (rep)
    for (ErrorEntry &e : rep->entries)
      e.place = e.place.empty() ? std::string(prefix) : std::string(prefix) + ": " + e.place;
  return std::move(*this);
}

Status Status::note(std::string text) && {
  if (rep)
    rep->entries.back().notes.push_back(std::move(text));
  return std::move(*this);
}

void Status::merge(Status other) {
  if (other.ok())
    return;
  if (!rep) {
    rep = std::move(other.rep);
    return;
  }
  rep->code = std::max(rep->code, other.rep->code);
  for (ErrorEntry &e : other.rep->entries)
    rep->entries.push_back(std::move(e));
}

const std::vector<ErrorEntry> &Status::entries() const {
  static const std::vector<ErrorEntry> none;
  return rep ? rep->entries : none;
}

std::string Status::str() const {
  std::string out;
  for (const ErrorEntry &e : entries()) {
    out += (e.place.empty() ? "" : e.place + ": ") + "error: " + e.text + "\n";
    for (const std::string &n : e.notes)
      out += (n.starts_with(" ") ? "" : "note: ") + n + "\n";
  }
  return out;
}

static size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string> &candidates) {
  std::string best;
  size_t bestDistance = std::max<size_t>(2, word.size() / 3) + 1;
  if (word.size() > 256) // the distance costs the product of the lengths
    return best;
  for (const std::string &c : candidates)
    if (c.size() > word.size() + bestDistance)
      continue;
    else if (size_t d = editDistance(word, c); d < bestDistance) {
      bestDistance = d;
      best = c;
    }
  return best;
}

} // namespace ds
