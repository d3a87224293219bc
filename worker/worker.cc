#include "worker/worker.h"

#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "worker/report.h"

namespace pillion::worker {
namespace {

constexpr int64_t kCapacityNs = 250 * kNanosPerMilli;
constexpr int64_t kReportNs = 2 * kNanosPerSecond;
constexpr int64_t kTickNs = 250 * kNanosPerMilli;
constexpr int64_t kStopNs = 8 * kNanosPerSecond;  // the rest of the ten is for killing

}  // namespace

Result<std::unique_ptr<Worker>> Worker::Start(WorkerOptions options, wire::KeyPair keys) {
  std::unique_ptr<Worker> worker(new Worker(std::move(options)));
  PILLION_RETURN_IF_ERROR(worker->Open(std::move(keys)));
  return worker;
}

Worker::~Worker() {
  if (leases_) leases_->AbandonAll();
}

Status Worker::Open(wire::KeyPair keys) {
  PILLION_RETURN_IF_ERROR(BecomeSubreaper());
  overrun_event_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!overrun_event_.valid()) return ErrnoStatus("make an eventfd");
  processes_ = std::make_unique<ResidentProcesses>(overrun_event_.get());
  PILLION_ASSIGN_OR_RETURN(auto board, board::Board::Open(options_.device.uuid, board::Board::Access::kReadWrite));
  PILLION_ASSIGN_OR_RETURN(
      engine_, turns::TurnEngine::Start(options_.engine, std::move(board),
                                        [this](turns::ResidentId id, int64_t ns) { processes_->Overran(id, ns); }));
  PILLION_ASSIGN_OR_RETURN(board_, board::Board::Open(options_.device.uuid, board::Board::Access::kReadOnly));
  PILLION_ASSIGN_OR_RETURN(
      programs_, ListHostPrograms(options_.host_binary, std::string(DeviceKindName(options_.device.kind))));
  PILLION_ASSIGN_OR_RETURN(announcements_, Announcements::Open(options_.runtime_directory, options_.device));
  wire::PeerOptions peer;
  peer.find_server = wire::EndpointFromFile(options_.runtime_directory, "head");
  peer.keys = std::move(keys);
  peer.retry_first_ms = 1'000;
  peer.retry_most_ms = 30'000;
  session_ = std::make_unique<Session>(std::move(peer), this);
  LeaseContext context;
  context.host = {options_.host_binary, options_.device.uuid, options_.device.name, engine_->doorbell()->fd()};
  context.checkpoint_root = options_.checkpoint_directory;
  context.commit_interval_ns = options_.commit_interval_ns;
  context.engine = engine_.get();
  context.processes = processes_.get();
  context.uplink = session_.get();
  leases_ = std::make_unique<Leases>(context);
  calls_ = std::make_unique<Calls>(context);
  return Status::Ok();
}

// ---- the head --------------------------------------------------------------------------------------

wire::WorkerHello Worker::MakeHello() {
  wire::WorkerHello hello;
  hello.worker = id_;
  hello.name = options_.name;
  hello.software_version = kVersion;
  hello.device = options_.device;
  hello.pid = getpid();
  hello.programs = programs_;
  hello.held = leases_->Held();
  calls_->AddHeld(&hello.held);
  return hello;
}

void Worker::OnWelcome(const wire::Welcome& welcome) {
  for (const TaskId& task : welcome.drop) {
    leases_->Drop(task);
    calls_->Drop(task);
  }
  leases_->OnReconnect();
  calls_->OnReconnect();
  told_any_ = false;
  told_pull_ = {};
  draining_ = false;  // the head says so again
  next_capacity_ns_ = next_heartbeat_ns_ = 0;
}

void Worker::OnMessage(wire::Message message) {
  const int64_t now_ns = MonotonicNowNs();
  if (auto* grants = std::get_if<wire::Grants>(&message.body)) {
    for (wire::Grant& grant : grants->grants) {
      if (stopping_) {
        session_->Ask(wire::Release{grant.task, grant.epoch, wire::ReleaseCause::kPlannedMove, "the worker ends"});
      } else if (grant.spec.kind == wire::TaskKind::kCall) {
        calls_->OnGrant(std::move(grant));
      } else {
        leases_->OnGrant(std::move(grant), now_ns);
      }
    }
  } else if (auto* revoke = std::get_if<wire::Revoke>(&message.body)) {
    if (!calls_->OnRevoke(*revoke)) leases_->OnRevoke(*revoke, now_ns);
  } else if (auto* verdict = std::get_if<wire::Verdict>(&message.body)) {
    leases_->OnVerdict(message.request_id, *verdict);
    calls_->OnVerdict(*verdict);
  } else if (auto* batch = std::get_if<wire::VerdictBatch>(&message.body)) {
    for (const wire::Verdict& each : batch->verdicts) calls_->OnVerdict(each);
  } else if (auto* drain = std::get_if<wire::Drain>(&message.body)) {
    draining_ = drain->drain;
    log::Info(draining_ ? "draining" : "taking tasks again");
  }
}

wire::Capacity Worker::CapacityNow() {
  uint64_t claim = board_->layout()->memory_claim_bytes.load(std::memory_order_relaxed);
  turns::Capacity own = engine_->GetCapacity();
  uint64_t taken = (own.trainer_attached ? claim : 0) + leases_->DeclaredMemory();
  uint64_t total = options_.device.memory_bytes;
  if (total > 0) engine_->SetFreeMemory(own.trainer_attached && claim < total ? total - claim : total);
  // 0 would mean that nothing is known.
  return announcements_->Merge(own, total == 0 ? 0 : std::max<uint64_t>(total - std::min(total, taken), 1));
}

