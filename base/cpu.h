// Cores and scheduling classes of the calling thread.
#ifndef PILLION_BASE_CPU_H_
#define PILLION_BASE_CPU_H_

#include "base/status.h"

namespace pillion {

int OnlineCores();
// Pins the calling thread (and threads it makes later). kInvalidArgument when there is no such core.
Status PinThisThread(int core);

// Host-side work beside a trainer runs in SCHED_IDLE; steps run in SCHED_OTHER at the trainer's own priority.
// The kernel knows "idle" only within one scheduling group: across sessions (kernel.sched_autogroup_enabled = 1) or
// cgroups with a cpu controller an idle thread gets a full share (measured: 50 %). So hosts stay in their worker's
// session (setpgid, never setsid), and on cpu devices worker and trainer are started in one session or cgroup.
// Leaving SCHED_IDLE needs no privilege on Linux ≥ 2.6.39 while RLIMIT_NICE permits nice 0 (it does).
enum class SchedulingClass { kNormal, kIdle };
Status SetSchedulingClass(SchedulingClass scheduling_class);

// Sets the class for a scope and restores SCHED_OTHER at its end.
class IdleScope {
 public:
  IdleScope() { (void)SetSchedulingClass(SchedulingClass::kIdle); }
  ~IdleScope() { (void)SetSchedulingClass(SchedulingClass::kNormal); }
  IdleScope(const IdleScope&) = delete;
  IdleScope& operator=(const IdleScope&) = delete;
};

}  // namespace pillion

#endif  // PILLION_BASE_CPU_H_
