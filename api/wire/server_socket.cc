#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "api/wire/authenticator.h"
#include "api/wire/connection_table.h"
#include "api/wire/poll_set.h"
#include "api/wire/transport.h"
#include "api/wire/zmq_handle.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"

namespace pillion::wire {

namespace {

constexpr int64_t kSweepIntervalNs = 100 * kNanosPerMilli;
// How long unread messages of a closed connection may hold back its kPeerGone.
constexpr int64_t kGoneDelayNs = kNanosPerSecond;
// A peer whose connection could not be told apart is gone after so much silence.
constexpr int64_t kUnattributedSilenceNs = 15 * kNanosPerSecond;
constexpr size_t kRoutingIdBytes = 5;  // 0 and a number: what a ROUTER gives to peers that choose none
constexpr int kZapEnforceDomain = 93;  // ZMQ_ZAP_ENFORCE_DOMAIN; the header hides it among its drafts
constexpr const char* kMonitorAddress = "inproc://monitor";

uint32_t ConnectionLimit(uint32_t wanted) {
  uint32_t limit = wanted != 0 ? wanted : limits::kServerConnections;
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0 && descriptors.rlim_cur != RLIM_INFINITY) {
    const uint64_t most = descriptors.rlim_cur > limits::kReservedDescriptors
                              ? descriptors.rlim_cur - limits::kReservedDescriptors
                              : 1;
    limit = static_cast<uint32_t>(std::min<uint64_t>(limit, most));
  }
  return limit;
}

}  // namespace

class ServerSocket::Impl {
 public:
  explicit Impl(ServerOptions options)
      : authenticator_(context_, options.keys.allowed),
        router_(context_, ZMQ_ROUTER),
        monitor_(context_, ZMQ_PAIR),
        connections_(ConnectionLimit(options.connection_limit),
                     options.unread_limit_bytes != 0 ? options.unread_limit_bytes : limits::kUnreadBytesPerPeer),
        options_(std::move(options)) {}

  Status Open();
  std::optional<ServerEvent> Receive();
  Status Send(PeerId peer, std::string_view payload);
  void ReportHostile(PeerId peer);
  void Disconnect(PeerId peer);
  const ServerCounters& counters() const;
  bool Ready();

  Endpoint endpoint_;
  mutable ServerCounters counters_;
  PollSet polls_;
  ConnectionTable& connections() { return connections_; }

 private:
  struct Peer {
    int fd = -1;  // -1: could not be attributed to a connection
    Role role = Role::kClient;
    std::string user;
    uint32_t hostile = 0;
    bool muted = false;  // Disconnect was called: nothing more of it is handed out
    int64_t last_message_ns = 0;
  };
  struct Gone {
    uint64_t peer;
    int64_t noticed_ns;
  };

  Status Configure();
  void DrainMonitor(int64_t now_ns);
  void Housekeep(int64_t now_ns);
  bool ReceiveMessage(int64_t now_ns, std::optional<ServerEvent>* event);
  Peer* FindOrAddPeer(uint64_t id, int fd, const char* user_id, int64_t now_ns);
  std::optional<ServerEvent> NextGone(int64_t now_ns, bool drained);
  void Shut(Peer& peer);

  ZmqContext context_;
  Authenticator authenticator_;
  ZmqSocket router_;
  ZmqSocket monitor_;
  ConnectionTable connections_;
  std::unordered_map<uint64_t, Peer> peers_;
  std::deque<Gone> gone_;
  std::string gone_user_;  // what the last kPeerGone's `user` points to
  int64_t next_sweep_ns_ = 0;
  ServerOptions options_;
};

