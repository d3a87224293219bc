#include "worker/host/steps_host.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>

#include "base/clock.h"
#include "base/cpu.h"
#include "worker/host/programs.h"

namespace pillion::worker {
namespace {

constexpr int64_t kProgressIntervalNs = 500 * kNanosPerMilli;
constexpr int64_t kSendWaitMs = 5'000;
constexpr size_t kStepTimesKept = 512;

// Exceptions of a task's own code end here.
template <typename Function>
auto Guarded(const char* where, Function&& function) -> decltype(function()) {
  try {
    return function();
  } catch (const std::exception& exception) {
    return TaskFailed(std::string(where) + " threw: " + exception.what());
  } catch (...) {
    return TaskFailed(std::string(where) + " threw something that is no std::exception");
  }
}

class MemoryWriter final : public CheckpointWriter {
 public:
  Status Write(const void* data, size_t bytes) override {
    payload_.append(static_cast<const char*>(data), bytes);
    return Status::Ok();
  }
  std::string& payload() { return payload_; }

 private:
  std::string payload_;
};

class MemoryReader final : public CheckpointReader {
 public:
  explicit MemoryReader(std::string_view payload) : payload_(payload) {}
  Status Read(void* to, size_t bytes) override {
    if (bytes > payload_.size()) {
      return Corruption("checkpoint: " + std::to_string(bytes) + " bytes wanted, " + std::to_string(payload_.size()) +
                        " are left");
    }
    std::memcpy(to, payload_.data(), bytes);
    payload_.remove_prefix(bytes);
    return Status::Ok();
  }
  size_t remaining() const override { return payload_.size(); }

 private:
  std::string_view payload_;
};

}  // namespace

class StepsHost::Initialising final : public InitContext {
 public:
  Initialising(StepsHost* host, const Arguments& arguments, const DeviceInfo& device)
      : host_(host), arguments_(arguments), device_(device) {}
  const Arguments& arguments() const override { return arguments_; }
  const TaskId& task() const override { return host_->spec_.task; }
  const std::vector<std::string>& inputs() const override { return host_->inputs_; }
  const DeviceInfo& device() const override { return device_; }
  void DeclareMemory(uint64_t bytes) override { declared_.memory_bytes = bytes; }
  void DeclareElastic() override { declared_.elastic = true; }
  void DeclareItems(uint64_t total) override { declared_.items_total = total; }
  void Log(std::string_view line) override { host_->Log(line); }
  const ReadyMessage& declared() const { return declared_; }

 private:
  StepsHost* const host_;
  const Arguments& arguments_;
  const DeviceInfo& device_;
  ReadyMessage declared_;
};

class StepsHost::Stepping final : public StepContext {
 public:
  Stepping(StepsHost* host, int64_t time_left_ns)
      : host_(host), deadline_ns_(MonotonicNowNs() + time_left_ns) {}
  Device& device() override { return *host_->device_; }
  Stream stream() override { return host_->device_->step_stream(); }
  pillion::Step step() const override { return host_->step_; }
  int64_t time_left_ns() const override { return std::max<int64_t>(0, deadline_ns_ - MonotonicNowNs()); }
  bool stop_requested() const override { return host_->loop_.stop_requested(); }
  void Log(std::string_view line) override { host_->Log(line); }
  void ReportMetric(std::string_view name, double value) override { host_->KeepMetric(name, value); }

