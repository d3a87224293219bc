#include "cli/demo/demo.h"

#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "cli/demo/workload.h"
#include "pillion/client.h"

namespace pillion::demo {
namespace {

constexpr char kMark[] = "PILLION_DEMO";
constexpr int64_t kPollMs = 100;
constexpr int64_t kStartMs = 20'000;    // for a part to come up
constexpr int64_t kFinishMs = 120'000;  // for tasks that have the devices to themselves
constexpr int64_t kStopMs = 12'000;     // a worker takes up to ten seconds to save everything
constexpr int64_t kTrainerMs = 600'000;
constexpr double kMoveFrom = 0.05, kMoveUntil = 0.8;  // progress at which a task is worth moving

void Tell(const std::string& text) {
  std::fprintf(stderr, "demo: %s\n", text.c_str());
}

class Demo {
 public:
  explicit Demo(const DemoOptions& options) : options_(options) { record_.trainer_kind = options.trainer; }
  ~Demo() { EndAll(); }

  Status Run() {
    PILLION_RETURN_IF_ERROR(RunReference().WithContext("quiet reference run"));
    PILLION_RETURN_IF_ERROR(StartCluster());
    PILLION_RETURN_IF_ERROR(Harvest());
    PILLION_RETURN_IF_ERROR(FinishAndVerify());
    PILLION_RETURN_IF_ERROR(StopCluster());
    if (record_.moved_task.empty()) {
      return TaskFailed("migration: every task ended before it could be moved" +
                        (move_refused_.empty() ? "" : "; last refused with: " + move_refused_));
    }
    return Status();
  }
  DemoRecord Take() { return std::move(record_); }

 private:
  std::map<std::string, std::string> Environment(const std::string& board) const {
    return {{kMark, options_.directory},
            {"PILLION_BOARD_DIR", options_.board_directory + "/" + board},
            {"PILLION_RUNTIME_DIR", options_.directory + "/run"}};
  }
  ProgramOptions Part(const std::string& program, const std::string& name) const {
    ProgramOptions part;
    part.program = program;
    part.label = name;
    part.output = options_.directory + "/" + name + ".out";
    part.log = options_.directory + "/" + name + ".log";
    part.environment = Environment("board");
    return part;
  }
  Status CheckParts() {
    if (head_ != nullptr) PILLION_RETURN_IF_ERROR(head_->MustRun());
    for (auto& worker : workers_) PILLION_RETURN_IF_ERROR(worker->MustRun());
    return trainer_ != nullptr ? trainer_->Check() : Status();
  }
  // Polls until `done` says true or an error.
  Status Until(const std::string& what, int64_t timeout_ms, const std::function<Result<bool>()>& done) {
    const int64_t end_ns = MonotonicNowNs() + timeout_ms * kNanosPerMilli;
    while (true) {
      PILLION_RETURN_IF_ERROR(CheckParts());
      PILLION_ASSIGN_OR_RETURN(bool is_done, done());
      if (is_done) return Status();
      if (MonotonicNowNs() >= end_ns) {
        return DeadlineExceeded(what + ": not within " + std::to_string(timeout_ms / 1000) + " s");
      }
      PILLION_RETURN_IF_ERROR(Pause(kPollMs));
    }
  }

  Status RunReference();
  Status StartCluster();
  Status Connect();
  Status Harvest();
  Status Submit(Wave wave);
  Status WatchTasks(int64_t* from_ns, int64_t* to_ns);
  Status TryToMove(const std::vector<wire::TaskInfo>& tasks);
  Status FinishAndVerify();
  Status Verify(const std::vector<wire::TaskInfo>& references);
  Result<bool> Ended(const std::vector<JobId>& jobs, std::vector<wire::TaskInfo>* tasks);
  Status StopCluster();
  void EndAll();
  TrainerRun MakeTrainerRun(const std::string& name, const std::string& board, uint64_t iterations) const;
  WorkloadOptions Workload() const;

