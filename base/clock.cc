#include "base/clock.h"

#include <cstdio>
#include <ctime>

namespace pillion {
namespace {
int64_t Read(clockid_t id) {
  timespec time{};
  clock_gettime(id, &time);
  return int64_t{time.tv_sec} * kNanosPerSecond + time.tv_nsec;
}
}  // namespace

int64_t MonotonicNowNs() { return Read(CLOCK_MONOTONIC); }
int64_t WallNowNs() { return Read(CLOCK_REALTIME); }

std::string FormatIso8601Utc(int64_t wall_ns) {
  time_t seconds = wall_ns / kNanosPerSecond;
  tm parts{};
  gmtime_r(&seconds, &parts);
  char text[80];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", parts.tm_year + 1900,
                parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                static_cast<int>(wall_ns % kNanosPerSecond / kNanosPerMilli));
  return text;
}

}  // namespace pillion
