#include "worker/host/calls_host.h"

#include <cstring>
#include <exception>

#include "pillion/serialize.h"
#include "worker/host/programs.h"

namespace pillion::worker {
namespace {

constexpr int64_t kSendWaitMs = 5'000;
constexpr uint32_t kOrderOnly = UINT32_MAX;

}  // namespace

CallsHost::CallsHost(HostSocket* socket, host::ControlLayout* control, host::DoorbellLayout* doorbell,
                     const board::Layout* board)
    : socket_(socket), loop_(control, doorbell, board, this) {}

int CallsHost::Run() {
  loop_.Run();
  return 0;
}

bool CallsHost::HandleCommands() {
  while (true) {
    auto message = socket_->Receive();
    if (!message.ok()) {
      if (message.status().code() != StatusCode::kNotFound) return false;
      break;
    }
    if (auto* input = std::get_if<InputMessage>(&*message)) {
      inputs_.push_back(std::move(input->bytes));
    } else if (auto* call = std::get_if<CallMessage>(&*message)) {
      pending_.push_back({std::move(*call), std::move(inputs_), false});
      inputs_.clear();
    } else if (auto* cancel = std::get_if<CancelCallMessage>(&*message)) {
      for (PendingCall& pending : pending_) pending.cancelled |= pending.call.call == cancel->call;
    } else if (std::holds_alternative<ExitMessage>(*message)) {
      return false;
    }
  }
  loop_.SetReady(!pending_.empty());
  return !worker_gone_;
}

host::StepReport CallsHost::RunStep(int64_t) {
  if (pending_.empty()) return {0, false};
  PendingCall pending = std::move(pending_.front());
  pending_.pop_front();
  // A cancelled one still counts as an item: the worker finds by the count which call was running when a host dies.
  if (!pending.cancelled) Answer(pending.call.call, Execute(pending));
  return {1, !pending_.empty()};
}

Result<std::string> CallsHost::Execute(PendingCall& pending) {
  PILLION_ASSIGN_OR_RETURN(const Program* program, FindProgram(pending.call.program, pending.call.library));
  if (!program->call) {
    return InvalidArgument("program '" + pending.call.program + "' runs in steps: submit it as a steps task");
  }
  std::vector<FilledArgument> filled;
  for (size_t i = 0; i < pending.inputs.size(); ++i) {
    uint32_t position = kOrderOnly;
    if ((i + 1) * sizeof position <= pending.call.positions.size()) {
      std::memcpy(&position, pending.call.positions.data() + i * sizeof position, sizeof position);
    }
    if (position != kOrderOnly) filled.push_back({position, pending.inputs[i]});
  }
  PILLION_ASSIGN_OR_RETURN(std::string arguments, FillArguments(pending.call.arguments, filled));
  try {
    return program->call(arguments);
  } catch (const std::exception& exception) {
    return TaskFailed(exception.what());
  } catch (...) {
    return TaskFailed("the function threw something that is no std::exception");
  }
}

void CallsHost::Answer(uint64_t call, Result<std::string> result) {
  CallDoneMessage done;
  done.call = call;
  if (!result.ok()) {
    done.status = result.status();
  } else if (result->size() > limits::kInlineResultBytes) {
    done.status = ResourceExhausted("the result has " + std::to_string(result->size()) + " bytes, the limit is " +
                                    std::to_string(limits::kInlineResultBytes) + " (inline_result_bytes)");
  } else {
    done.result = *std::move(result);
  }
  answers_.push_back(std::move(done));
}

void CallsHost::AfterTurn() {
  for (const CallDoneMessage& done : answers_) {
    if (socket_->Send(done, kSendWaitMs).code() == StatusCode::kUnavailable) worker_gone_ = true;
  }
  answers_.clear();
}

}  // namespace pillion::worker
