#include "api/wire/messages.h"

namespace pillion::wire {

std::string_view TaskStateName(TaskState state) {
  switch (state) {
    case TaskState::kWaiting: return "waiting";
    case TaskState::kQueued: return "queued";
    case TaskState::kLeased: return "leased";
    case TaskState::kSucceeded: return "succeeded";
    case TaskState::kFailed: return "failed";
    case TaskState::kCancelled: return "cancelled";
    case TaskState::kSkipped: return "skipped";
  }
  return "unknown";
}

std::string_view HostStateName(HostState state) {
  switch (state) {
    case HostState::kNone: return "none";
    case HostState::kCreated: return "created";
    case HostState::kPaused: return "paused";
    case HostState::kRunning: return "running";
    case HostState::kStopped: return "stopped";
  }
  return "unknown";
}

std::string_view ReleaseCauseName(ReleaseCause cause) {
  switch (cause) {
    case ReleaseCause::kAppFailure: return "app_failure";
    case ReleaseCause::kWorkerLost: return "worker_lost";
    case ReleaseCause::kOutOfMemory: return "out_of_memory";
    case ReleaseCause::kPreempted: return "preempted";
    case ReleaseCause::kPlannedMove: return "planned_move";
    case ReleaseCause::kHostLost: return "host_lost";
  }
  return "unknown";
}

}  // namespace pillion::wire
