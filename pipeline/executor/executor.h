// Runs one rank of a compiled plan: its actions in order, on a module, over a transport, with the
// trainer's bubble edges on the board.
#ifndef PILLION_PIPELINE_EXECUTOR_EXECUTOR_H_
#define PILLION_PIPELINE_EXECUTOR_EXECUTOR_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "pillion/trainer.h"
#include "pipeline/executor/module.h"
#include "pipeline/executor/program.h"
#include "pipeline/executor/transport.h"

namespace pillion::executor {

struct ExecutorOptions {
  pillion_board* board = nullptr;     // may stay NULL; not owned
  int64_t join_timeout_ms = 120'000;  // for all ranks to come
  int64_t peer_timeout_ms = 60'000;   // for one message
};

struct ActionTrace {
  int64_t ready_ns = 0;  // the action before had ended
  int64_t start_ns = 0;  // its input was there
  int64_t end_ns = 0;
};

struct IterationTrace {
  uint64_t iteration = 0;
  bool quiet = false;                // no side task runs (the board's A/B)
  int64_t start_ns = 0;              // CLOCK_MONOTONIC
  int64_t end_ns = 0;                // after the optimiser's step
  std::vector<ActionTrace> actions;  // as in Program::instructions[rank]

  int64_t WaitNs() const;  // sum over actions of start - ready
};

// One thread. Program, module, transport and clock outlive it.
class Executor {
 public:
  Executor(const Program& program, Module* module, Transport* transport, const Clock& clock,
           const ExecutorOptions& options);

  Status Join();
  // One iteration. An error is told to all ranks, and names the rank that it came from; the run is
  // over then.
  Status RunIteration();
  void Leave();

  const IterationTrace& last() const { return trace_; }

  // What pillion_expect gets, before the first iteration.
  void Expect(const std::vector<uint32_t>& waits_us);

 private:
  Status RunActions();
  Status Await(const Instruction& instruction);
  Status Compute(const Instruction& instruction);
  void PassOn(const Instruction& instruction);
  uint32_t RoundOf(const Message& message) const;
  Buffer BufferOf(int32_t message);
  Status Failed(const Status& status, const std::string& what);

  const Program& program_;
  const int32_t rank_;
  const uint32_t waits_;
  Module* const module_;
  Transport* const transport_;
  const Clock& clock_;
  const ExecutorOptions options_;
  std::vector<std::vector<uint64_t>> local_;  // [slot] memory of the slots that stay on this rank
  uint64_t iteration_ = 0;
  bool failed_ = false;
  IterationTrace trace_;
};

}  // namespace pillion::executor

#endif  // PILLION_PIPELINE_EXECUTOR_EXECUTOR_H_