Status ServerSocket::Impl::Configure() {
  ZmqSocket& s = router_;
  const bool ok =
      s.Set(ZMQ_LINGER, 0) && s.Set(ZMQ_ROUTER_MANDATORY, 1) && s.Set(ZMQ_ROUTER_HANDOVER, 0) &&
      s.Set(ZMQ_SNDHWM, limits::kQueuedMessagesPerPeer) && s.Set(ZMQ_RCVHWM, limits::kQueuedMessagesPerPeer) &&
      // Counted before decryption, which adds less than 64 bytes.
      s.Set64(ZMQ_MAXMSGSIZE, static_cast<int64_t>(limits::kMessageBytes + 64)) &&
      s.Set(ZMQ_HEARTBEAT_IVL, 2000) && s.Set(ZMQ_HEARTBEAT_TIMEOUT, 6000) && s.Set(ZMQ_HEARTBEAT_TTL, 6000) &&
      s.Set(ZMQ_HANDSHAKE_IVL, limits::kHandshakeMs) && s.Set(ZMQ_BACKLOG, 1024) && s.Set(ZMQ_CURVE_SERVER, 1) &&
      s.SetKey(ZMQ_CURVE_SECRETKEY, options_.keys.pair.secret_key) && s.SetText(ZMQ_ZAP_DOMAIN, "pillion") &&
      // Without this an absent handler would let everybody in.
      s.Set(kZapEnforceDomain, 1);
  return ok ? Status::Ok() : Internal(std::string("server socket options: ") + zmq_strerror(errno));
}

Status ServerSocket::Impl::Open() {
  if (!polls_.valid() || !router_.valid() || !monitor_.valid()) return ErrnoStatus("open a server socket");
  if (!authenticator_.Bind()) return ErrnoStatus("open the authentication handler");
  PILLION_RETURN_IF_ERROR(Configure());
  // The monitor's queue must never fill: libzmq's I/O thread would wait for it.
  if (zmq_socket_monitor(router_.get(), kMonitorAddress, ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED) != 0 ||
      !monitor_.Set(ZMQ_LINGER, 0) || !monitor_.Set(ZMQ_RCVHWM, 0) ||
      zmq_connect(monitor_.get(), kMonitorAddress) != 0) {
    return Internal(std::string("monitor of a server socket: ") + zmq_strerror(errno));
  }
  const std::string wanted = "tcp://" + options_.bind_host + ":" +
                             (options_.port == 0 ? std::string("*") : std::to_string(options_.port));
  if (zmq_bind(router_.get(), wanted.c_str()) != 0) {
    const std::string why = "listen on " + wanted + ": " + zmq_strerror(errno);
    if (errno == EADDRINUSE) return Unavailable(why + ": stop what listens there or choose another port");
    return errno == EACCES ? PermissionDenied(why) : InvalidArgument(why);
  }
  char bound[256];
  size_t size = sizeof bound;
  if (zmq_getsockopt(router_.get(), ZMQ_LAST_ENDPOINT, bound, &size) != 0) {
    return Internal(std::string("endpoint of a server socket: ") + zmq_strerror(errno));
  }
  endpoint_ = {bound, options_.keys.pair.public_key};
  polls_.Add(router_.fd());
  polls_.Add(monitor_.fd());
  polls_.Add(authenticator_.socket().fd());
  polls_.Signal();
  return Status::Ok();
}

bool ServerSocket::Impl::Ready() {
  const bool router = router_.readable(), monitor = monitor_.readable();
  return authenticator_.socket().readable() || router || monitor ||
         (connections_.open_count() > 0 && MonotonicNowNs() >= next_sweep_ns_);
}

void ServerSocket::Impl::DrainMonitor(int64_t now_ns) {
  uint16_t event;
  int32_t fd;
  while (ReceiveMonitorEvent(monitor_, &event, &fd)) {
    if (event == ZMQ_EVENT_ACCEPTED) {
      connections_.OnAccepted(fd, now_ns);
    } else if (event == ZMQ_EVENT_DISCONNECTED) {
      const uint64_t peer = connections_.OnClosed(fd);
      if (peer != 0) gone_.push_back({peer, now_ns});
    }
  }
}

void ServerSocket::Impl::Housekeep(int64_t now_ns) {
  DrainMonitor(now_ns);
  if (now_ns < next_sweep_ns_) return;
  next_sweep_ns_ = now_ns + kSweepIntervalNs;
  const uint64_t shut = connections_.shut_count();
  connections_.Sweep(now_ns);
  if (connections_.shut_count() != shut) {
    log::Warning("connections closed for too many unread bytes", {{"count", connections_.shut_count() - shut}});
  }
  for (const auto& [id, peer] : peers_) {
    if (peer.fd < 0 && now_ns - peer.last_message_ns > kUnattributedSilenceNs) gone_.push_back({id, now_ns});
  }
  polls_.SetTimer(connections_.open_count() > 0 ? next_sweep_ns_ : INT64_MAX);
}

