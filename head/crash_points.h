// Places at which the head can be made to die, for tests: before and after everything in Effects
// that the outside can notice. PILLION_CRASH_AT=<name> kills the process (SIGKILL) when it gets
// there; <name>:<n>, the n-th time. Without the variable a point costs one comparison.
#ifndef PILLION_HEAD_CRASH_POINTS_H_
#define PILLION_HEAD_CRASH_POINTS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "head/effects.h"

namespace pillion::head {

// One effect of a turn, as far as a crash around it can matter.
enum class DurableEffect : uint8_t {
  kSendNow,
  kPutHead,
  kPutJob,
  kPutSpecs,
  kPutTask,
  kPutProfile,
  kPutNested,
  kDelete,  // of any record
  kSendAfterCommit,
  kCleanTask,
  kCleanJob,
  kDisconnect,
};
inline constexpr std::array kDurableEffects = {
    DurableEffect::kSendNow,   DurableEffect::kPutHead,  DurableEffect::kPutJob,
    DurableEffect::kPutSpecs,  DurableEffect::kPutTask,  DurableEffect::kPutProfile,
    DurableEffect::kPutNested, DurableEffect::kDelete,   DurableEffect::kSendAfterCommit,
    DurableEffect::kCleanTask, DurableEffect::kCleanJob, DurableEffect::kDisconnect};

// "send-now", "put-job" … The points are "before-" and "after-" these.
std::string_view DurableEffectName(DurableEffect effect);
DurableEffect EffectOf(const Record& record);
DurableEffect EffectOf(const Cleanup& cleanup);

// All names, for `pillion-head --list-crash-points` and the test that visits each.
std::vector<std::string> AllCrashPoints();

class CrashPoints {
 public:
  CrashPoints() = default;  // never crashes
  // "<name>" or "<name>:<n>"; kInvalidArgument for an unknown name.
  static Result<CrashPoints> Parse(std::string_view text);
  // From PILLION_CRASH_AT.
  static Result<CrashPoints> FromEnvironment();

  void Before(DurableEffect effect) { Reach(effect, false); }
  void After(DurableEffect effect) { Reach(effect, true); }
  // Of each kind of record in the batch, once.
  void BeforeWrite(const std::vector<Record>& records) { ReachAll(records, false); }
  void AfterWrite(const std::vector<Record>& records) { ReachAll(records, true); }

 private:
  void Reach(DurableEffect effect, bool after) {
    if (armed_ && effect == effect_ && after == after_) Count();
  }
  void ReachAll(const std::vector<Record>& records, bool after);
  void Count();

  bool armed_ = false;
  bool after_ = false;
  DurableEffect effect_ = DurableEffect::kSendNow;
  uint64_t left_ = 1;
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_CRASH_POINTS_H_
