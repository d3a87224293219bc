// Futexes on words in memory shared between processes. Waits work on read-only mappings too.
#ifndef PILLION_BASE_FUTEX_H_
#define PILLION_BASE_FUTEX_H_

#include <atomic>
#include <cstdint>

namespace pillion {

inline constexpr int64_t kNoDeadline = INT64_MAX;

// Sleeps until `word` is no longer `seen`, somebody wakes it, or CLOCK_MONOTONIC passes `deadline_ns`. Spurious
// returns happen: callers check their condition again. Returns false only when the deadline passed.
bool FutexWait(const std::atomic<uint32_t>* word, uint32_t seen, int64_t deadline_ns = kNoDeadline);

// The same on two words at once: returns when either changes or is woken (futex_waitv; on kernels before 5.16
// it waits on the first in turns of a millisecond).
bool FutexWaitEither(const std::atomic<uint32_t>* first, uint32_t first_seen, const std::atomic<uint32_t>* second,
                     uint32_t second_seen, int64_t deadline_ns = kNoDeadline);

void FutexWakeAll(const std::atomic<uint32_t>* word);

}  // namespace pillion

#endif  // PILLION_BASE_FUTEX_H_
