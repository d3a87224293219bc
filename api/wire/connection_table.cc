#include "api/wire/connection_table.h"

#include <sys/socket.h>

#include <algorithm>

#include "api/wire/tcp_probe.h"
#include "base/clock.h"
#include "base/limits.h"

namespace pillion::wire {

namespace {
constexpr uint64_t kFrameOverheadBytes = 64;       // encryption and framing, at most
constexpr uint64_t kHandshakeBytes = 4096;         // at most
constexpr uint64_t kHeartbeatBytesPerSecond = 1024;  // far more than pings need
constexpr size_t kConnectionsPerSweep = 512;
}  // namespace

ConnectionTable::Connection& ConnectionTable::At(int fd) {
  if (fd >= static_cast<int>(by_fd_.size())) by_fd_.resize(static_cast<size_t>(fd) + 1);
  return by_fd_[static_cast<size_t>(fd)];
}

void ConnectionTable::OnAccepted(int fd, int64_t now_ns) {
  if (fd < 0) return;
  Connection& connection = At(fd);
  if (!connection.open) ++open_;
  const uint64_t generation = connection.generation + 1;
  connection = Connection();
  connection.open = true;
  connection.generation = generation;
  connection.accepted_ns = now_ns;
  connection.address = PeerAddressOf(fd);
  if (open_ > connection_limit_) Shut(fd);
}

uint64_t ConnectionTable::OnClosed(int fd) {
  if (fd < 0) return 0;
  Connection& connection = At(fd);
  if (!connection.open) return 0;
  connection.open = false;
  --open_;
  return connection.peer;
}

void ConnectionTable::CountRead(int fd, uint64_t generation, uint64_t bytes) {
  if (fd < 0) return;
  Connection& connection = At(fd);
  if (connection.open && connection.generation == generation) {
    connection.read_bytes += bytes + kFrameOverheadBytes;
  }
}

bool ConnectionTable::MaySend(int fd, uint64_t bytes) {
  if (fd < 0) return true;
  Connection& connection = At(fd);
  if (!connection.open) return true;  // libzmq will say that the peer is gone
  if (connection.sent_bytes - connection.acknowledged_bytes + bytes > unread_limit_bytes_) {
    // The kernel is asked only when it might matter. Its count includes overhead, so it may be ahead of ours.
    TcpCounts counts;
    if (PeerAddressOf(fd) == connection.address && ReadTcpCounts(fd, &counts)) {
      connection.acknowledged_bytes = std::min(counts.acknowledged_bytes, connection.sent_bytes);
    }
    if (connection.sent_bytes - connection.acknowledged_bytes + bytes > unread_limit_bytes_) return false;
  }
  connection.sent_bytes += bytes;
  return true;
}

void ConnectionTable::Shut(int fd) {
  Connection& connection = At(fd);
  if (!connection.open || connection.address.empty() || PeerAddressOf(fd) != connection.address) return;
  shutdown(fd, SHUT_RDWR);
  ++shut_;
}

uint64_t ConnectionTable::UnreadLimit() const {
  const uint64_t share = limits::kUnreadBytesTotal / std::max<uint32_t>(open_, 1);
  return std::min(unread_limit_bytes_, std::max(share, limits::kUnreadBytesLeast));
}

void ConnectionTable::Sweep(int64_t now_ns) {
  const uint64_t limit = UnreadLimit();
  for (size_t i = 0; i < std::min(kConnectionsPerSweep, by_fd_.size()); ++i) {
    cursor_ = (cursor_ + 1) % by_fd_.size();
    const Connection& connection = by_fd_[cursor_];
    if (!connection.open) continue;
    const int fd = static_cast<int>(cursor_);
    TcpCounts counts;
    if (!ReadTcpCounts(fd, &counts) || PeerAddressOf(fd) != connection.address) continue;
    const uint64_t age_s = static_cast<uint64_t>((now_ns - connection.accepted_ns) / kNanosPerSecond);
    const uint64_t explained = connection.read_bytes + kHandshakeBytes + age_s * kHeartbeatBytesPerSecond;
    if (counts.received_bytes > explained + limit) Shut(fd);
  }
}

}  // namespace pillion::wire