// A message names its descriptor, which may have had several connections since the monitor was read last. A new
// peer belongs to the only connection that could be its own; otherwise it stays unattributed.
ServerSocket::Impl::Peer* ServerSocket::Impl::FindOrAddPeer(uint64_t id, int fd, const char* user_id,
                                                            int64_t now_ns) {
  auto found = peers_.find(id);
  if (found != peers_.end()) return &found->second;
  Peer peer;
  if (user_id == nullptr || !ParseUserId(user_id, &peer.role, &peer.user)) return nullptr;
  if (fd >= 0) {
    const bool had_unbound = connections_.At(fd).open && connections_.At(fd).peer == 0;
    const uint64_t generation = connections_.At(fd).generation;
    DrainMonitor(now_ns);
    ConnectionTable::Connection& connection = connections_.At(fd);
    const uint64_t candidates = (had_unbound ? 1 : 0) + connection.generation - generation;
    if (candidates == 1 && connection.open && connection.peer == 0) {
      connection.peer = id;
      peer.fd = fd;
    } else if (candidates <= 1) {
      gone_.push_back({id, now_ns});  // its connection is closed already
    }
  }
  return &peers_.emplace(id, std::move(peer)).first->second;
}

// True when something was read; `event` stays empty when it was not fit to hand out.
bool ServerSocket::Impl::ReceiveMessage(int64_t now_ns, std::optional<ServerEvent>* event) {
  ZmqFrame routing_id, payload;
  if (!routing_id.Receive(router_)) return false;
  if (!routing_id.more() || !payload.Receive(router_)) {
    ++counters_.bad_frames;
    return true;
  }
  const int fd = payload.source_fd();
  const std::string_view id_bytes = routing_id.bytes();
  const bool own_id = id_bytes.size() == kRoutingIdBytes && id_bytes[0] == 0;
  uint32_t number = 0;
  if (own_id) __builtin_memcpy(&number, id_bytes.data() + 1, sizeof number);
  Peer* peer = own_id ? FindOrAddPeer(uint64_t{number} + 1, fd, payload.property("User-Id"), now_ns) : nullptr;
  uint64_t bytes = payload.bytes().size();
  bool multipart = false;
  for (bool more = payload.more(); more; multipart = true) {
    ZmqFrame extra;
    if (!extra.Receive(router_)) break;
    bytes += extra.bytes().size() + 64;
    more = extra.more();
  }
  if (peer == nullptr) {
    ++counters_.bad_frames;
    if (fd >= 0 && connections_.At(fd).peer == 0) connections_.Shut(fd);
    return true;
  }
  peer->last_message_ns = now_ns;
  if (peer->fd >= 0) connections_.CountRead(peer->fd, connections_.At(peer->fd).generation, bytes);
  if (peer->muted) return true;
  if (multipart) {
    ++counters_.bad_frames;
    if (++peer->hostile >= limits::kHostileMessagesPerPeer) Shut(*peer);
    return true;
  }
  ServerEvent& made = event->emplace();
  made.peer = PeerId{uint64_t{number} + 1};
  made.role = peer->role;
  made.user = peer->user;
  made.payload.assign(payload.bytes());
  return true;
}

std::optional<ServerEvent> ServerSocket::Impl::NextGone(int64_t now_ns, bool drained) {
  while (!gone_.empty() && (drained || now_ns - gone_.front().noticed_ns >= kGoneDelayNs)) {
    auto found = peers_.find(gone_.front().peer);
    gone_.pop_front();
    if (found == peers_.end()) continue;  // said already
    ServerEvent event;
    event.kind = ServerEvent::Kind::kPeerGone;
    event.peer = PeerId{found->first};
    event.role = found->second.role;
    gone_user_ = std::move(found->second.user);
    event.user = gone_user_;
    peers_.erase(found);
    return event;
  }
  return std::nullopt;
}

