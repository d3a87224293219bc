// Ids: one type per kind, so that they cannot be mixed. 128 random bits, made by whoever creates the thing,
// never reused. A task is (job, index); an array of n tasks occupies n consecutive indices.
#ifndef PILLION_BASE_IDS_H_
#define PILLION_BASE_IDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/status.h"

namespace pillion {

// Two words of the operating system's randomness.
void RandomWords(uint64_t* high, uint64_t* low);
std::string FormatId128(uint64_t high, uint64_t low);  // 32 lower-case hexadecimal digits
bool ParseId128(std::string_view text, uint64_t* high, uint64_t* low);

template <typename Tag>
struct Id128 {
  uint64_t high = 0;
  uint64_t low = 0;

  static Id128 Random() {
    Id128 id;
    RandomWords(&id.high, &id.low);
    return id;
  }
  // 32 hexadecimal digits, or kInvalidArgument naming the text.
  static Result<Id128> Parse(std::string_view text) {
    Id128 id;
    if (!ParseId128(text, &id.high, &id.low)) {
      return InvalidArgument("'" + std::string(text) + "' is no id: 32 hexadecimal digits are expected");
    }
    return id;
  }
  bool IsZero() const { return high == 0 && low == 0; }
  std::string ToString() const { return FormatId128(high, low); }
  friend bool operator==(const Id128& a, const Id128& b) { return a.high == b.high && a.low == b.low; }
  friend bool operator!=(const Id128& a, const Id128& b) { return !(a == b); }
  friend bool operator<(const Id128& a, const Id128& b) {
    return std::tie(a.high, a.low) < std::tie(b.high, b.low);
  }
};

using JobId = Id128<struct JobIdTag>;
using WorkerId = Id128<struct WorkerIdTag>;

struct TaskId {
  JobId job;
  uint32_t index = 0;

  std::string ToString() const { return job.ToString() + "." + std::to_string(index); }
  // "<32 hexadecimal digits>.<index>".
  static Result<TaskId> Parse(std::string_view text);
  friend bool operator==(const TaskId& a, const TaskId& b) { return a.job == b.job && a.index == b.index; }
  friend bool operator!=(const TaskId& a, const TaskId& b) { return !(a == b); }
  friend bool operator<(const TaskId& a, const TaskId& b) {
    return std::tie(a.job, a.index) < std::tie(b.job, b.index);
  }
};

// Fencing number of a lease: grows by one with every grant of the task; 0 = never granted.
using Epoch = uint64_t;
// Steps of a task that are done.
using Step = uint64_t;

}  // namespace pillion

template <typename Tag>
struct std::hash<pillion::Id128<Tag>> {
  size_t operator()(const pillion::Id128<Tag>& id) const noexcept {
    return static_cast<size_t>(id.high ^ (id.low * 0x9E3779B97F4A7C15ull));
  }
};
template <>
struct std::hash<pillion::TaskId> {
  size_t operator()(const pillion::TaskId& id) const noexcept {
    return std::hash<pillion::JobId>()(id.job) ^ (size_t{id.index} * 0xC2B2AE3D27D4EB4Full);
  }
};

#endif  // PILLION_BASE_IDS_H_
