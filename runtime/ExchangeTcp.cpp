// SPDX-License-Identifier: Apache-2.0
#include "runtime/ExchangeTcp.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace ds {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr uint64_t kHello = 0x3145584344534444; // first word of a connection
constexpr uint64_t kLongest = 1 << 24;          // bytes of what a rank says

class Socket {
public:
  Socket() = default;
  explicit Socket(int fd) : fd(fd) {}
  Socket(Socket &&o) noexcept : fd(std::exchange(o.fd, -1)) {}
  Socket &operator=(Socket &&o) noexcept {
    std::swap(fd, o.fd);
    return *this;
  }
  ~Socket() {
    if (fd >= 0)
      ::close(fd);
  }
  int get() const { return fd; }

private:
  int fd = -1;
};

class TcpExchange final : public Exchange {
public:
  TcpExchange(const Membership &m, Abort &abort)
      : member(m), abort(abort), peers(static_cast<size_t>(m.rank == 0 ? m.world : 1)) {}
  ~TcpExchange() override {
    stop = true;
    if (watcher.joinable())
      watcher.join();
  }

  int rank() const override { return member.rank; }
  int world() const override { return member.world; }

  Status gather(Clock::time_point end);
  Status reach(Clock::time_point end);
  void startWatching() {
    watcher = std::thread([this] { watch(); });
  }

  bool share(std::string mine, std::vector<std::string> &all) override {
    all.assign(static_cast<size_t>(world()), "");
    if (rank() != 0) {
      if (!give(peers[0], mine))
        return false;
      for (std::string &s : all)
        if (!take(peers[0], s))
          return false;
      return true;
    }
    all[0] = std::move(mine);
    for (size_t r = 1; r < all.size(); ++r)
      if (!take(peers[r], all[r]))
        return false;
    for (size_t r = 1; r < all.size(); ++r)
      for (const std::string &s : all)
        if (!give(peers[r], s))
          return false;
    return true;
  }

  void finish() override {
    closing = true;
    deadline = Clock::now() + 60s;
    std::vector<std::string> all;
    share("end", all);
  }

private:
  bool give(const Socket &to, const std::string &text) {
    uint64_t n = text.size();
    return move(to, reinterpret_cast<char *>(&n), sizeof n, true) &&
           move(to, const_cast<char *>(text.data()), n, true);
  }
  bool take(const Socket &from, std::string &text) {
    uint64_t n = 0;
    if (!move(from, reinterpret_cast<char *>(&n), sizeof n, false) || n > kLongest)
      return false;
    text.resize(n);
    return move(from, text.data(), n, false);
  }
  // All bytes, unless the job is aborted or the other end is gone.
  bool move(const Socket &s, char *p, size_t bytes, bool sends) {
    while (bytes > 0) {
      pollfd f = {s.get(), static_cast<short>(sends ? POLLOUT : POLLIN), 0};
      int ready = poll(&f, 1, 50);
      if (abort.raised() || Clock::now() > deadline)
        return false;
      if (ready <= 0)
        continue;
      ssize_t n = sends ? ::send(s.get(), p, bytes, MSG_NOSIGNAL) : recv(s.get(), p, bytes, 0);
      if (n < 0 && (errno == EINTR || errno == EAGAIN))
        continue;
      if (n <= 0) {
        lost(s);
        return false;
      }
      p += n;
      bytes -= static_cast<size_t>(n);
    }
    return true;
  }
  void lost(const Socket &s) {
    size_t r = rank() == 0 ? static_cast<size_t>(&s - peers.data()) : 0;
    if (!closing)
      abort.raise(Status::error(fmt::format("the process of rank {} has ended", r))
                      .at(fmt::format("rank {}", rank()))
                      .note("its own output says why"));
  }
  void watch() {
    std::vector<pollfd> list;
    for (const Socket &s : peers)
      if (s.get() >= 0)
        list.push_back({s.get(), POLLRDHUP, 0});
    while (!stop && !abort.raised()) {
      if (poll(list.data(), list.size(), 50) <= 0 || closing)
        continue;
      for (const Socket &s : peers)
        for (const pollfd &f : list)
          if (f.fd == s.get() && f.revents)
            lost(s);
    }
  }

