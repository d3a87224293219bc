// The TCP connections of a ServerSocket, by descriptor, as its monitor reports them: limits the bytes that a peer
// may have in flight, and closes connections. libzmq buffers an unfinished multipart message without any bound, so
// the kernel's count of received bytes is compared with what came out of the socket.
//
// Not thread-safe. Descriptors belong to libzmq, which may close and reuse one at any time: a connection is only
// touched after its peer address was found unchanged.
#ifndef PILLION_API_WIRE_CONNECTION_TABLE_H_
#define PILLION_API_WIRE_CONNECTION_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace pillion::wire {

class ConnectionTable {
 public:
  struct Connection {
    bool open = false;
    uint64_t generation = 0;   // counts the connections that had this descriptor
    uint64_t peer = 0;         // PeerId, once its first message came
    int64_t accepted_ns = 0;
    std::string address;
    uint64_t read_bytes = 0;   // handed out, with overhead
    uint64_t sent_bytes = 0;   // handed in
    uint64_t acknowledged_bytes = 0;  // of them, as last asked
  };

  ConnectionTable(uint32_t connection_limit, uint64_t unread_limit_bytes)
      : connection_limit_(connection_limit), unread_limit_bytes_(unread_limit_bytes) {}

  // Monitor events. A connection beyond the limit is shut down at once.
  void OnAccepted(int fd, int64_t now_ns);
  // The peer that the connection had, or 0.
  uint64_t OnClosed(int fd);

  // The record of a descriptor, open or not.
  Connection& At(int fd);
  uint32_t open_count() const { return open_; }
  uint64_t shut_count() const { return shut_; }

  void CountRead(int fd, uint64_t generation, uint64_t bytes);
  // False when too much of what was sent is not yet acknowledged by the peer.
  bool MaySend(int fd, uint64_t bytes);

  // Shuts down; libzmq notices and closes.
  void Shut(int fd);
  // Looks at some connections, round and round, and shuts those with too many unread bytes.
  void Sweep(int64_t now_ns);

 private:
  uint64_t UnreadLimit() const;

  const uint32_t connection_limit_;
  const uint64_t unread_limit_bytes_;
  std::vector<Connection> by_fd_;
  size_t cursor_ = 0;
  uint32_t open_ = 0;
  uint64_t shut_ = 0;
};

}  // namespace pillion::wire

#endif  // PILLION_API_WIRE_CONNECTION_TABLE_H_