std::optional<ServerEvent> ServerSocket::Impl::Receive() {
  const int64_t now_ns = MonotonicNowNs();
  Housekeep(now_ns);
  authenticator_.Serve();
  std::optional<ServerEvent> event = NextGone(now_ns, false);
  // Refused messages count as work too: a flood of them must not keep the caller here.
  for (int refused = 0; !event && refused < 64; ++refused) {
    if (!ReceiveMessage(now_ns, &event)) {
      event = NextGone(now_ns, true);
      if (!event) polls_.ClearSignal();
      if (!event && Ready()) polls_.Signal();  // came in between
      if (event) polls_.Signal();
      return event;
    }
  }
  polls_.Signal();
  return event;
}

Status ServerSocket::Impl::Send(PeerId peer, std::string_view payload) {
  auto found = peers_.find(peer.value);
  if (found == peers_.end() || found->second.muted) return Unavailable("the peer is gone");
  if (!connections_.MaySend(found->second.fd, payload.size())) {
    return ResourceExhausted("the peer '" + found->second.user + "' does not read what it asked for");
  }
  char id[kRoutingIdBytes] = {0};
  const uint32_t number = static_cast<uint32_t>(peer.value - 1);
  __builtin_memcpy(id + 1, &number, sizeof number);
  int error = SendFrame(router_, {id, sizeof id}, ZMQ_SNDMORE);
  if (error == 0) error = SendFrame(router_, payload, 0);
  if (router_.readable()) polls_.Signal();
  if (error == 0) return Status::Ok();
  if (error == EAGAIN) return ResourceExhausted("the send queue of peer '" + found->second.user + "' is full");
  if (found->second.fd < 0) gone_.push_back({peer.value, MonotonicNowNs()});
  return Unavailable(std::string("the peer is gone: ") + zmq_strerror(error));
}

void ServerSocket::Impl::Shut(Peer& peer) {
  peer.muted = true;
  if (peer.fd >= 0) connections_.Shut(peer.fd);
}

void ServerSocket::Impl::ReportHostile(PeerId peer) {
  ++counters_.undecodable;
  auto found = peers_.find(peer.value);
  if (found != peers_.end() && ++found->second.hostile >= limits::kHostileMessagesPerPeer) Shut(found->second);
}

void ServerSocket::Impl::Disconnect(PeerId peer) {
  auto found = peers_.find(peer.value);
  if (found != peers_.end()) Shut(found->second);
}

const ServerCounters& ServerSocket::Impl::counters() const {
  counters_.refused_keys = authenticator_.refused();
  counters_.closed_connections = connections_.shut_count();
  return counters_;
}

Result<std::unique_ptr<ServerSocket>> ServerSocket::Open(ServerOptions options) {
  std::unique_ptr<ServerSocket> socket(new ServerSocket(std::make_unique<Impl>(std::move(options))));
  PILLION_RETURN_IF_ERROR(socket->impl_->Open());
  return socket;
}

ServerSocket::ServerSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ServerSocket::~ServerSocket() = default;
const Endpoint& ServerSocket::endpoint() const { return impl_->endpoint_; }
std::optional<ServerEvent> ServerSocket::Receive() { return impl_->Receive(); }
Status ServerSocket::Send(PeerId peer, std::string_view payload) { return impl_->Send(peer, payload); }
void ServerSocket::ReportHostile(PeerId peer) { impl_->ReportHostile(peer); }
void ServerSocket::Disconnect(PeerId peer) { impl_->Disconnect(peer); }
const ServerCounters& ServerSocket::counters() const { return impl_->counters(); }
uint32_t ServerSocket::connections() const { return impl_->connections().open_count(); }
int ServerSocket::poll_fd() const { return impl_->polls_.fd(); }
bool ServerSocket::Wait(int64_t timeout_ms, std::span<pollfd> others) {
  return impl_->polls_.Wait(timeout_ms, others, [this] { return impl_->Ready(); });
}

}  // namespace pillion::wire
