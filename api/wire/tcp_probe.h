// What the kernel knows of a TCP connection. Apart, because <linux/tcp.h> and <netinet/tcp.h> exclude each other.
#ifndef PILLION_API_WIRE_TCP_PROBE_H_
#define PILLION_API_WIRE_TCP_PROBE_H_

#include <cstdint>
#include <string>

namespace pillion::wire {

struct TcpCounts {
  uint64_t received_bytes = 0;      // by us, since the connection opened
  uint64_t acknowledged_bytes = 0;  // by the peer's kernel
};
// False when `fd` is no open TCP connection.
bool ReadTcpCounts(int fd, TcpCounts* counts);
// The peer's raw socket address, as a key for comparison; empty when there is none.
std::string PeerAddressOf(int fd);

}  // namespace pillion::wire

#endif  // PILLION_API_WIRE_TCP_PROBE_H_
