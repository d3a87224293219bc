// Announcer: tells a worker what bubbles and memory its device offers, before or without a board. For launchers,
// planners, and trainers in other containers.
//
// The worker listens on a socket of its own; its endpoint lies in the runtime directory as worker-<device>.endpoint and
// it lets in whoever the allow-list names. There is no hello: each message is a wire::Announce with a request id,
// answered by a CountReply (1: taken) or an ErrorReply.
#ifndef PILLION_ANNOUNCER_H_
#define PILLION_ANNOUNCER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "api/wire/messages.h"
#include "base/status.h"

namespace pillion {

struct AnnouncerOptions {
  std::string runtime_directory;  // empty: DefaultRuntimeDirectory()
  std::string device;             // "cpu0", "cuda1"
  std::string key_file;           // instead of <runtime_directory>/client.key
  int64_t timeout_ms = 5'000;
};

class Announcer {
 public:
  // kUnavailable, naming endpoint or file, when the worker cannot be reached.
  static Result<Announcer> Connect(AnnouncerOptions options);
  Announcer(Announcer&&) noexcept;
  Announcer& operator=(Announcer&&) noexcept;
  ~Announcer();

  // Returns when the worker has taken it. The latest announcement counts.
  Status Announce(const wire::Capacity& capacity);

 private:
  class Impl;
  explicit Announcer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pillion

#endif  // PILLION_ANNOUNCER_H_
