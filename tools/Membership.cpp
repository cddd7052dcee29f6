// SPDX-License-Identifier: Apache-2.0
#include "tools/Membership.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace ds {

namespace {

/// Names of the variables of one launcher: rank and size over all, rank and size on the machine.
struct Launcher {
  const char *rank, *world, *localRank, *localWorld;
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}, // torchrun
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, // MPICH, Slurm
};

StatusOr<int> number(const char *name, int otherwise) {
  const char *text = std::getenv(name);
  if (!text)
    return otherwise;
  int n = 0;
  auto [end, error] = std::from_chars(text, text + std::strlen(text), n);
  if (error != std::errc() || *end || n < 0)
    return Status::error(std::string(name) + " is '" + text + "', expected a number");
  return n;
}

} // namespace

StatusOr<Membership> membership() {
  for (const Launcher &l : kLaunchers) {
    Membership m;
    TRY_ASSIGN(m.world, number(l.world, 1));
    if (m.world <= 1 || !std::getenv(l.rank))
      continue;
    TRY_ASSIGN(m.rank, number(l.rank, 0));
    TRY_ASSIGN(m.device, number(l.localRank, m.rank));
    TRY_ASSIGN(int here, number(l.localWorld, m.world));
    TRY_ASSIGN(m.port, number("MASTER_PORT", 29500));
    const char *address = std::getenv("MASTER_ADDR");
    if (m.rank >= m.world)
      return Status::error(std::string(l.rank) + " is " + std::to_string(m.rank) + ", and " +
                           l.world + " is " + std::to_string(m.world));
    if (!address && here < m.world)
      return Status::error("ranks are on several machines, and MASTER_ADDR does not say where rank "
                           "0 is");
    if (m.port == 0 || m.port > 65535)
      return Status::error("MASTER_PORT is " + std::to_string(m.port) + ", expected 1 to 65535");
    m.address = address ? address : "127.0.0.1";
    return m;
  }
  return Membership();
}

void quiet() {
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0)
    return;
  dup2(nowhere, STDOUT_FILENO);
  close(nowhere);
}

} // namespace ds
