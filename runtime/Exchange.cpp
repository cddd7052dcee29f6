// SPDX-License-Identifier: Apache-2.0
#include "runtime/Exchange.h"

namespace ds {

namespace {

struct Shared {
  Shared(int world, Abort &abort)
      : abort(abort), meeting(static_cast<uint32_t>(world)), all(static_cast<size_t>(world)) {}
  Abort &abort;
  Barrier meeting;
  std::vector<std::string> all;
};

class ThreadExchange final : public Exchange {
public:
  ThreadExchange(std::shared_ptr<Shared> s, int rank) : shared(std::move(s)), me(rank) {}
  int rank() const override { return me; }
  int world() const override { return static_cast<int>(shared->all.size()); }
  bool share(std::string mine, std::vector<std::string> &all) override {
    shared->all[static_cast<size_t>(me)] = std::move(mine);
    if (!shared->meeting.arrive(shared->abort))
      return false;
    all = shared->all;
    return shared->meeting.arrive(shared->abort); // nobody writes anew before all have read
  }

private:
  std::shared_ptr<Shared> shared;
  int me;
};

} // namespace

std::vector<std::unique_ptr<Exchange>> makeThreadExchanges(int world, Abort &abort) {
  auto shared = std::make_shared<Shared>(world, abort);
  std::vector<std::unique_ptr<Exchange>> out;
  for (int r = 0; r < world; ++r)
    out.push_back(std::make_unique<ThreadExchange>(shared, r));
  return out;
}

} // namespace ds
