// A real pillion-head and peers that talk to it, for end-to-end tests. Everything waits for
// conditions with a deadline.
#ifndef PILLION_TESTS_E2E_HEAD_PROCESS_H_
#define PILLION_TESTS_E2E_HEAD_PROCESS_H_

#include <sys/types.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/wire/messages.h"
#include "api/wire/transport.h"

namespace pillion::testing {

constexpr int64_t kPatienceMs = 30'000;

class TestDirectory {
 public:
  TestDirectory();
  ~TestDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// How a process ended.
struct Exit {
  int code = -1;  // -1: by a signal
  int signal = 0;
  std::string output;  // stdout and stderr
};

class HeadProcess {
 public:
  // Runs <bin>/pillion-head with these arguments and additional environment variables.
  HeadProcess(std::vector<std::string> arguments,
              std::map<std::string, std::string> environment = {});
  ~HeadProcess();  // kills what still runs

  pid_t pid() const { return pid_; }
  bool Running();
  void Signal(int signal);
  // Waits for the end, at most kPatienceMs; then it is killed and the code is -1.
  Exit Wait();
  // Until <runtime>/head.endpoint names this process's address; false when it ended or time is up.
  bool WaitUntilServing(const std::string& runtime_directory);
  std::string Output() const;

 private:
  pid_t pid_ = -1;
  std::optional<int> status_;
  std::string output_path_;
};

// A peer in one role. It says `hello` at the beginning of every connection.
class TestPeer {
 public:
  TestPeer(const std::string& runtime_directory, wire::Role role, wire::Body hello);
  // A client or operator.
  TestPeer(const std::string& runtime_directory, wire::Role role);

  // Sends until connected and answered; nothing when the deadline passes. Replies to other requests
  // and messages that answer nothing are kept in `unasked`.
  std::optional<wire::Body> Ask(wire::Body request, int64_t patience_ms = kPatienceMs);
  template <typename Reply, typename Request>
  std::optional<Reply> Call(Request request, int64_t patience_ms = kPatienceMs) {
    std::optional<wire::Body> body = Ask(std::move(request), patience_ms);
    if (!body) return std::nullopt;
    if (auto* reply = std::get_if<Reply>(&*body)) return std::move(*reply);
    if (auto* error = std::get_if<wire::ErrorReply>(&*body)) last_error = error->status;
    return std::nullopt;
  }
  // Sends without waiting.
  Status Tell(wire::Body message);
  // Receives until something of this kind has come unasked, or the deadline passes.
  template <typename Message>
  std::optional<Message> WaitFor(int64_t patience_ms = kPatienceMs) {
    const int64_t end_ns = DeadlineNs(patience_ms);
    while (true) {
      for (auto at = unasked.begin(); at != unasked.end(); ++at) {
        if (!std::holds_alternative<Message>(at->body)) continue;
        Message found = std::move(std::get<Message>(at->body));
        unasked.erase(at);
        return found;
      }
      if (!Pump(end_ns)) return std::nullopt;
    }
  }
  // Receives what is there; waits up to `patience_ms` for something.
  void Receive(int64_t patience_ms);

  wire::Body hello;
  std::optional<wire::Welcome> welcome;  // the last one
  std::deque<wire::Message> unasked;
  Status last_error;  // of the last Call that got one
  uint64_t connections = 0;

 private:
  static int64_t DeadlineNs(int64_t patience_ms);
  // Receives what is there, or waits for something. False after the deadline.
  bool Pump(int64_t end_ns);

  std::unique_ptr<wire::PeerSocket> socket_;
  uint64_t next_request_ = 1;
};

// A job of `tasks` independent steps tasks of program "test.program".
wire::SubmitChunk MakeJob(uint32_t tasks, const JobId& id = JobId::Random());

}  // namespace pillion::testing

#endif  // PILLION_TESTS_E2E_HEAD_PROCESS_H_