 private:
  StepsHost* const host_;
  const int64_t deadline_ns_;
};

StepsHost::StepsHost(HostSocket* socket, host::ControlLayout* control, host::DoorbellLayout* doorbell,
                     const board::Layout* board)
    : socket_(socket), control_(control), loop_(control, doorbell, board, this) {}
StepsHost::~StepsHost() = default;

int StepsHost::Run() {
  // Until the task is loaded the worker has no turns to give, so the socket alone is waited for.
  while (phase_ == Phase::kNew || phase_ == Phase::kReady) {
    IdleScope idle;
    pollfd readable{socket_->fd(), POLLIN, 0};
    if (poll(&readable, 1, -1) < 0 && errno != EINTR) return 1;
    if (!HandleCommands()) return 0;
  }
  loop_.Run();
  if (task_ && phase_ != Phase::kEnded) (void)Guarded("Unload", [&] { task_->Unload(); return Status::Ok(); });
  return 0;
}

bool StepsHost::HandleCommands() {
  while (true) {
    auto message = socket_->Receive();
    if (!message.ok()) return message.status().code() == StatusCode::kNotFound && !worker_gone_;
    if (!Handle(std::move(*message))) return false;
  }
}

bool StepsHost::Handle(HostMessage message) {
  if (auto* input = std::get_if<InputMessage>(&message)) {
    inputs_.push_back(std::move(input->bytes));
  } else if (auto* init = std::get_if<InitMessage>(&message)) {
    spec_ = std::move(*init);
    if (Status status = Init(spec_); !status.ok()) Fail(status);
  } else if (auto* load = std::get_if<LoadMessage>(&message)) {
    if (phase_ == Phase::kReady) {
      if (Status status = Load(*load); !status.ok()) Fail(status);
    }
  } else if (auto* save = std::get_if<SaveMessage>(&message)) {
    Save(save->hold);
  } else if (std::holds_alternative<ExitMessage>(message)) {
    return false;
  }
  return !worker_gone_;
}

Status StepsHost::Init(const InitMessage& message) {
  PILLION_ASSIGN_OR_RETURN(program_, FindProgram(message.program, message.library));
  if (!program_->make_task) {
    return InvalidArgument("program '" + message.program + "' is a function: submit it as a call");
  }
  PILLION_ASSIGN_OR_RETURN(DeviceInfo info, FindDevice(message.device));
  bool supported =
      info.kind == DeviceKind::kCuda ? program_->devices != Devices::kCpu : program_->devices != Devices::kCuda;
  if (!supported) return Unsupported("program '" + message.program + "' does not run on " + message.device);
  PILLION_ASSIGN_OR_RETURN(checkpoints_, store::OpenFileCheckpointStore(message.checkpoint_root));
  PILLION_ASSIGN_OR_RETURN(ReadyMessage ready, MakeTask(info));
  uint64_t declared = ready.memory_bytes;
  if (message.memory_limit_bytes != 0 && declared > message.memory_limit_bytes) {
    return ResourceExhausted("program '" + message.program + "' declares " + std::to_string(declared) +
                             " bytes of device memory; the task's limit is " + std::to_string(message.memory_limit_bytes));
  }
  // A pool of one byte holds nothing: the task declared that it needs no device memory.
  PILLION_ASSIGN_OR_RETURN(device_, OpenDevice(info, std::max<uint64_t>(declared, 1)));
  PILLION_RETURN_IF_ERROR(device_->Attach());
  loop_.SetElastic(ready.elastic);
  phase_ = Phase::kReady;
  Send(ready);
  return Status::Ok();
}

Result<ReadyMessage> StepsHost::MakeTask(const DeviceInfo& device) {
  PILLION_ASSIGN_OR_RETURN(Arguments arguments, Arguments::Parse(spec_.arguments.empty() ? "{}" : spec_.arguments));
  task_ = program_->make_task();
  Initialising context(this, arguments, device);
  PILLION_RETURN_IF_ERROR(Guarded("Init", [&] { return task_->Init(context); }));
  PILLION_RETURN_IF_ERROR(arguments.CheckAllKnown());
  return context.declared();
}

// The payload is items_done:u64, then what the task wrote.
Status StepsHost::LoadFrom(const store::StoredCheckpoint& checkpoint, std::string_view payload) {
  if (checkpoint.epoch == 0) {
    step_ = 0;
    items_done_ = 0;
    return Guarded("Load", [&] { return task_->Load(*device_, nullptr); });
  }
  MemoryReader reader(payload);
  uint64_t items = 0;
  PILLION_RETURN_IF_ERROR(reader.ReadValue(&items));
  PILLION_RETURN_IF_ERROR(Guarded("Load", [&] { return task_->Load(*device_, &reader); }));
  step_ = checkpoint.step;
  items_done_ = items;
  return Status::Ok();
}

Status StepsHost::Load(const LoadMessage& message) {
  LoadedMessage loaded;
  const store::StoredCheckpoint fresh;
  for (const store::StoredCheckpoint* candidate : {&message.first, &message.previous, &fresh}) {
    if (candidate != &fresh && candidate->epoch == 0) continue;
    Result<std::string> payload = std::string();
    if (candidate != &fresh) payload = checkpoints_->Load(spec_.task, *candidate);
    Status status = payload.ok() ? LoadFrom(*candidate, *payload) : payload.status();
    if (status.ok()) {
      Loaded(std::move(loaded));
      return Status::Ok();
    }
    // Only a damaged or missing checkpoint is a reason to try the one before: what else the task's own Load says is
    // true of every checkpoint, and progress is not thrown away for it.
    bool passed_over = candidate != &fresh && (status.code() == StatusCode::kCorruption ||
                                               (status.code() == StatusCode::kNotFound && !payload.ok()));
    if (!passed_over) return status;
    loaded.detail += (loaded.detail.empty() ? "" : "; ") + ("step " + std::to_string(candidate->step)) +
                     " passed over: " + status.message();
    if (!payload.ok()) continue;
    // The object has begun to load; a fresh one cannot be half full of the damaged state.
    (void)Guarded("Unload", [&] { task_->Unload(); return Status::Ok(); });
    PILLION_RETURN_IF_ERROR(MakeTask(device_->info()).status());
  }
  return Internal("no checkpoint was tried");
}

void StepsHost::Loaded(LoadedMessage loaded) {
  loaded.step = step_;
  loaded.items_done = items_done_;
  phase_ = Phase::kLoaded;
  Send(std::move(loaded));
  if (spec_.max_steps != 0 && step_ >= spec_.max_steps) {
    Finish();
  } else {
    loop_.SetReady(true);
  }
}

host::StepReport StepsHost::RunStep(int64_t time_left_ns) {
  Stepping context(this, time_left_ns);
  int64_t start_ns = MonotonicNowNs();
  auto outcome = Guarded("Step", [&]() -> Result<StepOutcome> { return task_->Step(context); });
  int64_t length_ns = MonotonicNowNs() - start_ns;
  if (!outcome.ok()) {
    failure_ = outcome.status();
    phase_ = Phase::kFinishing;
    return {0, false};
  }
  if (step_times_ns_.size() < kStepTimesKept) {
    step_times_ns_.push_back(length_ns);
  } else {
    step_times_ns_[step_times_at_++ % kStepTimesKept] = length_ns;
  }
  ++step_;
  items_done_ += outcome->items;
  peak_memory_bytes_ = std::max(peak_memory_bytes_, device_->allocated_bytes());
  if (outcome->done || (spec_.max_steps != 0 && step_ >= spec_.max_steps)) {
    phase_ = Phase::kFinishing;
    return {outcome->items, false};
  }
  return {outcome->items, true};
}

void StepsHost::AfterTurn() {
  if (phase_ == Phase::kFinishing) {
    if (failure_.ok()) {
      Finish();
    } else {
      Fail(failure_);
    }
    return;
  }
  int64_t now_ns = MonotonicNowNs();
  if (now_ns - reported_ns_ >= kProgressIntervalNs && step_ != reported_step_) ReportProgress(now_ns);
}

void StepsHost::ReportProgress(int64_t now_ns) {
  reported_ns_ = now_ns;
  reported_step_ = step_;
  ProgressMessage progress;
  progress.step = step_;
  progress.items_done = items_done_;
  progress.peak_memory_bytes = peak_memory_bytes_;
  if (!step_times_ns_.empty()) {
    std::vector<int64_t> sorted = step_times_ns_;
    std::sort(sorted.begin(), sorted.end());
    progress.step_p50_us = static_cast<uint32_t>(sorted[sorted.size() / 2] / kNanosPerMicro);
    progress.step_p99_us = static_cast<uint32_t>(sorted[sorted.size() * 99 / 100] / kNanosPerMicro);
  }
  Send(progress);
  for (const auto& [name, value] : metrics_) Send(MetricMessage{name, value});
  metrics_.clear();
}

void StepsHost::KeepMetric(std::string_view name, double value) {
  std::string_view kept = name.substr(0, limits::kTextBytes);
  auto found = metrics_.find(kept);
  if (found != metrics_.end()) {
    found->second = value;
  } else if (metrics_.size() < limits::kMetricsPerTask) {
    metrics_.emplace(kept, value);
  }
}

void StepsHost::Save(bool hold) {
  // Done or Failed, on its way, is the answer.
  if (phase_ == Phase::kFinishing || phase_ == Phase::kEnded) return;
  const bool loaded = phase_ == Phase::kLoaded || phase_ == Phase::kHeld;
  if (!loaded) return Send(SavedMessage{});
  if (hold) {
    loop_.SetReady(false);
    phase_ = Phase::kHeld;
  }
  MemoryWriter writer;
  Status status = writer.WriteValue(items_done_);
  if (status.ok()) status = Guarded("Save", [&] { return task_->Save(writer); });
  if (!status.ok()) return Fail(status);
  auto stored = checkpoints_->Save(spec_.task, spec_.epoch, step_, writer.payload());
  if (!stored.ok()) {
    // The disk's trouble is not the task's: it goes on from memory, and the worker hears why nothing was saved.
    Log("checkpoint at step " + std::to_string(step_) + " not saved: " + stored.status().ToString());
    SavedMessage nothing;
    nothing.items_done = items_done_;
    return Send(nothing);
  }
  SavedMessage saved;
  saved.checkpoint = std::move(*stored);
  saved.items_done = items_done_;
  Send(std::move(saved));
}

void StepsHost::Finish() {
  loop_.SetReady(false);
  auto result = Guarded("Finish", [&]() -> Result<std::string> { return task_->Finish(); });
  if (!result.ok()) return Fail(result.status());
  if (result->size() > limits::kInlineResultBytes) {
    return Fail(ResourceExhausted("the result has " + std::to_string(result->size()) + " bytes, the limit is " +
                                  std::to_string(limits::kInlineResultBytes) +
                                  " (inline_result_bytes): write a file and return its path"));
  }
  ReportProgress(MonotonicNowNs());
  DoneMessage done;
  done.step = step_;
  done.items_done = items_done_;
  done.result = std::move(*result);
  phase_ = Phase::kEnded;
  Status unloaded = Guarded("Unload", [&] { task_->Unload(); return Status::Ok(); });
  if (!unloaded.ok()) Log(unloaded.message());
  Send(std::move(done));
}

void StepsHost::Fail(Status status) {
  loop_.SetReady(false);
  phase_ = Phase::kEnded;
  Send(FailedMessage{step_, std::move(status)});
}

void StepsHost::Send(HostMessage message) {
  Status status = socket_->Send(message, kSendWaitMs);
  if (status.code() == StatusCode::kUnavailable) worker_gone_ = true;
}

void StepsHost::Log(std::string_view line) {
  LogMessage message{std::string(line.substr(0, limits::kLogLineBytes))};
  (void)socket_->Send(message, 0);  // a log line is not worth waiting for
}

}  // namespace pillion::worker
