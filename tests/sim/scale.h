// The scale run: one head, thousands of workers, a million tasks in virtual time, without faults.
#ifndef PILLION_TESTS_SIM_SCALE_H_
#define PILLION_TESTS_SIM_SCALE_H_

#include <cstdint>
#include <string>

namespace pillion::sim {

struct ScaleOptions {
  uint32_t workers = 10'000;
  uint32_t tasks = 1'000'000;
  uint32_t slots = 8;              // tasks that a worker runs at once
  uint32_t task_ms = 2'000;        // on average; between a half and one and a half of it
};

struct ScaleResult {
  uint64_t finished = 0;
  double virtual_s = 0, ideal_s = 0;   // ideal: all slots busy all the time
  double head_cpu_s = 0;               // real time in the reactor
  double head_cpu_us_per_task = 0;
  double submit_tasks_per_s = 0;       // by head CPU, submission alone
  double dispatch_ms_p50 = 0, dispatch_ms_p99 = 0;  // virtual: room asked for → grant received, while tasks were queued
  double turn_ms_p99 = 0, turn_ms_max = 0;          // real
  double balance = 0;                  // most tasks that a worker got / average
  uint64_t records = 0, record_bytes = 0;
  uint64_t queued_rss_bytes = 0;       // what the head grew by for all tasks queued
  double restart_s = 0;                // of a head with all tasks queued: reading the records from memory
  std::string error;                   // empty: everything ended
};

ScaleResult RunScale(const ScaleOptions& options);

}  // namespace pillion::sim

#endif  // PILLION_TESTS_SIM_SCALE_H_
