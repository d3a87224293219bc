// Time. Everything that decides something takes a Clock or a `now` argument; only main() makes a SystemClock.
#ifndef PILLION_BASE_CLOCK_H_
#define PILLION_BASE_CLOCK_H_

#include <cstdint>
#include <string>

namespace pillion {

inline constexpr int64_t kNanosPerMicro = 1000;
inline constexpr int64_t kNanosPerMilli = 1000 * 1000;
inline constexpr int64_t kNanosPerSecond = 1000 * 1000 * 1000;

// CLOCK_MONOTONIC, nanoseconds; the same in all processes of a host. The trainer's edges are stamped with it.
int64_t MonotonicNowNs();
// Wall clock for people only (logs, reports); nothing decides by it. Nanoseconds since 1970.
int64_t WallNowNs();
std::string FormatIso8601Utc(int64_t wall_ns);  // 2026-01-31T12:34:56.789Z

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t NowNs() const = 0;  // monotonic
};

class SystemClock final : public Clock {
 public:
  int64_t NowNs() const override { return MonotonicNowNs(); }
};

// For tests: moves only when told. Not thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t now_ns = 0) : now_ns_(now_ns) {}
  int64_t NowNs() const override { return now_ns_; }
  void Advance(int64_t ns) { now_ns_ += ns; }
  void Set(int64_t now_ns) { now_ns_ = now_ns; }

 private:
  int64_t now_ns_;
};

}  // namespace pillion

#endif  // PILLION_BASE_CLOCK_H_
