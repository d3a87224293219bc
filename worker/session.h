// The worker's conversation with the head: hello after every connection, messages both ways. What must not get lost
// is kept by whoever sent it and sent again after OnWelcome.
//
// One thread.
#ifndef PILLION_WORKER_SESSION_H_
#define PILLION_WORKER_SESSION_H_

#include <cstdint>

#include "api/wire/messages.h"
#include "api/wire/transport.h"

namespace pillion::worker {

class SessionListener {
 public:
  virtual ~SessionListener() = default;
  virtual wire::WorkerHello MakeHello() = 0;
  virtual void OnWelcome(const wire::Welcome& welcome) = 0;
  virtual void OnMessage(wire::Message message) = 0;
};

// Where reports go.
class Uplink {
 public:
  virtual ~Uplink() = default;
  virtual bool ready() const = 0;
  // The request id that the answer will repeat; 0: not sent, there is no head now.
  virtual uint64_t Ask(wire::Body body) = 0;
  // For what nobody answers.
  virtual bool Tell(wire::Body body) = 0;
};

class Session final : public Uplink {
 public:
  Session(wire::PeerOptions options, SessionListener* listener);

  int poll_fd() const { return socket_.poll_fd(); }
  int64_t next_wake_ns() const { return socket_.next_attempt_ns(); }
  void Pump(int64_t now_ns);

  bool ready() const override { return ready_; }
  uint64_t Ask(wire::Body body) override;
  bool Tell(wire::Body body) override;
  int64_t heartbeat_ms() const { return heartbeat_ms_; }

 private:
  bool Send(uint64_t request_id, wire::Body body);
  void SayHello();
  void Receive(const std::string& payload);
  void LogStatus();

  wire::PeerSocket socket_;
  SessionListener* const listener_;
  bool ready_ = false;
  uint64_t next_request_ = 1;
  uint64_t hello_request_ = 0;
  int64_t hello_sent_ns_ = 0;
  int64_t heartbeat_ms_ = 2'000;
  std::string logged_;
};

}  // namespace pillion::worker

#endif  // PILLION_WORKER_SESSION_H_
