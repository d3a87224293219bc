#include "worker/session.h"

#include <algorithm>

#include "api/wire/codec.h"
#include "base/clock.h"
#include "base/log.h"

namespace pillion::worker {
namespace {
constexpr int64_t kRepeatHelloNs = 10 * kNanosPerSecond;
}

Session::Session(wire::PeerOptions options, SessionListener* listener)
    : socket_(std::move(options)), listener_(listener) {}

void Session::Pump(int64_t now_ns) {
  while (auto event = socket_.Receive(now_ns)) {
    switch (event->kind) {
      case wire::PeerEvent::Kind::kConnected: SayHello(); break;
      case wire::PeerEvent::Kind::kLost: ready_ = false; break;
      case wire::PeerEvent::Kind::kRefused: ready_ = false; break;
      case wire::PeerEvent::Kind::kMessage: Receive(event->payload); break;
    }
  }
  if (socket_.connected() && !ready_ && now_ns - hello_sent_ns_ > kRepeatHelloNs) SayHello();
  LogStatus();
}

void Session::LogStatus() {
  std::string status = ready_ ? "ready" : socket_.connected() ? "" : socket_.connection_status().message();
  if (status.empty() || status == logged_) return;
  bool was_down = !logged_.empty() && logged_ != "ready";
  if (ready_ || !was_down) {  // while it is down the reason may change with every attempt: one line is enough
    logged_ = status;
    if (ready_) {
      log::Info("connected to the head");
    } else {
      log::Warning("no head now; tasks go on and it is tried again", {{"reason", status}});
    }
  }
}

void Session::SayHello() {
  ready_ = false;
  hello_request_ = next_request_++;
  hello_sent_ns_ = MonotonicNowNs();
  Send(hello_request_, listener_->MakeHello());
}

bool Session::Send(uint64_t request_id, wire::Body body) {
  auto bytes = wire::Encode({request_id, std::move(body)});
  if (!bytes.ok()) {
    log::Error("message to the head not sent", {{"error", bytes.status().ToString()}});
    return false;
  }
  Status status = socket_.Send(*bytes);
  return status.ok();
}

uint64_t Session::Ask(wire::Body body) {
  if (!ready_) return 0;
  uint64_t id = next_request_++;
  return Send(id, std::move(body)) ? id : 0;
}

bool Session::Tell(wire::Body body) { return ready_ && Send(0, std::move(body)); }

void Session::Receive(const std::string& payload) {
  auto message = wire::Decode(payload);
  if (!message.ok()) {
    log::Error("message from the head not understood", {{"error", message.status().ToString()}});
    return;
  }
  if (auto* welcome = std::get_if<wire::Welcome>(&message->body)) {
    if (message->request_id != hello_request_) return;
    ready_ = true;
    if (welcome->heartbeat_ms > 0) heartbeat_ms_ = welcome->heartbeat_ms;
    listener_->OnWelcome(*welcome);
    return;
  }
  if (auto* error = std::get_if<wire::ErrorReply>(&message->body)) {
    log::Warning("the head refused a message", {{"error", error->status.ToString()}});
    bool not_known = error->status.code() == StatusCode::kFailedPrecondition ||
                     error->status.code() == StatusCode::kStale;
    if (not_known && message->request_id != hello_request_ && ready_) SayHello();
    return;
  }
  listener_->OnMessage(std::move(*message));
}

}  // namespace pillion::worker
