// Thin owners of libzmq's C handles, and its error texts. Only the sockets of this directory include it.
#ifndef PILLION_API_WIRE_ZMQ_HANDLE_H_
#define PILLION_API_WIRE_ZMQ_HANDLE_H_

#include <zmq.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace pillion::wire {

// One I/O thread, so that monitor events of one socket come in the order in which they happened.
class ZmqContext {
 public:
  ZmqContext() : context_(zmq_ctx_new()) {
    if (context_ == nullptr) return;
    zmq_ctx_set(context_, ZMQ_IO_THREADS, 1);
    zmq_ctx_set(context_, ZMQ_BLOCKY, 0);
  }
  ~ZmqContext() {
    // Interrupted terminations go on: every socket is closed by now.
    while (context_ != nullptr && zmq_ctx_term(context_) != 0 && errno == EINTR) {
    }
  }
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;
  void* get() const { return context_; }

 private:
  void* context_;
};

class ZmqSocket {
 public:
  ZmqSocket() = default;
  ZmqSocket(const ZmqContext& context, int type)
      : socket_(context.get() == nullptr ? nullptr : zmq_socket(context.get(), type)) {}
  ZmqSocket(ZmqSocket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  ZmqSocket& operator=(ZmqSocket&& other) noexcept {
    if (this != &other) Close();
    socket_ = std::exchange(other.socket_, nullptr);
    return *this;
  }
  ~ZmqSocket() { Close(); }

  void* get() const { return socket_; }
  bool valid() const { return socket_ != nullptr; }
  void Close() {
    if (socket_ != nullptr) zmq_close(std::exchange(socket_, nullptr));
  }
  bool Set(int option, int value) { return zmq_setsockopt(socket_, option, &value, sizeof value) == 0; }
  bool Set64(int option, int64_t value) {
    return zmq_setsockopt(socket_, option, &value, sizeof value) == 0;
  }
  bool SetText(int option, const std::string& value) {
    return zmq_setsockopt(socket_, option, value.data(), value.size()) == 0;
  }
  // A Z85 key: libzmq wants the terminating zero with it.
  bool SetKey(int option, const std::string& key) {
    return zmq_setsockopt(socket_, option, key.c_str(), key.size() + 1) == 0;
  }
  int fd() const {
    int fd = -1;
    size_t size = sizeof fd;
    return zmq_getsockopt(socket_, ZMQ_FD, &fd, &size) == 0 ? fd : -1;
  }
  // Also makes the socket process its internal commands, which sending alone may put off.
  bool readable() const {
    int events = 0;
    size_t size = sizeof events;
    return zmq_getsockopt(socket_, ZMQ_EVENTS, &events, &size) == 0 && (events & ZMQ_POLLIN) != 0;
  }

 private:
  void* socket_ = nullptr;
};

class ZmqFrame {
 public:
  ZmqFrame() { zmq_msg_init(&message_); }
  ~ZmqFrame() { zmq_msg_close(&message_); }
  ZmqFrame(const ZmqFrame&) = delete;
  ZmqFrame& operator=(const ZmqFrame&) = delete;

  // False: nothing there now.
  bool Receive(const ZmqSocket& socket) {
    int rc;
    do {
      rc = zmq_msg_recv(&message_, socket.get(), ZMQ_DONTWAIT);
    } while (rc < 0 && errno == EINTR);
    return rc >= 0;
  }
  bool more() { return zmq_msg_more(&message_) != 0; }
  std::string_view bytes() {
    return {static_cast<const char*>(zmq_msg_data(&message_)), zmq_msg_size(&message_)};
  }
  // Text of a connection property; nullptr when it has none.
  const char* property(const char* name) { return zmq_msg_gets(&message_, name); }
  int source_fd() { return zmq_msg_get(&message_, ZMQ_SRCFD); }

 private:
  zmq_msg_t message_;
};

// Non-blocking; 0, or errno. Flags: 0 or ZMQ_SNDMORE.
inline int SendFrame(const ZmqSocket& socket, std::string_view bytes, int flags) {
  for (bool commands_processed = false;;) {
    if (zmq_send(socket.get(), bytes.data(), bytes.size(), flags | ZMQ_DONTWAIT) >= 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EAGAIN || commands_processed) return errno;
    // A new pipe or freed room may wait in the socket's command queue.
    socket.readable();
    commands_processed = true;
  }
}

// One event of a socket monitor: which, its value, and the endpoint's text (dropped). False: nothing there now.
inline bool ReceiveMonitorEvent(const ZmqSocket& monitor, uint16_t* event, int32_t* value) {
  ZmqFrame head, address;
  if (!head.Receive(monitor) || head.bytes().size() < 6) return false;
  __builtin_memcpy(event, head.bytes().data(), sizeof *event);
  __builtin_memcpy(value, head.bytes().data() + sizeof *event, sizeof *value);
  if (head.more()) address.Receive(monitor);
  return true;
}

}  // namespace pillion::wire

#endif  // PILLION_API_WIRE_ZMQ_HANDLE_H_
