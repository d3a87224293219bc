// Runs call tasks one after the other in this process (a pooled host): a call is one step of a turn.
//
// One thread.
#ifndef PILLION_WORKER_HOST_CALLS_HOST_H_
#define PILLION_WORKER_HOST_CALLS_HOST_H_

#include <deque>
#include <string>
#include <vector>

#include "worker/host/host_protocol.h"
#include "worker/host/turn_loop.h"

namespace pillion::worker {

class CallsHost final : public host::TurnClient {
 public:
  CallsHost(HostSocket* socket, host::ControlLayout* control, host::DoorbellLayout* doorbell,
            const board::Layout* board);
  // Until the worker says Exit or is gone. Returns the exit code.
  int Run();

  host::StepReport RunStep(int64_t time_left_ns) override;
  bool HandleCommands() override;
  void AfterTurn() override;

 private:
  struct PendingCall {
    CallMessage call;
    std::vector<std::string> inputs;
    bool cancelled = false;
  };
  Result<std::string> Execute(PendingCall& pending);
  void Answer(uint64_t call, Result<std::string> result);

  HostSocket* const socket_;
  host::TurnLoop loop_;
  std::deque<PendingCall> pending_;
  std::vector<std::string> inputs_;  // of the Call that follows them
  std::vector<CallDoneMessage> answers_;  // sent after the turn: no step waits for the worker
  bool worker_gone_ = false;
};

}  // namespace pillion::worker

#endif  // PILLION_WORKER_HOST_CALLS_HOST_H_
