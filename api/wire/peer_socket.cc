#include <algorithm>
#include <deque>
#include <random>

#include "api/wire/poll_set.h"
#include "api/wire/transport.h"
#include "api/wire/zmq_handle.h"
#include "base/clock.h"
#include "base/limits.h"

namespace pillion::wire {

namespace {
constexpr int64_t kAttemptNs = (limits::kHandshakeMs + 1000) * kNanosPerMilli;
}  // namespace

// Every attempt is a new DEALER with an identity of its own: nothing that was queued for a lost connection can reach
// the next one, and libzmq's own reconnecting stays off.
class PeerSocket::Impl {
 public:
  explicit Impl(PeerOptions options) : options_(std::move(options)), random_(std::random_device()()) {
    pause_ms_ = options_.retry_first_ms;
    polls_.Signal();
  }

  std::optional<PeerEvent> Receive(int64_t now_ns);
  Status Send(std::string_view payload);
  bool Ready();

  bool connected() const { return state_ == State::kConnected; }
  const Status& status() const { return status_; }
  int64_t next_attempt_ns() const { return state_ == State::kConnected ? INT64_MAX : due_ns_; }
  PollSet& polls() { return polls_; }

 private:
  enum class State { kPausing, kConnecting, kConnected };

  void StartAttempt(int64_t now_ns);
  Status OpenSocket();
  void OnMonitorEvent(uint16_t event, int32_t value, int64_t now_ns);
  // Ends the attempt or connection, and plans the next attempt.
  void End(int64_t now_ns, const std::string& why, bool refused);
  void CloseSocket();

  PeerOptions options_;
  std::mt19937_64 random_;
  ZmqContext context_;
  PollSet polls_;
  ZmqSocket dealer_;
  ZmqSocket monitor_;
  State state_ = State::kPausing;
  Status status_ = Unavailable("not connected yet");
  Endpoint server_;
  int64_t pause_ms_;
  int64_t due_ns_ = 0;  // pausing: next attempt; connecting: when the attempt fails
  uint64_t attempts_ = 0;
  std::deque<PeerEvent> events_;
};

void PeerSocket::Impl::CloseSocket() {
  if (dealer_.valid()) polls_.Remove(dealer_.fd());
  if (monitor_.valid()) polls_.Remove(monitor_.fd());
  monitor_.Close();
  dealer_.Close();
}

Status PeerSocket::Impl::OpenSocket() {
  dealer_ = ZmqSocket(context_, ZMQ_DEALER);
  monitor_ = ZmqSocket(context_, ZMQ_PAIR);
  if (!polls_.valid() || !dealer_.valid() || !monitor_.valid()) return ErrnoStatus("open a socket");
  ZmqSocket& s = dealer_;
  if (!s.SetKey(ZMQ_CURVE_SERVERKEY, server_.public_key)) {
    return InvalidArgument("'" + server_.public_key + "' is no CURVE key of a server");
  }
  if (!s.SetKey(ZMQ_CURVE_PUBLICKEY, options_.keys.public_key) ||
      !s.SetKey(ZMQ_CURVE_SECRETKEY, options_.keys.secret_key)) {
    return InvalidArgument("our own key pair is no CURVE key pair");
  }
  const std::string monitor_address = "inproc://monitor-" + std::to_string(attempts_);
  const bool ok =
      s.Set(ZMQ_LINGER, 0) && s.Set(ZMQ_IMMEDIATE, 1) && s.Set(ZMQ_RECONNECT_IVL, -1) &&
      s.Set(ZMQ_SNDHWM, limits::kQueuedMessagesPerPeer) && s.Set(ZMQ_RCVHWM, limits::kQueuedMessagesPerPeer) &&
      s.Set64(ZMQ_MAXMSGSIZE, static_cast<int64_t>(limits::kMessageBytes + 64)) &&
      s.Set(ZMQ_HEARTBEAT_IVL, 2000) && s.Set(ZMQ_HEARTBEAT_TIMEOUT, 6000) && s.Set(ZMQ_HEARTBEAT_TTL, 6000) &&
      s.Set(ZMQ_HANDSHAKE_IVL, limits::kHandshakeMs) && s.Set(ZMQ_CONNECT_TIMEOUT, limits::kHandshakeMs) &&
      zmq_socket_monitor(dealer_.get(), monitor_address.c_str(),
                         ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED | ZMQ_EVENT_CONNECT_RETRIED |
                             ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                             ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) == 0 &&
      monitor_.Set(ZMQ_LINGER, 0) && monitor_.Set(ZMQ_RCVHWM, 0) &&
      zmq_connect(monitor_.get(), monitor_address.c_str()) == 0;
  if (!ok) return Internal(std::string("socket options: ") + zmq_strerror(errno));
  polls_.Add(dealer_.fd());
  polls_.Add(monitor_.fd());
  if (zmq_connect(dealer_.get(), server_.address.c_str()) != 0) {
    return InvalidArgument("'" + server_.address + "': " + zmq_strerror(errno));
  }
  return Status::Ok();
}

void PeerSocket::Impl::StartAttempt(int64_t now_ns) {
  ++attempts_;
  auto found = options_.find_server();
  if (!found.ok()) {
    status_ = found.status();
    End(now_ns, "", false);
    return;
  }
  server_ = std::move(*found);
  Status opened = OpenSocket();
  if (!opened.ok()) {
    status_ = opened;
    End(now_ns, "", false);
    return;
  }
  state_ = State::kConnecting;
  due_ns_ = now_ns + kAttemptNs;
}

void PeerSocket::Impl::End(int64_t now_ns, const std::string& why, bool refused) {
  const bool was_connected = state_ == State::kConnected;
  CloseSocket();
  state_ = State::kPausing;
  if (!why.empty()) {
    status_ = refused ? PermissionDenied(server_.address + " " + why) : Unavailable(server_.address + " " + why);
  }
  if (was_connected) events_.push_back({PeerEvent::Kind::kLost, ""});
  if (refused) events_.push_back({PeerEvent::Kind::kRefused, status_.message()});
  std::uniform_int_distribution<int64_t> jitter(pause_ms_ / 2, pause_ms_ + pause_ms_ / 2);
  due_ns_ = now_ns + jitter(random_) * kNanosPerMilli;
  pause_ms_ = std::min(pause_ms_ * 2, options_.retry_most_ms);
}

void PeerSocket::Impl::OnMonitorEvent(uint16_t event, int32_t value, int64_t now_ns) {
  switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
      state_ = State::kConnected;
      status_ = Status::Ok();
      pause_ms_ = options_.retry_first_ms;
      events_.push_back({PeerEvent::Kind::kConnected, ""});
      return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
      return End(now_ns, "does not allow our key: see allowed.keys in its runtime directory", true);
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
      return End(now_ns, "does not speak our protocol (error " + std::to_string(value) + ")", false);
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
      return End(now_ns, "ended the handshake: it stopped, is not a Pillion server, or has another key", false);
    case ZMQ_EVENT_DISCONNECTED:
      return End(now_ns, state_ == State::kConnected ? "closed the connection" : "ended the handshake", false);
    default:  // closed, or about to be tried again by libzmq
      return End(now_ns, "is not reachable: connection refused or timed out", false);
  }
}

