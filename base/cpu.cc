#include "base/cpu.h"

#include <sched.h>
#include <unistd.h>

namespace pillion {

int OnlineCores() { return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)); }

Status PinThisThread(int core) {
  if (core < 0 || core >= OnlineCores()) {
    return InvalidArgument("there is no core " + std::to_string(core) + ": this machine has " +
                           std::to_string(OnlineCores()));
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) return ErrnoStatus("pin to core " + std::to_string(core));
  return Status::Ok();
}

Status SetSchedulingClass(SchedulingClass scheduling_class) {
  sched_param parameters{};
  int policy = scheduling_class == SchedulingClass::kIdle ? SCHED_IDLE : SCHED_OTHER;
  if (sched_setscheduler(0, policy, &parameters) != 0) return ErrnoStatus("set scheduling class");
  return Status::Ok();
}

}  // namespace pillion
