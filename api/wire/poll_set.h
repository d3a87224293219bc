// One stable descriptor that is readable when any of several is, when a timer ran out, or when told so. It gives
// libzmq's edge-triggered descriptors level semantics: the owner signals while it may have more to give.
#ifndef PILLION_API_WIRE_POLL_SET_H_
#define PILLION_API_WIRE_POLL_SET_H_

#include <poll.h>

#include <cstdint>
#include <functional>
#include <span>

#include "base/file.h"

namespace pillion::wire {

class PollSet {
 public:
  PollSet();
  bool valid() const { return epoll_.valid() && event_.valid() && timer_.valid(); }
  int fd() const { return epoll_.get(); }

  void Add(int fd);
  void Remove(int fd);
  void Signal();  // readable until ClearSignal; cheap when it is so already
  void ClearSignal();
  // Readable from that monotonic instant on; INT64_MAX: never. Replaces the earlier instant.
  void SetTimer(int64_t at_ns);

  // Sleeps until `ready()` holds, a descriptor of `others` is ready or time is up; returns ready()'s last answer.
  // `ready` is asked after every wake-up and has to make libzmq's sockets process their commands.
  bool Wait(int64_t timeout_ms, std::span<pollfd> others, const std::function<bool()>& ready);

 private:
  FileDescriptor epoll_;
  FileDescriptor event_;
  FileDescriptor timer_;
  bool signalled_ = false;
  int64_t timer_ns_ = INT64_MAX;
};

}  // namespace pillion::wire

#endif  // PILLION_API_WIRE_POLL_SET_H_
