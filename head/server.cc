#include "head/server.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>

#include "api/wire/codec.h"
#include "api/wire/transport.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "head/effect_runner.h"
#include "head/metrics.h"
#include "store/checkpoint_store.h"
#include "store/store.h"

namespace pillion::head {
namespace {

constexpr int64_t kFiguresIntervalNs = kNanosPerSecond;
constexpr int64_t kStoreRetryNs = kNanosPerSecond;
// The server as a client of its own reactor, for the figures that Prometheus sees. Sockets never
// number so high.
constexpr Peer kOwnPeer = UINT64_MAX;

Now ReadClocks() { return {MonotonicNowNs(), WallNowNs()}; }

Result<FileLock> LockRuntimeDirectory(const std::string& directory) {
  Result<FileLock> lock = FileLock::TryAcquire(directory + "/head.lock");
  if (!lock.ok() && lock.status().code() == StatusCode::kUnavailable) {
    return Unavailable("another pillion-head uses the runtime directory " + directory +
                       ": stop it, or give another --runtime-dir");
  }
  return lock;
}

// Processes of this host find the checkpoint directory as <runtime>/checkpoints.
Status LinkCheckpoints(const std::string& runtime_directory, const std::string& target) {
  std::error_code error;
  std::string link = runtime_directory + "/checkpoints";
  std::string absolute = std::filesystem::absolute(target, error).string();
  std::string temporary = link + ".new";
  std::filesystem::remove(temporary, error);
  error.clear();
  std::filesystem::create_symlink(absolute, temporary, error);
  if (!error) std::filesystem::rename(temporary, link, error);
  return error ? ErrnoStatus("link " + link + " to " + absolute, error.value()) : Status::Ok();
}

}  // namespace

Status ParseListenAddress(const std::string& text, std::string* host, uint16_t* port) {
  constexpr std::string_view kScheme = "tcp://";
  size_t colon = text.rfind(':');
  if (text.rfind(kScheme, 0) == 0 && colon > kScheme.size() && colon + 1 < text.size()) {
    unsigned number = 0;
    auto [end, error] = std::from_chars(text.data() + colon + 1, text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size() && number <= 65535) {
      *host = text.substr(kScheme.size(), colon - kScheme.size());
      *port = static_cast<uint16_t>(number);
      return Status::Ok();
    }
  }
  return InvalidArgument("listen address '" + text +
                         "': tcp://<host or address>:<port> is expected, port 0 for any");
}

class Server::Impl {
 public:
  explicit Impl(ServerOptions options)
      : options_(std::move(options)), reactor_(options_.reactor, &effects_) {}

  Status Start() {
    started_ = ReadClocks();
    PILLION_RETURN_IF_ERROR(
        MakePrivateDirectory(options_.runtime_directory).WithContext("runtime directory"));
    PILLION_ASSIGN_OR_RETURN(FileLock lock, LockRuntimeDirectory(options_.runtime_directory));
    runtime_lock_ = std::make_unique<FileLock>(std::move(lock));
    PILLION_RETURN_IF_ERROR(Listen());
    PILLION_RETURN_IF_ERROR(OpenStores());
    PILLION_RETURN_IF_ERROR(Recover());
    PILLION_RETURN_IF_ERROR(
        LinkCheckpoints(options_.runtime_directory, options_.checkpoint_directory));
    PILLION_RETURN_IF_ERROR(
        wire::WriteEndpoint(options_.runtime_directory, "head", socket_->endpoint()));
    published_ = true;
    return Status::Ok();
  }

  ~Impl() {
    if (published_) unlink(wire::EndpointPath(options_.runtime_directory, "head").c_str());
  }

  void Run(int stop_fd, ServiceNotifier* notifier) {
    pollfd stop{stop_fd, POLLIN, 0};
    bool more = false;  // the last turn stopped at its bound
    while (true) {
      int64_t now_ns = MonotonicNowNs();
      notifier->Beat(now_ns);
      stop.revents = 0;
      socket_->Wait(more ? 0 : TimeoutMs(now_ns, notifier->next_beat_ns()), {&stop, 1});
      if (stop.revents != 0) break;
      more = Turn();
    }
    // The turn that was under way has ended: what it acknowledged is on disk.
    log::Info("stopping", {{"uptime_s", (MonotonicNowNs() - started_.ns) / kNanosPerSecond}});
  }