  const DemoOptions options_;
  DemoRecord record_;
  std::vector<std::string> reference_losses_;
  double iteration_s_ = 0.1;  // as the reference run had it
  std::unique_ptr<Program> head_;
  std::vector<std::unique_ptr<Program>> workers_;
  std::unique_ptr<Trainer> trainer_;
  std::optional<Client> client_;
  std::vector<JobId> jobs_;
  std::string move_refused_;           // the head's last reason
  std::vector<wire::TaskInfo> tasks_;  // as last seen
};

TrainerRun Demo::MakeTrainerRun(const std::string& name, const std::string& board, uint64_t iterations) const {
  TrainerRun run;
  run.kind = options_.trainer;
  run.devices = kDevices;
  run.iterations = iterations;
  run.name = name;
  run.directory = options_.directory;
  run.environment = Environment(board);
  return run;
}

// The same training without workers: what its losses should be, and how long an iteration is.
Status Demo::RunReference() {
  PILLION_RETURN_IF_ERROR(MakePrivateDirectory(options_.board_directory + "/reference"));
  Tell("a short run of the trainer alone, to compare with");
  PILLION_ASSIGN_OR_RETURN(
      trainer_, Trainer::Start(MakeTrainerRun("reference", "reference", options_.reference_iterations)));
  PILLION_RETURN_IF_ERROR(Until("its end", kTrainerMs, [&]() -> Result<bool> { return !trainer_->Running(); }));
  PILLION_ASSIGN_OR_RETURN(TrainerRecord record, trainer_->Read());
  trainer_.reset();
  if (record.ranks.empty() || record.ranks[0].size() < 2) return Corruption("it reported no iterations");
  const std::vector<Iteration>& iterations = record.ranks[0];
  const size_t half = iterations.size() / 2;  // the first ones are slow
  iteration_s_ = static_cast<double>(iterations.back().end_ns - iterations[half].start_ns) /
                 static_cast<double>(iterations.size() - half) / kNanosPerSecond;
  reference_losses_ = std::move(record.losses_exact);
  return Status();
}

Status Demo::StartCluster() {
  PILLION_RETURN_IF_ERROR(MakePrivateDirectory(options_.board_directory + "/board"));
  PILLION_RETURN_IF_ERROR(MakePrivateDirectory(options_.directory + "/run"));
  Tell("starting pillion-head and a pillion-worker for each of cpu0 and cpu1");
  const std::string state = options_.directory + "/state", checkpoints = options_.directory + "/checkpoints";
  ProgramOptions head = Part("pillion-head", "head");
  // Moves are ordered by the demo alone, so that references stay where they are.
  head.arguments = {"--state-dir", state, "--checkpoint-dir", checkpoints, "--runtime-dir", options_.directory + "/run",
                    "--store-reserve-mib", "1", "--no-rebalance"};
  head.idle = true;
  PILLION_ASSIGN_OR_RETURN(head_, Program::Start(std::move(head)));
  for (const std::string& device : kDevices) {
    ProgramOptions worker = Part("pillion-worker", "worker-" + device);
    record_.report_files.push_back(options_.directory + "/report-" + device + ".json");
    record_.timeline_files.push_back(options_.directory + "/timeline-" + device + ".json");
    worker.arguments = {"--device", device, "--name", "demo/" + device, "--runtime-dir", options_.directory + "/run",
                        "--checkpoint-dir", checkpoints, "--quiet-one-in", std::to_string(kQuietOneIn),
                        "--max-residents", "4", "--report", record_.report_files.back(),
                        "--timeline", record_.timeline_files.back()};
    PILLION_ASSIGN_OR_RETURN(auto started, Program::Start(std::move(worker)));
    workers_.push_back(std::move(started));
  }
  PILLION_RETURN_IF_ERROR(Connect());
  return Until("workers reach the head", kStartMs, [&]() -> Result<bool> {
    PILLION_ASSIGN_OR_RETURN(wire::StatusReply status, client_->GetStatus());
    return status.workers_connected == kDevices.size();
  });
}

Status Demo::Connect() {
  ClientOptions options;
  options.runtime_directory = options_.directory + "/run";
  options.role = wire::Role::kOperator;
  options.timeout_ms = 10'000;
  return Until("the head serves", kStartMs, [&]() -> Result<bool> {
    if (!FileExists(wire::EndpointPath(options.runtime_directory, "head"))) return false;
    PILLION_ASSIGN_OR_RETURN(Client client, Client::Connect(options));
    client_.emplace(std::move(client));
    return true;
  });
}

WorkloadOptions Demo::Workload() const {
  WorkloadOptions workload;
  workload.iterations = record_.iterations;
  workload.torch = options_.trainer == TrainerKind::kGpt;
  workload.file = BesideUs("pillion-host");
  return workload;
}

// The trainer with side tasks in its bubbles.
Status Demo::Harvest() {
  const double wanted = options_.iterations > 0 ? static_cast<double>(options_.iterations)
                                                : options_.seconds / iteration_s_;
  const auto groups = std::clamp<uint64_t>(
      static_cast<uint64_t>(std::max(wanted - kWarmUpIterations, 0.0) / kGroupIterations), 2, kMostGroups);
  record_.iterations = IterationsOf(groups);
  TrainerRun run = MakeTrainerRun("trainer", "board", record_.iterations);
  run.run_id = ChooseRunId(static_cast<uint64_t>(WallNowNs()), groups);
  Tell("training for " + std::to_string(record_.iterations) + " iterations, a quarter of them quiet");
  PILLION_ASSIGN_OR_RETURN(trainer_, Trainer::Start(run));
  // From here on this process only keeps house.
  IdleScope idle;
  PILLION_RETURN_IF_ERROR(Until("workers see the trainer", 2 * kStartMs, [&]() -> Result<bool> {
    if (!trainer_->Running()) return Unavailable("the trainer ended before the workers saw it");
    PILLION_ASSIGN_OR_RETURN(std::vector<wire::WorkerInfo> workers, client_->ListWorkers());
    return std::all_of(workers.begin(), workers.end(),
                       [](const wire::WorkerInfo& worker) { return worker.capacity.trainer_attached; });
  }));
  PILLION_RETURN_IF_ERROR(Submit(Wave::kFirst));
  int64_t from_ns = INT64_MAX, to_ns = INT64_MAX;
  PILLION_RETURN_IF_ERROR(WatchTasks(&from_ns, &to_ns));
  PILLION_ASSIGN_OR_RETURN(record_.trainer, trainer_->Read());
  trainer_.reset();
  // The stages of a pipeline wait for each other: one speaks for all.
  std::vector<std::vector<Iteration>> samples = record_.trainer.ranks;
  if (options_.trainer == TrainerKind::kGpt) samples.resize(1);
  record_.slowdown = MeasureSlowdown(samples, from_ns, to_ns);
  const std::vector<std::string>& losses = record_.trainer.losses_exact;
  record_.losses_compared_count = std::min(losses.size(), reference_losses_.size());
  record_.losses_compared = record_.losses_compared_count > 0;
  record_.losses_identical =
      record_.losses_compared && std::equal(reference_losses_.begin(),
                                            reference_losses_.begin() + static_cast<ptrdiff_t>(record_.losses_compared_count),
                                            losses.begin());
  return Status();
}

Status Demo::Submit(Wave wave) {
  PILLION_ASSIGN_OR_RETURN(Graph graph, MakeWorkload(Workload(), wave, "demo", options_.directory + "/pictures"));
  PILLION_ASSIGN_OR_RETURN(JobId job, client_->Submit(graph));
  jobs_.push_back(job);
  Tell("submitted " + std::to_string(graph.size()) + " side tasks");
  return Status();
}

// Until the trainer has ended. The time in which there was side work: [from, to].
Status Demo::WatchTasks(int64_t* from_ns, int64_t* to_ns) {
  int64_t told_ns = MonotonicNowNs();
  return Until("the trainer's end", kTrainerMs, [&]() -> Result<bool> {
    if (!trainer_->Running()) return true;
    if (*to_ns != INT64_MAX) return false;
    PILLION_ASSIGN_OR_RETURN(bool ended, Ended(jobs_, &tasks_));
    const int64_t now_ns = MonotonicNowNs();
    const bool stepping = std::any_of(tasks_.begin(), tasks_.end(), [](const auto& task) { return task.step > 0; });
    if (stepping) *from_ns = std::min(*from_ns, now_ns);
    PILLION_RETURN_IF_ERROR(TryToMove(tasks_));
    if (jobs_.size() == 1) {
      if (ended || !record_.moved_task.empty()) PILLION_RETURN_IF_ERROR(Submit(Wave::kSecond));
    } else if (ended) {
      *to_ns = now_ns;
    }
    if (now_ns - told_ns > 5 * kNanosPerSecond) {
      told_ns = now_ns;
      uint64_t steps = 0;
      for (const wire::TaskInfo& task : tasks_) steps += task.step;
      const auto done = std::count_if(tasks_.begin(), tasks_.end(), [](const auto& task) { return wire::IsFinal(task.state); });
      Tell(std::to_string(steps) + " side steps in bubbles, " + std::to_string(done) + " of " +
           std::to_string(tasks_.size()) + " tasks done");
    }
    return false;
  });
}

// Moves one task, once, when it is well under way.
Status Demo::TryToMove(const std::vector<wire::TaskInfo>& tasks) {
  if (!record_.moved_task.empty()) return Status();
  for (const wire::TaskInfo& task : tasks) {
    const bool runs = task.state == wire::TaskState::kLeased && task.step > 0 && task.items_total > 0 &&
                      (task.host_state == wire::HostState::kPaused || task.host_state == wire::HostState::kRunning);
    if (!runs || !WorthMoving(task.program)) continue;
    const double progress = static_cast<double>(task.items_done) / static_cast<double>(task.items_total);
    if (progress < kMoveFrom || progress > kMoveUntil) continue;
    // Towards the device with less under way, so that the move leaves none without work.
    auto under_way = [&](const wire::TaskInfo& other) { return other.state == wire::TaskState::kLeased && other.step > 0; };
    const auto all = std::count_if(tasks.begin(), tasks.end(), under_way);
    const auto beside = std::count_if(tasks.begin(), tasks.end(), [&](const wire::TaskInfo& other) {
      return under_way(other) && other.worker == task.worker;
    });
    if (2 * beside < all) continue;
    const std::string to = task.worker == "demo/" + kDevices[0] ? "demo/" + kDevices[1] : "demo/" + kDevices[0];
    auto moved = client_->Migrate(task.task, to);
    if (moved.ok()) {
      record_.moved_task = task.task.ToString();
      record_.moved_from = task.worker;
      record_.moved_to = to;
      record_.moved_at_step = task.step;
      Tell("moving " + task.program + " from " + task.worker + " to " + to + " at step " + std::to_string(task.step));
      return Status();
    }
    // No room there now, or it has just ended: the next round sees.
    move_refused_ = moved.status().message();
    const StatusCode code = moved.status().code();
    if (code != StatusCode::kUnavailable && code != StatusCode::kFailedPrecondition) {
      return moved.status().WithContext("migrate " + task.task.ToString());
    }
  }
  return Status();
}

// Whether all tasks of the jobs have succeeded; an error names the first that did not.
Result<bool> Demo::Ended(const std::vector<JobId>& jobs, std::vector<wire::TaskInfo>* tasks) {
  tasks->clear();
  for (const JobId& job : jobs) {
    PILLION_ASSIGN_OR_RETURN(std::vector<wire::TaskInfo> some, client_->ListTasks(job));
    tasks->insert(tasks->end(), some.begin(), some.end());
  }
  for (const wire::TaskInfo& task : *tasks) {
    if (!wire::IsFinal(task.state)) continue;
    if (task.state != wire::TaskState::kSucceeded) {
      return TaskFailed("side task " + task.task.ToString() + " (" + task.program + ") " +
                        std::string(wire::TaskStateName(task.state)) + ": " + task.error);
    }
  }
  return std::all_of(tasks->begin(), tasks->end(), [](const auto& task) { return wire::IsFinal(task.state); });
}

// What the bubbles did not hold runs to its end, beside a second run of every task.
Status Demo::FinishAndVerify() {
  if (jobs_.size() == 1) {
    // Nothing got under way in the bubbles: other work keeps these cores busy. The move comes first, while there is room.
    PILLION_RETURN_IF_ERROR(Until("a move", kFinishMs, [&]() -> Result<bool> {
      PILLION_ASSIGN_OR_RETURN(bool ended, Ended(jobs_, &tasks_));
      PILLION_RETURN_IF_ERROR(TryToMove(tasks_));
      return ended || !record_.moved_task.empty();
    }));
    PILLION_RETURN_IF_ERROR(Submit(Wave::kSecond));
  }
  Tell("the trainer has ended; finishing the tasks, and running each again, uncut and unmoved, to compare results");
  PILLION_ASSIGN_OR_RETURN(Graph graph, MakeWorkload(Workload(), Wave::kBoth, "reference", options_.directory + "/reference-pictures"));
  PILLION_ASSIGN_OR_RETURN(JobId reference, client_->Submit(graph));
  std::vector<wire::TaskInfo> references;
  PILLION_RETURN_IF_ERROR(Until("the end of all side tasks", kFinishMs, [&]() -> Result<bool> {
    PILLION_ASSIGN_OR_RETURN(bool ended, Ended(jobs_, &tasks_));
    PILLION_RETURN_IF_ERROR(TryToMove(tasks_));
    PILLION_ASSIGN_OR_RETURN(bool references_ended, Ended({reference}, &references));
    return ended && references_ended;
  }));
  return Verify(references);
}

Status Demo::Verify(const std::vector<wire::TaskInfo>& references) {
  if (references.size() != tasks_.size()) return Internal("verification: the two jobs have different tasks");
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const wire::TaskInfo& task = tasks_[i];
    const wire::TaskInfo& reference = references[i];
    TaskOutcome outcome;
    outcome.task = task.task.ToString();
    outcome.program = task.program;
    outcome.state = std::string(wire::TaskStateName(task.state));
    outcome.steps = task.step;
    outcome.migrations = task.planned_moves;
    PILLION_ASSIGN_OR_RETURN(std::string result, client_->GetEncoded(task.task));
    PILLION_ASSIGN_OR_RETURN(std::string expected, client_->GetEncoded(reference.task));
    PILLION_ASSIGN_OR_RETURN(bool same, SameResult(result, expected));
    // A reference that was itself interrupted proves nothing.
    const bool uncut = reference.epoch == 1 && reference.planned_moves == 0;
    outcome.verified = same && uncut && task.program == reference.program;
    if (!outcome.verified) {
      return TaskFailed("verification of " + task.program + " " + outcome.task + ": " +
                        (same ? "its reference run was interrupted" : "it returned " + result + ", a run that was not moved " + expected));
    }
    if (outcome.task == record_.moved_task && outcome.migrations == 0) record_.moved_task.clear();
    record_.tasks.push_back(std::move(outcome));
  }
  return Status();
}

// In order, so that the workers write their reports and timelines.
Status Demo::StopCluster() {
  client_.reset();
  for (auto& worker : workers_) worker->Signal(SIGTERM);
  Status first;
  for (auto& worker : workers_) {
    Status ended = worker->WaitForEnd(kStopMs);
    if (first.ok()) first = ended;
  }
  workers_.clear();
  if (head_ != nullptr) {
    head_->Signal(SIGTERM);
    Status ended = head_->WaitForEnd(kStopMs);
    if (first.ok()) first = ended;
    head_.reset();
  }
  return first;
}

void Demo::EndAll() {
  trainer_.reset();
  (void)StopCluster();
  (void)KillMarked(kMark, options_.directory, kStopMs);
}

}  // namespace

Result<DemoRecord> RunDemo(const DemoOptions& options) {
  BecomeSubreaper();
  Demo demo(options);
  PILLION_RETURN_IF_ERROR(demo.Run());
  return demo.Take();
}

}  // namespace pillion::demo
