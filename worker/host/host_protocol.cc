#include "worker/host/host_protocol.h"

#include <poll.h>
#include <sys/socket.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "base/limits.h"

namespace pillion::worker {
namespace {

class Writer {
 public:
  void Put(uint8_t v) { bytes_.push_back(static_cast<char>(v)); }
  void Put(bool v) { Put(static_cast<uint8_t>(v ? 1 : 0)); }
  void Put(uint32_t v) { PutBytes(v); }
  void Put(uint64_t v) { PutBytes(v); }
  void Put(double v) { PutBytes(std::bit_cast<uint64_t>(v)); }
  void Put(const std::string& v) {
    Put(static_cast<uint32_t>(v.size()));
    bytes_ += v;
  }
  void Put(const Status& v) {
    Put(static_cast<uint8_t>(v.code()));
    Put(v.message());
  }
  void Put(const TaskId& v) {
    Put(v.job.high);
    Put(v.job.low);
    Put(v.index);
  }
  void Put(const store::StoredCheckpoint& v) {
    Put(v.epoch);
    Put(v.step);
    Put(v.length_bytes);
    Put(v.checksum);
    Put(v.bytes);
    Put(v.path);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  template <typename T>
  void PutBytes(T v) {
    static_assert(std::endian::native == std::endian::little);
    bytes_.append(reinterpret_cast<const char*>(&v), sizeof v);
  }
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  bool Get(uint8_t* v) { return GetBytes(v); }
  bool Get(bool* v) {
    uint8_t byte = 0;
    if (!GetBytes(&byte) || byte > 1) return false;
    *v = byte == 1;
    return true;
  }
  bool Get(uint32_t* v) { return GetBytes(v); }
  bool Get(uint64_t* v) { return GetBytes(v); }
  bool Get(double* v) { return GetBytes(v); }
  bool Get(std::string* v) {
    uint32_t size = 0;
    if (!GetBytes(&size) || size > left_.size()) return false;
    v->assign(left_.substr(0, size));
    left_.remove_prefix(size);
    return true;
  }
  bool Get(Status* v) {
    uint8_t code = 0;
    std::string message;
    if (!Get(&code) || code >= kStatusCodeCount || !Get(&message)) return false;
    *v = Status(static_cast<StatusCode>(code), std::move(message));
    return true;
  }
  bool Get(TaskId* v) { return Get(&v->job.high) && Get(&v->job.low) && Get(&v->index); }
  bool Get(store::StoredCheckpoint* v) {
    return Get(&v->epoch) && Get(&v->step) && Get(&v->length_bytes) && Get(&v->checksum) && Get(&v->bytes) &&
           Get(&v->path);
  }
  bool AtEnd() const { return left_.empty(); }

 private:
  template <typename T>
  bool GetBytes(T* v) {
    if (left_.size() < sizeof *v) return false;
    std::memcpy(v, left_.data(), sizeof *v);
    left_.remove_prefix(sizeof *v);
    return true;
  }
  std::string_view left_;
};

// The fields of each kind in wire order; one list serves both directions.
auto Fields(auto& m) {
  using T = std::remove_cvref_t<decltype(m)>;
  if constexpr (std::is_same_v<T, InputMessage>) {
    return std::tie(m.bytes);
  } else if constexpr (std::is_same_v<T, InitMessage>) {
    return std::tie(m.task, m.epoch, m.program, m.library, m.arguments, m.device, m.checkpoint_root, m.max_steps,
                    m.memory_limit_bytes);
  } else if constexpr (std::is_same_v<T, LoadMessage>) {
    return std::tie(m.first, m.previous);
  } else if constexpr (std::is_same_v<T, SaveMessage>) {
    return std::tie(m.hold);
  } else if constexpr (std::is_same_v<T, ExitMessage>) {
    return std::tie();
  } else if constexpr (std::is_same_v<T, CallMessage>) {
    return std::tie(m.call, m.program, m.library, m.arguments, m.positions);
  } else if constexpr (std::is_same_v<T, CancelCallMessage>) {
    return std::tie(m.call);
  } else if constexpr (std::is_same_v<T, ReadyMessage>) {
    return std::tie(m.memory_bytes, m.elastic, m.items_total);
  } else if constexpr (std::is_same_v<T, LoadedMessage>) {
    return std::tie(m.step, m.items_done, m.detail);
  } else if constexpr (std::is_same_v<T, ProgressMessage>) {
    return std::tie(m.step, m.items_done, m.step_p50_us, m.step_p99_us, m.peak_memory_bytes);
  } else if constexpr (std::is_same_v<T, SavedMessage>) {
    return std::tie(m.checkpoint, m.items_done);
  } else if constexpr (std::is_same_v<T, DoneMessage>) {
    return std::tie(m.step, m.items_done, m.result);
  } else if constexpr (std::is_same_v<T, FailedMessage>) {
    return std::tie(m.step, m.status);
  } else if constexpr (std::is_same_v<T, LogMessage>) {
    return std::tie(m.line);
  } else if constexpr (std::is_same_v<T, MetricMessage>) {
    return std::tie(m.name, m.value);
  } else {
    return std::tie(m.call, m.status, m.result);
  }
}

template <size_t kIndex = 0>
Result<HostMessage> DecodeKind(size_t kind, Reader reader) {
  if constexpr (kIndex < std::variant_size_v<HostMessage>) {
    if (kind != kIndex) return DecodeKind<kIndex + 1>(kind, reader);
    std::variant_alternative_t<kIndex, HostMessage> message;
    bool complete = std::apply([&](auto&... field) { return (reader.Get(&field) && ...); }, Fields(message));
    if (!complete || !reader.AtEnd()) {
      return Corruption("task host message of kind " + std::to_string(kind + 1) + " has wrong fields");
    }
    return HostMessage(std::move(message));
  } else {
    return Corruption("task host message has the unknown kind " + std::to_string(kind + 1));
  }
}

}  // namespace

Result<std::string> EncodeHostMessage(const HostMessage& message) {
  Writer writer;
  writer.Put(static_cast<uint8_t>(message.index() + 1));
  std::visit([&](const auto& m) { std::apply([&](const auto&... field) { (writer.Put(field), ...); }, Fields(m)); },
             message);
  std::string packet = writer.Take();
  if (packet.size() > limits::kHostMessageBytes) {
    return ResourceExhausted("a message between worker and task host has " + std::to_string(packet.size()) +
                             " bytes; the limit kHostMessageBytes is " + std::to_string(limits::kHostMessageBytes));
  }
  return packet;
}

Result<HostMessage> DecodeHostMessage(std::string_view packet) {
  if (packet.empty() || packet[0] == 0) return Corruption("empty task host message");
  return DecodeKind(static_cast<uint8_t>(packet[0]) - 1u, Reader(packet.substr(1)));
}

Status HostSocket::Send(const HostMessage& message, int64_t wait_ms) {
  PILLION_ASSIGN_OR_RETURN(std::string packet, EncodeHostMessage(message));
  for (;;) {
    if (send(fd_, packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return Status::Ok();
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != ENOBUFS) {
      return Unavailable(std::string("the other end of the task host's socket: ") + std::strerror(errno));
    }
    pollfd writable{fd_, POLLOUT, 0};
    int ready = poll(&writable, 1, static_cast<int>(wait_ms));
    if (ready == 0) return ResourceExhausted("the task host's socket is full: the other end does not read");
  }
}

Result<HostMessage> HostSocket::Receive() {
  thread_local std::vector<char> buffer(limits::kHostMessageBytes + 1);
  for (;;) {
    ssize_t size = recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size > 0) {
      if (static_cast<uint64_t>(size) > limits::kHostMessageBytes) return Corruption("oversized task host message");
      return DecodeHostMessage({buffer.data(), static_cast<size_t>(size)});
    }
    if (size == 0) return Unavailable("the other end closed the task host's socket");
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return NotFound("no message");
    return Unavailable(std::string("the task host's socket: ") + std::strerror(errno));
  }
}

}  // namespace pillion::worker
