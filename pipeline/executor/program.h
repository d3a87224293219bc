// A plan, compiled for execution: who computes what in which order, which messages go between
// stages, and in which buffers. Everything that could block is decided here, before anything runs.
//
//  * Messages. Each boundary between consecutive stages carries, per micro-batch, one activation
//  forwards and one
//    gradient back. A message is written by the action that makes it and read by the action that
//    needs it; SEND and RECV actions of the plan are left out, because that order already says
//    everything.
//  * Slots. A message lives in a slot, a buffer of one boundary and direction. It may reuse a slot
//  only when the plan
//    itself orders the reader of the slot's last message before the writer of this one. So within
//    an iteration no writer ever waits for a free buffer, however the timing falls, and with the
//    one global order (a topological order of all actions) no set of ranks can wait in a circle.
//  * Waits. An action whose input may arrive later than the rank is free (under some timing) marks
//  a wait: one
//    bubble slot of the trainer's board, every iteration, even when its length is 0. An input that
//    is always there marks none. The first use of a slot in an iteration may have to wait for its
//    reader in the iteration before; then that action marks a wait as well.
#ifndef PILLION_PIPELINE_EXECUTOR_PROGRAM_H_
#define PILLION_PIPELINE_EXECUTOR_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "pipeline/plan.h"

namespace pillion::executor {

inline constexpr int32_t kNoMessage = -1;

struct Slot {
  int32_t from_rank = 0;
  int32_t to_rank = 0;
  size_t bytes = 0;
  uint32_t uses = 0;  // messages of one iteration that go through it, one after the other
  bool IsLocal() const { return from_rank == to_rank; }
};

struct Message {
  int32_t from_stage = 0;
  int32_t to_stage = 0;  // from_stage + 1: an activation; from_stage - 1: a gradient
  int32_t microbatch = 0;
  int32_t slot = 0;
  uint32_t use = 0;  // which of the slot's uses within an iteration
  // The reader and the writer: (rank, index in instructions).
  int32_t from_rank = 0, from_index = 0;
  int32_t to_rank = 0, to_index = 0;
};

struct Instruction {
  pipeline::Action action;      // F, I, W or B
  int32_t input = kNoMessage;   // message that it reads
  int32_t output = kNoMessage;  // message that it writes
  bool marks_wait = false;
};

struct ActionPlace {
  int32_t rank = 0;
  int32_t index = 0;
};

struct Program {
  int32_t ranks = 0;
  int32_t stages = 0;
  int32_t microbatches = 0;
  std::vector<Message> messages;
  std::vector<Slot> slots;
  std::vector<std::vector<Instruction>> instructions;  // [rank]
  std::vector<ActionPlace> global_order;               // all actions, inputs before readers

  uint32_t WaitsOf(int32_t rank) const;  // marked waits of one iteration
  // Of everything that the ranks have to agree on.
  uint64_t Fingerprint() const;
};

// `boundary_bytes[s]`: bytes of the activation that stage s passes to stage s + 1, and of its
// gradient, per micro-batch (one entry per stage but the last). kUnsupported for plans with two
// weight copies or split stages, by name; kInvalidArgument for missing, double or misplaced
// actions; kFailedPrecondition, with the circle of actions that wait for each other, for a plan
// that cannot complete.
Result<Program> Compile(const pipeline::Plan& plan, const std::vector<size_t>& boundary_bytes);

// Length of every marked wait of `rank`, in order, once the pipeline is in its rhythm (iterations
// follow each other without a barrier), when actions last `duration_us(rank, action)` and messages
// and optimiser take no time. Seeds pillion_expect.
using DurationUs = std::function<double(int32_t rank, const pipeline::Action& action)>;
std::vector<uint32_t> SteadyWaitsUs(const Program& program, int32_t rank,
                                    const DurationUs& duration_us);

}  // namespace pillion::executor

#endif  // PILLION_PIPELINE_EXECUTOR_PROGRAM_H_