std::optional<PeerEvent> PeerSocket::Impl::Receive(int64_t now_ns) {
  uint16_t event;
  int32_t value;
  // Messages first: they were sent before a loss that the monitor may already know of.
  if (events_.empty() && state_ == State::kConnected) {
    ZmqFrame frame;
    if (frame.Receive(dealer_)) {
      PeerEvent message;
      message.payload.assign(frame.bytes());
      bool more = frame.more();
      for (ZmqFrame extra; more && extra.Receive(dealer_);) more = extra.more();
      polls_.Signal();
      return message;
    }
  }
  while (events_.empty() && monitor_.valid() && ReceiveMonitorEvent(monitor_, &event, &value)) {
    OnMonitorEvent(event, value, now_ns);
  }
  if (state_ == State::kConnecting && now_ns >= due_ns_) End(now_ns, "did not answer in time", false);
  if (state_ == State::kPausing && now_ns >= due_ns_ && events_.empty()) StartAttempt(now_ns);
  polls_.SetTimer(next_attempt_ns());
  if (events_.empty()) {
    polls_.ClearSignal();
    if (Ready()) polls_.Signal();
    return std::nullopt;
  }
  PeerEvent next = std::move(events_.front());
  events_.pop_front();
  polls_.Signal();
  return next;
}

Status PeerSocket::Impl::Send(std::string_view payload) {
  if (state_ != State::kConnected) return status_.ok() ? Unavailable("not connected") : status_;
  const int error = SendFrame(dealer_, payload, 0);
  if (dealer_.readable()) polls_.Signal();
  if (error == 0) return Status::Ok();
  if (error == EAGAIN && monitor_.readable()) return Unavailable(server_.address + " is gone");
  if (error == EAGAIN) return ResourceExhausted("the send queue to " + server_.address + " is full");
  return Unavailable(server_.address + ": " + zmq_strerror(error));
}

bool PeerSocket::Impl::Ready() {
  const bool dealer = state_ == State::kConnected && dealer_.readable();
  if (state_ == State::kConnecting) dealer_.readable();  // lets it process its commands
  return !events_.empty() || (monitor_.valid() && monitor_.readable()) || dealer ||
         (state_ != State::kConnected && MonotonicNowNs() >= due_ns_);
}

std::function<Result<Endpoint>()> EndpointFromFile(std::string runtime_directory, std::string name) {
  return [directory = std::move(runtime_directory), name = std::move(name)] { return ReadEndpoint(directory, name); };
}

PeerSocket::PeerSocket(PeerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
PeerSocket::~PeerSocket() = default;
std::optional<PeerEvent> PeerSocket::Receive(int64_t now_ns) { return impl_->Receive(now_ns); }
Status PeerSocket::Send(std::string_view payload) { return impl_->Send(payload); }
bool PeerSocket::connected() const { return impl_->connected(); }
Status PeerSocket::connection_status() const { return impl_->status(); }
int64_t PeerSocket::next_attempt_ns() const { return impl_->next_attempt_ns(); }
int PeerSocket::poll_fd() const { return impl_->polls().fd(); }
bool PeerSocket::Wait(int64_t timeout_ms, std::span<pollfd> others) {
  return impl_->polls().Wait(timeout_ms, others, [this] { return impl_->Ready(); });
}

}  // namespace pillion::wire
