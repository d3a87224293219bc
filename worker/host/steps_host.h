// Runs one steps task in this process: Init, Load, steps in turns, Save when asked, Finish, Unload. The grammar of the
// conversation with the worker is in host_protocol.h.
//
// One thread.
#ifndef PILLION_WORKER_HOST_STEPS_HOST_H_
#define PILLION_WORKER_HOST_STEPS_HOST_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/device/device.h"
#include "pillion/side_task.h"
#include "store/checkpoint_store.h"
#include "worker/host/host_protocol.h"
#include "worker/host/turn_loop.h"

namespace pillion::worker {

class StepsHost final : public host::TurnClient {
 public:
  StepsHost(HostSocket* socket, host::ControlLayout* control, host::DoorbellLayout* doorbell,
            const board::Layout* board);
  ~StepsHost() override;

  // Until the worker says Exit or is gone. Returns the exit code.
  int Run();

  host::StepReport RunStep(int64_t time_left_ns) override;
  bool HandleCommands() override;
  void AfterTurn() override;

 private:
  class Initialising;
  class Stepping;
  enum class Phase { kNew, kReady, kLoaded, kHeld, kFinishing, kEnded };

  bool Handle(HostMessage message);  // false: exit
  Status Init(const InitMessage& message);
  Status Load(const LoadMessage& message);
  // A new object, initialised.
  Result<ReadyMessage> MakeTask(const DeviceInfo& device);
  Status LoadFrom(const store::StoredCheckpoint& checkpoint, std::string_view payload);
  void Loaded(LoadedMessage loaded);
  void Save(bool hold);
  void Finish();
  void Fail(Status status);
  void ReportProgress(int64_t now_ns);
  void KeepMetric(std::string_view name, double value);
  void Send(HostMessage message);
  void Log(std::string_view line);

  HostSocket* const socket_;
  host::ControlLayout* const control_;
  host::TurnLoop loop_;
  Phase phase_ = Phase::kNew;
  bool worker_gone_ = false;
  std::vector<std::string> inputs_;
  InitMessage spec_;
  const Program* program_ = nullptr;
  std::unique_ptr<SideTask> task_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<store::CheckpointStore> checkpoints_;
  Step step_ = 0;
  uint64_t items_done_ = 0;
  uint64_t peak_memory_bytes_ = 0;
  int64_t reported_ns_ = 0;
  Step reported_step_ = 0;
  Status failure_;
  std::vector<int64_t> step_times_ns_;  // a ring of the newest
  size_t step_times_at_ = 0;
  // The last value of each, sent with the next progress: a step neither waits for the worker nor floods it.
  std::map<std::string, double, std::less<>> metrics_;
};

}  // namespace pillion::worker

#endif  // PILLION_WORKER_HOST_STEPS_HOST_H_