void Worker::TellCapacity(int64_t now_ns) {
  next_capacity_ns_ = now_ns + kCapacityNs;
  wire::Capacity capacity = CapacityNow();
  if (told_any_ && !CapacityDiffers(capacity, told_capacity_)) return;
  if (!session_->Tell(wire::Announce{options_.device.name, capacity})) return;
  told_any_ = true;
  told_capacity_ = std::move(capacity);
}

void Worker::TellHeartbeat() {
  wire::Heartbeat heartbeat;
  heartbeat.info.worker = id_;
  heartbeat.info.name = options_.name;
  heartbeat.info.device = options_.device;
  heartbeat.info.capacity = CapacityNow();
  heartbeat.info.draining = draining_;
  std::vector<wire::HeldLease> held = leases_->Held();
  calls_->AddHeld(&held);
  for (const wire::HeldLease& lease : held) heartbeat.info.leases.push_back(lease.task);
  FillFigures(engine_->GetFigures(), &heartbeat.info);
  session_->Tell(std::move(heartbeat));
  told_pull_ = {};  // a pull that was lost or misjudged is repeated
}

void Worker::Pull() {
  wire::Pull pull;
  pull.held = leases_->Unreported() + calls_->Unreported();
  bool capacity = options_.engine.run_without_trainer || told_capacity_.trainer_attached ||
                  announcements_->any_received();
  if (capacity && !draining_ && !stopping_) {
    uint32_t occupied = leases_->Occupied();
    pull.call_slots = Calls::kSlots - std::min(Calls::kSlots, calls_->Waiting());
    pull.want = pull.call_slots + options_.max_residents - std::min(options_.max_residents, occupied);
  }
  pull.free_memory_bytes = told_capacity_.free_memory_bytes;
  if (pull.held == told_pull_.held && pull.want == told_pull_.want && pull.call_slots == told_pull_.call_slots) return;
  if (session_->Tell(pull)) told_pull_ = pull;
}

// ---- the loop --------------------------------------------------------------------------------------

void Worker::Turn(int64_t now_ns) {
  announcements_->Pump();
  session_->Pump(now_ns);
  for (turns::ResidentId resident : processes_->TakeOverran()) {
    leases_->OnOverrun(resident);
    calls_->OnOverrun(resident);
  }
  leases_->Pump(now_ns);
  calls_->Pump(now_ns);
  if (now_ns >= next_report_ns_) {
    next_report_ns_ = now_ns + kReportNs;
    WriteReport();
  }
  if (!session_->ready()) return;
  if (now_ns >= next_capacity_ns_) TellCapacity(now_ns);
  if (now_ns >= next_heartbeat_ns_) {
    next_heartbeat_ns_ = now_ns + session_->heartbeat_ms() * kNanosPerMilli;
    TellHeartbeat();
  }
  Pull();
}

void Worker::Wait(int stop_fd, int64_t now_ns) {
  std::vector<pollfd> polled = {{stop_fd, POLLIN, 0},
                                {session_->poll_fd(), POLLIN, 0},
                                {announcements_->poll_fd(), POLLIN, 0},
                                {overrun_event_.get(), POLLIN, 0}};
  leases_->AddPolled(&polled);
  calls_->AddPolled(&polled);
  int64_t until_ns = std::min(now_ns + kTickNs, session_->next_wake_ns());
  int64_t wait_ms = std::max<int64_t>(0, (until_ns - now_ns) / kNanosPerMilli + 1);
  poll(polled.data(), polled.size(), static_cast<int>(wait_ms));
}

void Worker::CheckStop(int stop_fd, int64_t now_ns) {
  signalfd_siginfo signal{};
  if (read(stop_fd, &signal, sizeof signal) != sizeof signal) return;
  if (stopping_) {
    log::Warning("asked to stop twice: ending at once");
    ended_ = true;
    return;
  }
  log::Info("stopping: saving and releasing all tasks", {{"signal", signal.ssi_signo}});
  stopping_ = true;
  stop_by_ns_ = now_ns + kStopNs;
  leases_->LeaveAll(now_ns);
  calls_->ReleaseAll();
}

void Worker::Run(int stop_fd, ServiceNotifier* notifier) {
  while (!ended_) {
    int64_t now_ns = MonotonicNowNs();
    notifier->Beat(now_ns);
    CheckStop(stop_fd, now_ns);
    Turn(now_ns);
    if (stopping_ && ((leases_->empty() && calls_->empty() && !leases_->any_host()) || now_ns >= stop_by_ns_)) break;
    if (!ended_) Wait(stop_fd, now_ns);
  }
  leases_->AbandonAll();
  calls_.reset();
  WriteReport();
  if (!options_.timeline_path.empty()) {
    Status status = WriteTimeline(options_.timeline_path, options_.device.name, engine_->GetTimeline());
    if (!status.ok()) log::Error("timeline not written", {{"error", status.ToString()}});
  }
}

void Worker::WriteReport() {
  if (options_.report_path.empty()) return;
  Status status = worker::WriteReport(options_.report_path, options_.device.name, engine_->GetFigures());
  if (!status.ok()) log::Error("report not written", {{"error", status.ToString()}});
}

}  // namespace pillion::worker
