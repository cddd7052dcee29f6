// SPDX-License-Identifier: Apache-2.0
#include "runtime/CommNccl.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fmt/format.h>

namespace ds {

using namespace std::chrono_literals;

namespace {

void append(std::string &text, const void *p, size_t bytes) {
  text.append(static_cast<const char *>(p), bytes);
}

} // namespace

// ---- start ------------------------------------------------------------------------------------------

// What must agree, and from rank 0 the library's id: hash, id, then parts as name, 0, hash.
Status NcclComm::compare(const RunIdentity &identity, std::string *id) {
  std::string mine;
  uint64_t hash = hashCollectives(ops);
  append(mine, &hash, sizeof hash);
  std::string fresh(DS_COMM_ID, '\0');
  if (rank() == 0)
    TRY(deviceStatus(api().newId(fresh.data())));
  mine += fresh;
  for (const RunIdentity::Part &p : identity.parts) {
    mine += p.what + '\0';
    append(mine, &p.hash, sizeof p.hash);
  }
  std::vector<std::string> all;
  if (!others->share(mine, all))
    return stoppedByOther();
  const std::string &first = all[0];
  RunIdentity theirs;
  for (size_t at = sizeof hash + DS_COMM_ID; at < first.size();) {
    size_t end = std::min(first.find('\0', at), first.size());
    RunIdentity::Part p{first.substr(at, end - at), 0};
    std::memcpy(&p.hash, first.data() + std::min(end + 1, first.size() - sizeof p.hash),
                sizeof p.hash);
    theirs.parts.push_back(std::move(p));
    at = end + 1 + sizeof p.hash;
  }
  Status s = compareIdentity(theirs, identity);
  if (s.ok() && std::memcmp(first.data(), &hash, sizeof hash) != 0)
    s = Status::internal("its sequence of collectives differs from rank 0's");
  if (!meet(s.ok()) && s.ok()) // or some would wait for those that refuse
    s = stoppedByOther();
  *id = first.substr(sizeof hash, DS_COMM_ID);
  return s;
}

Status NcclComm::connect(const std::string &id) {
  TRY(deviceStatus(api().create(&comm, id.data(), world(), rank())));
  for (int32_t busy = 1; busy;) {
    if (abort.raised())
      return stoppedByOther();
    TRY(deviceStatus(api().poll(comm, &busy)));
    if (busy)
      std::this_thread::sleep_for(200us);
  }
  watcher = std::thread([this] { watch(); });
  return {};
}

Status NcclComm::bind(std::vector<CommOp> list, const RunIdentity &identity) {
  ops = std::move(list);
  TRY(checkOps(ops, world()));
  std::string id;
  TRY(compare(identity, &id));
  // Beside the plan, if it was made for another device or way of adding. One for all: the stream has an order.
  auto isPlanned = [&](const CommOp &op) {
    return op.workBytes >= stagingBytes(op, world(), exact);
  };
  int64_t unplanned = 0;
  for (const CommOp &op : ops)
    if (!isPlanned(op))
      unplanned = std::max(unplanned, stagingBytes(op, world(), exact));
  std::byte *staging = nullptr;
  if (unplanned > 0) {
    TRY_ASSIGN(staging, side->allocate(unplanned, 0));
  }
  for (const CommOp &op : ops)
    steps.push_back(commSteps(op, rank(), world(), exact,
                              isPlanned(op) ? static_cast<std::byte *>(op.work) : staging));
  calls.assign(ops.size(), 0);
  return connect(id);
}

bool NcclComm::meet(bool ok) {
  std::vector<std::string> all;
  return others->share(ok ? "1" : "0", all) &&
         std::all_of(all.begin(), all.end(), [](const std::string &s) { return s == "1"; });
}

// ---- collectives ------------------------------------------------------------------------------------

const char *NcclComm::begin(const CommStep &s) {
  void *stream = side->stream(Stream::Comm);
  switch (s.what) {
  case CommStep::Library:
    return api().collective(comm, s.kind, s.dst, s.src, s.elems, s.dtype, stream);
  case CommStep::Messages:
    return api().exchange(comm, s.messages.data(), static_cast<int32_t>(s.messages.size()), stream);
  case CommStep::Sum:
    return side->api().sum(s.dst, s.sources.data(), static_cast<int32_t>(s.sources.size()), s.elems,
                           s.dtype, stream);
  }
  return nullptr;
}

// Enqueued once the library is no longer busy with it.
bool NcclComm::execute(const CommStep &s) {
  bool begun = false;
  const auto start = std::chrono::steady_clock::now();
  for (int32_t busy = 1; busy;) {
    {
      std::lock_guard lock(mutex);
      if (ended || abort.raised())
        return false;
      const char *m = begun ? nullptr : begin(s);
      begun = true;
      busy = 0;
      if (!m && s.what != CommStep::Sum)
        m = api().poll(comm, &busy);
      if (m) {
        failed = m;
        return false;
      }
    }
    // A call is through within some microseconds: to sleep for the shortest time there is would be longer.
    if (busy && std::chrono::steady_clock::now() - start < 200us)
      std::this_thread::yield();
    else if (busy)
      std::this_thread::sleep_for(50us);
  }
  return true;
}

bool NcclComm::run(size_t i) {
  {
    std::lock_guard lock(mutex);
    last = &ops[i];
  }
  for (const CommStep &s : steps[i])
    if (!execute(s))
      return false;
  ++calls[i];
  return true;
}

// ---- errors and the end -----------------------------------------------------------------------------

void NcclComm::watch() {
  (void)side->use(); // an error of this shows in the calls
  while (!closing.reached(1)) {
    {
      std::lock_guard lock(mutex);
      int32_t busy = 0;
      const char *m = abort.raised() ? nullptr : api().poll(comm, &busy);
      if (m)
        abort.raise(Status::error(fmt::format("{}: {}", last ? last->label : "start", m))
                        .at(fmt::format("rank {}", rank())));
      if (abort.raised()) {
        ended = true;
        api().abort(comm);
        return;
      }
    }
    std::this_thread::sleep_for(5ms);
  }
}

void NcclComm::close() {
  if (watcher.joinable()) {
    closing.add();
    watcher.join();
  }
  if (!comm)
    return;
  (void)side->use();
  if (!ended && abort.raised())
    api().abort(comm);
  api().destroy(comm);
  comm = nullptr;
  if (!abort.raised())
    others->finish();
}

} // namespace ds