  Membership member;
  Abort &abort;
  std::vector<Socket> peers; // of rank 0: by rank; of others: rank 0's
  std::atomic<bool> closing = false, stop = false;
  Clock::time_point deadline = Clock::time_point::max();
  std::thread watcher;
};

void sendAtOnce(const Socket &s) {
  int one = 1;
  setsockopt(s.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Status TcpExchange::gather(Clock::time_point end) {
  Socket listener(socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int one = 1, zero = 0;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
  sockaddr_in6 here = {};
  here.sin6_family = AF_INET6;
  here.sin6_addr = in6addr_any;
  here.sin6_port = htons(static_cast<uint16_t>(member.port));
  if (bind(listener.get(), reinterpret_cast<sockaddr *>(&here), sizeof here) != 0 ||
      listen(listener.get(), member.world) != 0)
    return Status::error(fmt::format("cannot listen on port {} (MASTER_PORT): {}", member.port,
                                     std::strerror(errno)));
  for (int come = 1; come < member.world;) {
    pollfd f = {listener.get(), POLLIN, 0};
    if (Clock::now() > end)
      return Status::error(fmt::format("{} of {} processes have come to port {}", come,
                                       member.world, member.port))
          .note(
              "every rank needs a process, with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE");
    if (poll(&f, 1, 50) <= 0)
      continue;
    Socket s(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    timeval patience = {2, 0};
    setsockopt(s.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    uint64_t hello[3] = {};
    if (recv(s.get(), hello, sizeof hello, MSG_WAITALL) != sizeof hello || hello[0] != kHello)
      continue; // somebody else
    if (hello[2] != static_cast<uint64_t>(member.world) || hello[1] >= hello[2] || hello[1] == 0 ||
        peers[hello[1]].get() >= 0)
      return Status::error(fmt::format("a process comes as rank {} of {}, which does not fit {} "
                                       "ranks that each come once",
                                       hello[1], hello[2], member.world));
    sendAtOnce(s);
    peers[hello[1]] = std::move(s);
    ++come;
  }
  return {};
}

Status TcpExchange::reach(Clock::time_point end) {
  std::string why;
  while (Clock::now() < end) {
    addrinfo hints = {}, *found = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    std::string port = std::to_string(member.port);
    int e = getaddrinfo(member.address.c_str(), port.c_str(), &hints, &found);
    why = e ? gai_strerror(e) : "";
    for (addrinfo *a = found; a; a = a->ai_next) {
      Socket s(socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (connect(s.get(), a->ai_addr, a->ai_addrlen) != 0) {
        why = std::strerror(errno);
        continue;
      }
      uint64_t hello[3] = {kHello, static_cast<uint64_t>(member.rank),
                           static_cast<uint64_t>(member.world)};
      if (::send(s.get(), hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello) {
        sendAtOnce(s);
        freeaddrinfo(found);
        peers[0] = std::move(s);
        return {};
      }
    }
    if (found)
      freeaddrinfo(found);
    std::this_thread::sleep_for(100ms);
  }
  return Status::error(fmt::format("cannot reach rank 0 at {}:{} (MASTER_ADDR, MASTER_PORT): {}",
                                   member.address, member.port, why));
}

} // namespace

StatusOr<std::unique_ptr<Exchange>> joinProcesses(const Membership &m, Abort &abort,
                                                  double seconds) {
  auto e = std::make_unique<TcpExchange>(m, abort);
  auto end = Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  Status s = m.rank == 0 ? e->gather(end) : e->reach(end);
  if (!s.ok())
    return std::move(s).at(fmt::format("rank {}", m.rank));
  e->startWatching();
  return std::unique_ptr<Exchange>(std::move(e));
}

} // namespace ds
