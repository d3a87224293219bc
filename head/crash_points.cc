#include "head/crash_points.h"

#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

namespace pillion::head {

std::string_view DurableEffectName(DurableEffect effect) {
  switch (effect) {
    case DurableEffect::kSendNow:
      return "send-now";
    case DurableEffect::kPutHead:
      return "put-head";
    case DurableEffect::kPutJob:
      return "put-job";
    case DurableEffect::kPutSpecs:
      return "put-specs";
    case DurableEffect::kPutTask:
      return "put-task";
    case DurableEffect::kPutProfile:
      return "put-profile";
    case DurableEffect::kPutNested:
      return "put-nested";
    case DurableEffect::kDelete:
      return "delete";
    case DurableEffect::kSendAfterCommit:
      return "send-after-commit";
    case DurableEffect::kCleanTask:
      return "clean-task";
    case DurableEffect::kCleanJob:
      return "clean-job";
    case DurableEffect::kDisconnect:
      return "disconnect";
  }
  return "unknown";
}

DurableEffect EffectOf(const Record& record) {
  if (record.is_delete) return DurableEffect::kDelete;
  switch (record.kind) {
    case RecordKind::kHead:
      return DurableEffect::kPutHead;
    case RecordKind::kJob:
      return DurableEffect::kPutJob;
    case RecordKind::kSpecs:
      return DurableEffect::kPutSpecs;
    case RecordKind::kTask:
      return DurableEffect::kPutTask;
    case RecordKind::kProfile:
      return DurableEffect::kPutProfile;
    case RecordKind::kNested:
      return DurableEffect::kPutNested;
  }
  PILLION_CHECK(false, "a record kind without a crash point");
}

DurableEffect EffectOf(const Cleanup& cleanup) {
  return cleanup.whole_job ? DurableEffect::kCleanJob : DurableEffect::kCleanTask;
}

std::vector<std::string> AllCrashPoints() {
  std::vector<std::string> names;
  for (DurableEffect effect : kDurableEffects) {
    names.push_back("before-" + std::string(DurableEffectName(effect)));
    names.push_back("after-" + std::string(DurableEffectName(effect)));
  }
  return names;
}

Result<CrashPoints> CrashPoints::Parse(std::string_view text) {
  CrashPoints points;
  points.armed_ = true;
  size_t colon = text.find(':');
  std::string_view name = text.substr(0, colon);
  if (colon != std::string_view::npos) {
    std::string_view count = text.substr(colon + 1);
    auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), points.left_);
    if (error != std::errc() || end != count.data() + count.size() || points.left_ == 0) {
      return InvalidArgument("crash point '" + std::string(text) +
                             "': the count is no positive number");
    }
  }
  for (DurableEffect effect : kDurableEffects) {
    for (bool after : {false, true}) {
      if (name != (after ? "after-" : "before-") + std::string(DurableEffectName(effect))) continue;
      points.effect_ = effect;
      points.after_ = after;
      return points;
    }
  }
  return InvalidArgument("no crash point '" + std::string(name) +
                         "': see pillion-head --list-crash-points");
}

Result<CrashPoints> CrashPoints::FromEnvironment() {
  const char* text = std::getenv("PILLION_CRASH_AT");
  if (text == nullptr || *text == 0) return CrashPoints();
  Result<CrashPoints> points = Parse(text);
  return points.ok() ? points
                     : points.status().WithContext("environment variable PILLION_CRASH_AT");
}

void CrashPoints::ReachAll(const std::vector<Record>& records, bool after) {
  if (!armed_) return;
  for (const Record& record : records) {
    if (EffectOf(record) != effect_) continue;
    Reach(effect_, after);
    return;
  }
}

void CrashPoints::Count() {
  if (--left_ > 0) return;
  kill(getpid(), SIGKILL);
  while (true) pause();
}

}  // namespace pillion::head
