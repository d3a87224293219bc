// Requests and replies over a PeerSocket, for Client and Announcer. Requests that a lost connection left unanswered are
// sent again on the next one: every request may be repeated. Not thread-safe.
#ifndef PILLION_API_CLIENT_CONNECTION_H_
#define PILLION_API_CLIENT_CONNECTION_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "api/wire/messages.h"
#include "api/wire/transport.h"
#include "base/status.h"

namespace pillion {

class Connection {
 public:
  // `hello` is the first message of every connection; none for servers that expect none.
  Connection(wire::PeerOptions options, std::optional<wire::Hello> hello);

  // Waits for the first (or next) connection that has been welcomed. kUnavailable names the endpoint and the last
  // failure; kPermissionDenied, kUnsupported: no use to try again.
  Status WaitUntilReady(int64_t deadline_ns);

  // Sends now or as soon as there is a connection. Never blocks.
  uint64_t Start(wire::Body body);
  // The reply to a started request; forgets it. An ErrorReply becomes its status. kUnavailable when there is no
  // connection at the deadline, kDeadlineExceeded when there is one.
  Result<wire::Body> Finish(uint64_t request, int64_t deadline_ns);
  Result<wire::Body> Request(wire::Body body, int64_t deadline_ns) { return Finish(Start(std::move(body)), deadline_ns); }
  // The same, expecting one kind of reply.
  template <typename Reply>
  Result<Reply> Ask(wire::Body body, int64_t deadline_ns) {
    return Expect<Reply>(Request(std::move(body), deadline_ns));
  }
  template <typename Reply>
  static Result<Reply> Expect(Result<wire::Body> body) {
    if (!body.ok()) return body.status();
    if (Reply* reply = std::get_if<Reply>(&*body)) return std::move(*reply);
    return Internal("the reply is of another kind than the request wants: number " + std::to_string(body->index()));
  }

  bool ready() const { return ready_; }
  const wire::Welcome& welcome() const { return welcome_; }

 private:
  struct Pending {
    std::string bytes;
    std::optional<Result<wire::Body>> reply;
  };

  void Pump(int64_t now_ns);
  void OnMessage(const std::string& payload);
  void OnConnected();
  void SendUnsent();
  Status NotReady() const;

  wire::PeerSocket socket_;
  const std::optional<wire::Hello> hello_;
  std::map<uint64_t, Pending> pending_;
  std::deque<uint64_t> unsent_;
  uint64_t next_id_ = 1;
  uint64_t hello_id_ = 0;  // of the present connection; 0: none
  bool ready_ = false;
  Status fatal_;  // trying again would not help
  wire::Welcome welcome_;
};

}  // namespace pillion

#endif  // PILLION_API_CLIENT_CONNECTION_H_
