#include "api/wire/tcp_probe.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace pillion::wire {

bool ReadTcpCounts(int fd, TcpCounts* counts) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  if (size < offsetof(tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received) return false;
  counts->received_bytes = info.tcpi_bytes_received;
  counts->acknowledged_bytes = info.tcpi_bytes_acked;
  return true;
}

std::string PeerAddressOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  return std::string(reinterpret_cast<const char*>(&address), size);
}

}  // namespace pillion::wire
