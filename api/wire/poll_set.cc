#include "api/wire/poll_set.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace pillion::wire {

PollSet::PollSet()
    : epoll_(epoll_create1(EPOLL_CLOEXEC)),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (!valid()) return;
  Add(event_.get());
  Add(timer_.get());
}

void PollSet::Add(int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
}

void PollSet::Remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void PollSet::Signal() {
  if (signalled_) return;
  signalled_ = true;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t written = write(event_.get(), &one, sizeof one);
}

void PollSet::ClearSignal() {
  if (!signalled_) return;
  signalled_ = false;
  uint64_t count;
  [[maybe_unused]] ssize_t got = read(event_.get(), &count, sizeof count);
}

void PollSet::SetTimer(int64_t at_ns) {
  if (at_ns == timer_ns_) return;
  timer_ns_ = at_ns;
  itimerspec spec{};  // all zero: disarmed
  if (at_ns != INT64_MAX) {
    at_ns = std::max<int64_t>(at_ns, 1);
    spec.it_value.tv_sec = at_ns / kNanosPerSecond;
    spec.it_value.tv_nsec = at_ns % kNanosPerSecond;
  }
  timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &spec, nullptr);
}

bool PollSet::Wait(int64_t timeout_ms, std::span<pollfd> others, const std::function<bool()>& ready) {
  const int64_t end_ns =
      timeout_ms < 0 ? INT64_MAX : MonotonicNowNs() + timeout_ms * kNanosPerMilli;
  std::vector<pollfd> all(others.begin(), others.end());
  all.push_back({fd(), POLLIN, 0});
  bool is_ready = ready();
  for (;;) {
    int64_t left_ms = -1;
    if (is_ready) {
      left_ms = 0;  // still look at the others
    } else if (end_ns != INT64_MAX) {
      left_ms = std::max<int64_t>(0, (end_ns - MonotonicNowNs() + kNanosPerMilli - 1) / kNanosPerMilli);
      left_ms = std::min<int64_t>(left_ms, INT32_MAX);
    }
    int count = poll(all.data(), all.size(), static_cast<int>(left_ms));
    bool other = false;
    for (size_t i = 0; i < others.size(); ++i) {
      others[i].revents = count > 0 ? all[i].revents : 0;
      other = other || others[i].revents != 0;
    }
    is_ready = is_ready || ready();
    // A signal handler may want the loop to look around, so an interrupted sleep ends too.
    if (is_ready || other || count < 0 || left_ms == 0) return is_ready;
  }
}

}  // namespace pillion::wire
