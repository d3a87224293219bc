#include "api/client/connection.h"

#include <algorithm>

#include "api/wire/codec.h"
#include "base/clock.h"

namespace pillion {

Connection::Connection(wire::PeerOptions options, std::optional<wire::Hello> hello)
    : socket_(std::move(options)), hello_(std::move(hello)) {}

Status Connection::NotReady() const {
  if (!fatal_.ok()) return fatal_;
  Status status = socket_.connection_status();
  if (status.ok()) return Unavailable("the server accepted the connection but does not answer");
  return status;
}

void Connection::OnConnected() {
  ready_ = false;
  unsent_.clear();
  for (const auto& [id, pending] : pending_) {
    if (!pending.reply) unsent_.push_back(id);
  }
  if (!hello_) {
    ready_ = true;
    return SendUnsent();
  }
  hello_id_ = next_id_++;
  auto bytes = wire::Encode({hello_id_, *hello_});
  Status sent = bytes.ok() ? socket_.Send(*bytes) : bytes.status();
  if (!sent.ok() && sent.code() != StatusCode::kUnavailable) fatal_ = sent;
}

void Connection::SendUnsent() {
  while (ready_ && !unsent_.empty()) {
    auto found = pending_.find(unsent_.front());
    if (found != pending_.end() && !socket_.Send(found->second.bytes).ok()) return;  // tried again after a pump
    unsent_.pop_front();
  }
}

void Connection::OnMessage(const std::string& payload) {
  auto message = wire::Decode(payload);
  if (!message.ok()) {
    // A server of another version, or none of ours: what it says will not get better.
    fatal_ = message.status().WithContext("reply of the server");
    return;
  }
  Result<wire::Body> body = std::move(message->body);
  if (auto* error = std::get_if<wire::ErrorReply>(&*body)) {
    Status status = error->status.ok() ? Internal("an error without a code") : error->status;
    body = std::move(status);
  }
  if (message->request_id == hello_id_ && hello_id_ != 0) {
    auto welcome = Expect<wire::Welcome>(std::move(body));
    if (!welcome.ok()) {
      fatal_ = welcome.status();
      return;
    }
    welcome_ = std::move(*welcome);
    ready_ = true;
    return;
  }
  auto found = pending_.find(message->request_id);
  if (found != pending_.end()) found->second.reply = std::move(body);
}

void Connection::Pump(int64_t now_ns) {
  while (auto event = socket_.Receive(now_ns)) {
    switch (event->kind) {
      case wire::PeerEvent::Kind::kConnected: OnConnected(); break;
      case wire::PeerEvent::Kind::kLost:
        ready_ = false;
        hello_id_ = 0;
        break;
      case wire::PeerEvent::Kind::kRefused: fatal_ = PermissionDenied(event->payload); break;
      case wire::PeerEvent::Kind::kMessage: OnMessage(event->payload); break;
    }
  }
  SendUnsent();
}

Status Connection::WaitUntilReady(int64_t deadline_ns) {
  for (;;) {
    const int64_t now_ns = MonotonicNowNs();
    Pump(now_ns);
    if (ready_) return Status();
    if (!fatal_.ok()) return fatal_;
    if (now_ns >= deadline_ns) return NotReady();
    socket_.Wait(std::max<int64_t>(1, (deadline_ns - now_ns) / kNanosPerMilli));
  }
}

uint64_t Connection::Start(wire::Body body) {
  const uint64_t id = next_id_++;
  Pending& pending = pending_[id];
  auto bytes = wire::Encode({id, std::move(body)});
  if (!bytes.ok()) {
    pending.reply = bytes.status();
    return id;
  }
  pending.bytes = std::move(*bytes);
  unsent_.push_back(id);
  SendUnsent();
  return id;
}

Result<wire::Body> Connection::Finish(uint64_t request, int64_t deadline_ns) {
  for (;;) {
    const int64_t now_ns = MonotonicNowNs();
    Pump(now_ns);
    auto found = pending_.find(request);
    PILLION_CHECK(found != pending_.end(), "a request is finished once");
    Status failed;
    if (found->second.reply) {
      Result<wire::Body> reply = std::move(*found->second.reply);
      pending_.erase(found);
      return reply;
    } else if (!fatal_.ok()) {
      failed = fatal_;
    } else if (now_ns >= deadline_ns) {
      failed = ready_ ? DeadlineExceeded("no reply in time; the request may or may not have been carried out")
                      : NotReady();
    }
    if (!failed.ok()) {
      pending_.erase(found);
      return failed;
    }
    int64_t sleep_ms = std::max<int64_t>(1, (deadline_ns - now_ns) / kNanosPerMilli);
    // Nothing wakes us when a full send queue gets room.
    if (ready_ && !unsent_.empty()) sleep_ms = std::min<int64_t>(sleep_ms, 5);
    socket_.Wait(sleep_ms);
  }
}

}  // namespace pillion
