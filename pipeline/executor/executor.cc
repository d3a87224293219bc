#include "pipeline/executor/executor.h"

#include <string>

namespace pillion::executor {

using pipeline::ActionType;

int64_t IterationTrace::WaitNs() const {
  int64_t sum = 0;
  for (const ActionTrace& action : actions) sum += action.start_ns - action.ready_ns;
  return sum;
}

Executor::Executor(const Program& program, Module* module, Transport* transport, const Clock& clock,
                   const ExecutorOptions& options)
    : program_(program),
      rank_(transport->rank()),
      waits_(program.WaitsOf(rank_)),
      module_(module),
      transport_(transport),
      clock_(clock),
      options_(options),
      local_(program.slots.size()) {
  for (size_t s = 0; s < program.slots.size(); ++s) {
    const Slot& slot = program.slots[s];
    if (slot.IsLocal() && slot.from_rank == rank_) local_[s].resize((slot.bytes + 7) / 8);
  }
  trace_.actions.resize(program.instructions[rank_].size());
}

Status Executor::Failed(const Status& status, const std::string& what) {
  failed_ = true;
  Status named = status.WithContext(what);
  transport_->Fail(named);
  return named.WithContext("rank " + std::to_string(rank_));
}

Status Executor::Join() {
  Status status = transport_->Join(clock_.NowNs() + options_.join_timeout_ms * kNanosPerMilli);
  if (!status.ok()) failed_ = true;
  return status;
}

void Executor::Leave() {
  if (!failed_) transport_->Leave();
}

void Executor::Expect(const std::vector<uint32_t>& waits_us) {
  pillion_expect(options_.board, waits_us.data(), static_cast<uint32_t>(waits_us.size()));
}

Status Executor::RunIteration() {
  if (failed_) return FailedPrecondition("the run has failed; start it again");
  pillion_iteration(options_.board, nullptr, waits_);
  trace_.iteration = iteration_;
  trace_.quiet = pillion_iteration_is_quiet(options_.board) != 0;
  trace_.start_ns = clock_.NowNs();
  if (Status status = module_->BeginIteration(iteration_); !status.ok()) {
    return Failed(status, "start of iteration " + std::to_string(iteration_));
  }
  PILLION_RETURN_IF_ERROR(RunActions());
  transport_->SetPosition(-1);
  if (Status status = module_->EndIteration(iteration_); !status.ok()) {
    return Failed(status, "end of iteration " + std::to_string(iteration_));
  }
  trace_.end_ns = clock_.NowNs();
  ++iteration_;
  return Status();
}

Status Executor::RunActions() {
  const auto& instructions = program_.instructions[rank_];
  int64_t now_ns = clock_.NowNs();
  for (size_t index = 0; index < instructions.size(); ++index) {
    const Instruction& instruction = instructions[index];
    ActionTrace& trace = trace_.actions[index];
    transport_->SetPosition(static_cast<int32_t>(index));
    trace.ready_ns = now_ns;
    if (instruction.marks_wait) pillion_bubble_begin(options_.board, nullptr);
    Status status = Await(instruction);
    if (instruction.marks_wait) pillion_bubble_end(options_.board, nullptr);
    if (!status.ok()) {
      // The transport has told the others already.
      failed_ = true;
      return status.WithContext("rank " + std::to_string(rank_) + " waited in " +
                                pipeline::ActionName(instruction.action));
    }
    trace.start_ns = clock_.NowNs();
    if (status = Compute(instruction); !status.ok())
      return Failed(status, pipeline::ActionName(instruction.action));
    PassOn(instruction);
    trace.end_ns = now_ns = clock_.NowNs();
  }
  return Status();
}

Status Executor::Await(const Instruction& instruction) {
  const int64_t deadline_ns = clock_.NowNs() + options_.peer_timeout_ms * kNanosPerMilli;
  if (instruction.input != kNoMessage) {
    const Message& message = program_.messages[instruction.input];
    if (!program_.slots[message.slot].IsLocal()) {
      PILLION_RETURN_IF_ERROR(transport_->AwaitFull(message.slot, RoundOf(message), deadline_ns));
    }
  }
  if (instruction.output != kNoMessage) {
    const Message& message = program_.messages[instruction.output];
    if (!program_.slots[message.slot].IsLocal()) {
      PILLION_RETURN_IF_ERROR(transport_->AwaitFree(message.slot, RoundOf(message), deadline_ns));
    }
  }
  return Status();
}

Status Executor::Compute(const Instruction& instruction) {
  const pipeline::Action& action = instruction.action;
  const Buffer input = BufferOf(instruction.input);
  const Buffer output = BufferOf(instruction.output);
  switch (action.type) {
    case ActionType::kForward:
      return module_->Forward(action.stage, action.microbatch, input, output);
    case ActionType::kInputGradient:
      return module_->InputGradient(action.stage, action.microbatch, input, output);
    case ActionType::kWeightGradient:
      return module_->WeightGradient(action.stage, action.microbatch);
    case ActionType::kBackward:
      return module_->Backward(action.stage, action.microbatch, input, output);
    default:
      return Internal("a program holds compute actions only");
  }
}

// Releases before it fills: whoever gets the output may rely on the input's buffer being free
// (program.h).
void Executor::PassOn(const Instruction& instruction) {
  if (instruction.input != kNoMessage) {
    const Message& message = program_.messages[instruction.input];
    if (!program_.slots[message.slot].IsLocal())
      transport_->Release(message.slot, RoundOf(message));
  }
  if (instruction.output != kNoMessage) {
    const Message& message = program_.messages[instruction.output];
    if (!program_.slots[message.slot].IsLocal()) transport_->Fill(message.slot, RoundOf(message));
  }
}

uint32_t Executor::RoundOf(const Message& message) const {
  return static_cast<uint32_t>(iteration_ * program_.slots[message.slot].uses + message.use);
}

Buffer Executor::BufferOf(int32_t message) {
  if (message == kNoMessage) return {};
  const int32_t slot = program_.messages[message].slot;
  if (!program_.slots[slot].IsLocal()) return transport_->BufferOf(slot);
  return {local_[slot].data(), program_.slots[slot].bytes};
}

}  // namespace pillion::executor
