// The worker of one device: the loop that joins session, leases, calls, announcements and the turn engine.
#ifndef PILLION_WORKER_WORKER_H_
#define PILLION_WORKER_WORKER_H_

#include <memory>
#include <string>
#include <vector>

#include "base/device/device.h"
#include "base/service_notify.h"
#include "worker/announcements.h"
#include "worker/calls.h"
#include "worker/leases.h"
#include "worker/session.h"

namespace pillion::worker {

struct WorkerOptions {
  DeviceInfo device;
  std::string name;  // "<host>/<device>"
  std::string runtime_directory;
  std::string checkpoint_directory;
  std::string host_binary;
  std::string report_path, timeline_path;  // empty: none
  uint32_t max_residents = 4;
  int64_t commit_interval_ns = 0;
  turns::EngineOptions engine;
};

class Worker final : public SessionListener {
 public:
  // kUnavailable when another worker serves the device.
  static Result<std::unique_ptr<Worker>> Start(WorkerOptions options, wire::KeyPair keys);
  ~Worker() override;

  // Until `stop_fd` is readable; then everything is saved, committed and released, within 10 s.
  void Run(int stop_fd, ServiceNotifier* notifier);

 private:
  explicit Worker(WorkerOptions options) : options_(std::move(options)) {}
  Status Open(wire::KeyPair keys);
  wire::WorkerHello MakeHello() override;
  void OnWelcome(const wire::Welcome& welcome) override;
  void OnMessage(wire::Message message) override;
  void Turn(int64_t now_ns);
  void Wait(int stop_fd, int64_t now_ns);
  void CheckStop(int stop_fd, int64_t now_ns);
  void TellCapacity(int64_t now_ns);
  void TellHeartbeat();
  void Pull();
  void WriteReport();
  wire::Capacity CapacityNow();

  const WorkerOptions options_;
  const WorkerId id_ = WorkerId::Random();
  std::vector<std::string> programs_;
  FileDescriptor overrun_event_;
  std::unique_ptr<ResidentProcesses> processes_;
  std::unique_ptr<board::Board> board_;  // read-only; the engine has its own
  std::unique_ptr<turns::TurnEngine> engine_;
  std::unique_ptr<Announcements> announcements_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Leases> leases_;
  std::unique_ptr<Calls> calls_;

  bool draining_ = false, stopping_ = false, ended_ = false;
  int64_t stop_by_ns_ = 0;
  wire::Capacity told_capacity_;
  bool told_any_ = false;
  wire::Pull told_pull_;
  int64_t next_capacity_ns_ = 0, next_heartbeat_ns_ = 0, next_report_ns_ = 0;
};

}  // namespace pillion::worker

#endif  // PILLION_WORKER_WORKER_H_