  const wire::Endpoint& endpoint() const { return socket_->endpoint(); }
  int metrics_port() const { return metrics_ == nullptr ? -1 : metrics_->port(); }

 private:
  Status Listen() {
    wire::ServerOptions socket_options;
    PILLION_ASSIGN_OR_RETURN(socket_options.keys,
                             wire::LoadOrCreateHeadKeys(options_.runtime_directory));
    socket_options.bind_host = options_.listen_host;
    socket_options.port = options_.listen_port;
    PILLION_ASSIGN_OR_RETURN(socket_, wire::ServerSocket::Open(std::move(socket_options)));
    if (options_.metrics_port >= 0) {
      PILLION_ASSIGN_OR_RETURN(metrics_,
                               Metrics::Listen(options_.listen_host, options_.metrics_port));
    }
    return Status::Ok();
  }

  Status OpenStores() {
    store::StoreOptions store_options;
    store_options.state_directory = options_.state_directory;
    store_options.reserve_bytes = options_.store_reserve_bytes;
    PILLION_ASSIGN_OR_RETURN(records_, store::OpenRecordStore(store_options));
    if (options_.checkpoint_directory.empty()) {
      options_.checkpoint_directory = options_.state_directory + "/checkpoints";
    }
    PILLION_ASSIGN_OR_RETURN(checkpoints_,
                             store::OpenFileCheckpointStore(options_.checkpoint_directory));
    EffectRunner::Outlets outlets;
    outlets.send = [this](Peer peer, const wire::Message& message) { Send(peer, message); };
    outlets.disconnect = [this](Peer peer) { socket_->Disconnect(wire::PeerId{peer}); };
    runner_ = std::make_unique<EffectRunner>(records_.get(), checkpoints_.get(), std::move(outlets),
                                             options_.crash_points);
    return Status::Ok();
  }

  Status Recover() {
    int64_t begin_ns = MonotonicNowNs();
    uint64_t count = 0;
    PILLION_RETURN_IF_ERROR(
        records_
            ->ForEach([&](uint8_t kind, std::string_view key, std::string_view value) {
              ++count;
              return reactor_.Load(static_cast<RecordKind>(kind), key, value);
            })
            .WithContext("state directory " + options_.state_directory));
    Now now = ReadClocks();
    PILLION_RETURN_IF_ERROR(reactor_.FinishLoad(now));
    CarryOut(now);
    log::Info("recovered", {{"records", count},
                            {"incarnation", reactor_.incarnation()},
                            {"took_ms", (now.ns - begin_ns) / kNanosPerMilli}});
    return Status::Ok();
  }

  int64_t TimeoutMs(int64_t now_ns, int64_t next_beat_ns) const {
    if (!effects_.empty()) return 0;
    int64_t next_ns = std::min({reactor_.NextTimerNs(), next_beat_ns, next_figures_ns_});
    if (runner_->waiting()) next_ns = std::min(next_ns, next_retry_ns_);
    return next_ns <= now_ns ? 0 : (next_ns - now_ns + kNanosPerMilli - 1) / kNanosPerMilli;
  }

  // True when the bound of a turn was reached.
  bool Turn() {
    Now now = ReadClocks();
    if (runner_->waiting() && now.ns >= next_retry_ns_) RetryStore(&now);
    if (now.ns >= next_figures_ns_) UpdateFigures(now);
    uint64_t messages = 0, bytes = 0;
    while (messages < limits::kMessagesPerTurn && bytes < limits::kBytesPerTurn) {
      std::optional<wire::ServerEvent> event = socket_->Receive();
      if (!event) break;
      ++messages;
      bytes += event->payload.size();
      Handle(*event, now);
    }
    if (now.ns >= reactor_.NextTimerNs()) reactor_.OnTick(now);
    reactor_.EndTurn(now);
    CarryOut(now);
    if (metrics_ != nullptr) metrics_->CountTurn(messages);
    return messages >= limits::kMessagesPerTurn || bytes >= limits::kBytesPerTurn;
  }

