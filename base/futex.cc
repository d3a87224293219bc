#include "base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <ctime>

#include "base/clock.h"

namespace pillion {
namespace {

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

// The kernel's struct futex_waitv, which older headers lack.
struct WaitV {
  uint64_t value;
  uint64_t address;
  uint32_t flags;
  uint32_t reserved;
};
constexpr uint32_t kFutex32 = 2;  // FUTEX_32

timespec ToTimespec(int64_t ns) {
  return {static_cast<time_t>(ns / kNanosPerSecond), static_cast<long>(ns % kNanosPerSecond)};
}

}  // namespace

bool FutexWait(const std::atomic<uint32_t>* word, uint32_t seen, int64_t deadline_ns) {
  timespec deadline{};
  timespec* limit = nullptr;
  if (deadline_ns != kNoDeadline) {
    deadline = ToTimespec(std::max<int64_t>(deadline_ns, 0));
    limit = &deadline;
  }
  // FUTEX_WAIT_BITSET takes an absolute CLOCK_MONOTONIC deadline.
  long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET, seen, limit, nullptr, FUTEX_BITSET_MATCH_ANY);
  return !(result != 0 && errno == ETIMEDOUT);
}

bool FutexWaitEither(const std::atomic<uint32_t>* first, uint32_t first_seen, const std::atomic<uint32_t>* second,
                     uint32_t second_seen, int64_t deadline_ns) {
  WaitV waiters[2] = {{first_seen, reinterpret_cast<uint64_t>(first), kFutex32, 0},
                      {second_seen, reinterpret_cast<uint64_t>(second), kFutex32, 0}};
  timespec deadline = ToTimespec(std::max<int64_t>(deadline_ns, 0));
  timespec* limit = deadline_ns == kNoDeadline ? nullptr : &deadline;
  long result = syscall(SYS_futex_waitv, waiters, 2u, 0u, limit, CLOCK_MONOTONIC);
  if (result >= 0) return true;
  if (errno == ETIMEDOUT) return false;
  if (errno != ENOSYS) return true;  // a word has changed already, or a signal came
  int64_t now = MonotonicNowNs();
  if (now >= deadline_ns) return false;
  FutexWait(first, first_seen, std::min(deadline_ns, now + kNanosPerMilli));
  return true;
}

void FutexWakeAll(const std::atomic<uint32_t>* word) {
  syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace pillion