  void Handle(const wire::ServerEvent& event, Now now) {
    if (event.kind == wire::ServerEvent::Kind::kPeerGone) {
      reactor_.OnPeerLost(event.peer.value, now);
      return;
    }
    Result<wire::Message> message = wire::Decode(event.payload);
    if (message.ok()) {
      reactor_.OnMessage({event.peer.value, event.role, event.user}, std::move(*message), now);
      return;
    }
    log::Warning("a message that cannot be decoded",
                 {{"user", event.user}, {"error", message.status().ToString()}});
    // Another version's peer deserves to know why; what is damaged has no request to answer.
    Send(event.peer.value, {0, wire::ErrorReply{message.status()}});
    socket_->ReportHostile(event.peer);
  }

  void CarryOut(Now now) {
    bool had_records = !effects_.records.empty();
    bool was_waiting = runner_->waiting();
    Status status = runner_->CarryOut(&effects_);
    if (!status.ok()) {
      if (!was_waiting) next_retry_ns_ = now.ns + kStoreRetryNs;
      reactor_.OnStoreError(status, now);
    } else if (had_records) {
      reactor_.OnCommitted(now);
    }
  }

  void RetryStore(Now* now) {
    Status status = runner_->Retry();
    *now = ReadClocks();
    next_retry_ns_ = now->ns + kStoreRetryNs;
    if (status.ok()) {
      reactor_.OnCommitted(*now);
    } else {
      reactor_.OnStoreError(status, *now);
    }
  }

  void UpdateFigures(Now now) {
    next_figures_ns_ = now.ns + kFiguresIntervalNs;
    store::StoreStatistics store = records_->statistics();
    ServerFigures figures;
    figures.store_write_ms_p50 = store.write_ms_p50;
    figures.store_write_ms_p99 = store.write_ms_p99;
    figures.store_bytes = store.disk_bytes;
    figures.hostile_messages = socket_->counters().total();
    reactor_.SetServerFigures(figures);
    if (metrics_ == nullptr) return;
    Sender self{kOwnPeer, wire::Role::kOperator, "head"};
    if (!introduced_)
      reactor_.OnMessage(self, {1, wire::Hello{wire::Role::kOperator, "", "metrics"}}, now);
    introduced_ = true;
    reactor_.OnMessage(self, {2, wire::GetStatus{}}, now);
  }

  void Send(Peer peer, const wire::Message& message) {
    if (peer == kOwnPeer) {
      if (const auto* status = std::get_if<wire::StatusReply>(&message.body)) {
        metrics_->Update(*status, records_->statistics(), socket_->connections());
      }
      return;
    }
    Result<std::string> bytes = wire::Encode(message);
    if (!bytes.ok()) {
      log::Error("a message that does not fit", {{"error", bytes.status().ToString()}});
      if (message.request_id == 0) return;
      bytes = wire::Encode({message.request_id, wire::ErrorReply{bytes.status()}});
      if (!bytes.ok()) return;
    }
    // A peer that is gone is told about by Receive. One that does not read has missed something: it
    // must come back and say anew what it holds.
    if (socket_->Send(wire::PeerId{peer}, *bytes).code() == StatusCode::kResourceExhausted) {
      log::Warning("a peer does not read what it is sent: closing its connection",
                   {{"peer", peer}});
      socket_->Disconnect(wire::PeerId{peer});
    }
  }

  ServerOptions options_;
  Now started_;
  Effects effects_;
  Reactor reactor_;
  std::unique_ptr<FileLock> runtime_lock_;
  std::unique_ptr<store::RecordStore> records_;
  std::unique_ptr<store::CheckpointStore> checkpoints_;
  std::unique_ptr<wire::ServerSocket> socket_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<EffectRunner> runner_;
  bool published_ = false;
  bool introduced_ = false;  // kOwnPeer has said hello
  int64_t next_figures_ns_ = 0;
  int64_t next_retry_ns_ = 0;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::Start(ServerOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  PILLION_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

const wire::Endpoint& Server::endpoint() const { return impl_->endpoint(); }
int Server::metrics_port() const { return impl_->metrics_port(); }
void Server::Run(int stop_fd, ServiceNotifier* notifier) { impl_->Run(stop_fd, notifier); }

}  // namespace pillion::head
