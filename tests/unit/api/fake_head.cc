#include "fake_head.h"

#include <algorithm>

#include "base/clock.h"
#include "pillion/serialize.h"
#include "pillion/side_task.h"

namespace pillion {

namespace {
wire::Body Error(Status status) { return wire::ErrorReply{std::move(status)}; }
}  // namespace

FakeHead::FakeHead(std::string runtime_directory, std::string name)
    : directory_(std::move(runtime_directory)), name_(std::move(name)) {
  keys_ = wire::LoadOrCreateHeadKeys(directory_).value();
  Start();
}

void FakeHead::Start() {
  wire::ServerOptions options;
  options.keys = keys_;
  socket_ = wire::ServerSocket::Open(std::move(options)).value();
  PILLION_CHECK(wire::WriteEndpoint(directory_, name_, socket_->endpoint()).ok(), "endpoint file");
  stop_ = false;
  thread_ = std::thread([this] { Loop(); });
}

void FakeHead::Stop() {
  if (!thread_.joinable()) return;
  stop_ = true;
  thread_.join();
  socket_.reset();
  watches_.clear();
}

std::vector<wire::TaskSpec> FakeHead::SpecsOf(const JobId& job) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<wire::TaskSpec> specs;
  for (const Task& task : jobs_[job].tasks) specs.push_back(task.spec);
  return specs;
}

std::vector<wire::Announce> FakeHead::announcements() {
  std::lock_guard<std::mutex> lock(mutex_);
  return announcements_;
}

void FakeHead::Reply(wire::PeerId peer, uint64_t request, wire::Body body) {
  (void)socket_->Send(peer, wire::Encode({request, std::move(body)}).value());
}

void FakeHead::Loop() {
  while (!stop_) {
    socket_->Wait(5);
    std::lock_guard<std::mutex> lock(mutex_);
    while (auto event = socket_->Receive()) {
      if (event->kind != wire::ServerEvent::Kind::kMessage) continue;
      auto message = wire::Decode(event->payload);
      if (!message.ok()) {
        socket_->ReportHostile(event->peer);
        continue;
      }
      if (silent && !std::holds_alternative<wire::Hello>(message->body)) continue;
      bool later = false;
      wire::Body answer = Answer(*event, message->request_id, message->body, &later);
      if (!later) Reply(event->peer, message->request_id, std::move(answer));
    }
    AnswerWatches(false);
  }
}

wire::Body FakeHead::Submit(const wire::SubmitChunk& chunk) {
  ++submit_chunks;
  Job& job = jobs_[chunk.job];
  if (job.committed || chunk.chunk < job.chunks) return wire::SubmitReply{chunk.job};  // a repeat
  if (chunk.chunk != job.chunks) return Error(InvalidArgument("chunk " + std::to_string(chunk.chunk) + " is too early"));
  if (chunk.chunk == 0) job.options = chunk.options;
  ++job.chunks;
  for (const wire::TaskSpec& spec : chunk.tasks) {
    if (spec.program == "unknown") {
      jobs_.erase(chunk.job);
      return Error(InvalidArgument("unknown program 'unknown'"));
    }
    Task task;
    task.spec = spec;
    task.info.task = {chunk.job, spec.index};
    task.info.name = spec.name;
    task.info.program = spec.program;
    task.info.kind = spec.kind;
    job.tasks.push_back(std::move(task));
  }
  job.committed = chunk.last;
  if (job.committed) RunTasks(&job);
  return wire::SubmitReply{chunk.job};
}

// In order of submission until nothing changes; dependencies may point forward.
void FakeHead::RunTasks(Job* job) {
  for (bool changed = true; changed;) {
    changed = false;
    for (Task& task : job->tasks) {
      if (task.info.state != wire::TaskState::kWaiting) continue;
      bool ready = true, skipped = false;
      for (const wire::Dependency& dependency : task.spec.dependencies) {
        const wire::TaskState state = job->tasks.at(dependency.index).info.state;
        ready = ready && state == wire::TaskState::kSucceeded;
        skipped = skipped || (IsFinal(state) && state != wire::TaskState::kSucceeded);
      }
      if (!ready && !skipped) continue;
      changed = true;
      if (skipped) {
        task.info.state = wire::TaskState::kSkipped;
        task.info.error = "a dependency did not succeed";
      } else {
        RunTask(job, &task);
      }
    }
  }
  ++job->version;
}

void FakeHead::RunTask(Job* job, Task* task) {
  task->info.state = wire::TaskState::kSucceeded;
  if (task->spec.kind != wire::TaskKind::kCall) {
    task->info.result = R"({"answer": 42})";
    if (task->spec.program == "never") task->info.state = wire::TaskState::kQueued;
    if (task->spec.program == "fails") {
      task->info.state = wire::TaskState::kFailed;
      task->info.error = "broken image x.png";
    }
    return;
  }
  std::vector<FilledArgument> inputs;
  for (const wire::Dependency& dependency : task->spec.dependencies) {
    if (dependency.argument < 0) continue;
    inputs.push_back({static_cast<uint32_t>(dependency.argument), job->tasks.at(dependency.index).info.result});
  }
  auto result = [&]() -> Result<std::string> {
    PILLION_ASSIGN_OR_RETURN(const Program* program, ProgramRegistry::Global().Find(task->spec.program));
    PILLION_ASSIGN_OR_RETURN(std::string arguments, FillArguments(task->spec.arguments, inputs));
    return program->call(arguments);
  }();
  if (result.ok()) {
    task->info.result = *result;
  } else {
    task->info.state = wire::TaskState::kFailed;
    task->info.error = result.status().message();
  }
}

wire::JobInfo FakeHead::InfoOf(const JobId& id, const Job& job) const {
  wire::JobInfo info;
  info.job = id;
  info.name = job.options.name;
  info.owner = job.options.owner;
  info.tasks = job.tasks.size();
  info.version = job.version;
  info.submitted_wall_ns = 1'700'000'000'000'000'000;
  for (const Task& task : job.tasks) {
    switch (task.info.state) {
      case wire::TaskState::kWaiting: ++info.waiting; break;
      case wire::TaskState::kQueued: ++info.queued; break;
      case wire::TaskState::kLeased: ++info.leased; break;
      case wire::TaskState::kSucceeded: ++info.succeeded; break;
      case wire::TaskState::kFailed: ++info.failed; break;
      case wire::TaskState::kCancelled: ++info.cancelled; break;
      case wire::TaskState::kSkipped: ++info.skipped; break;
    }
  }
  return info;
}

wire::Body FakeHead::List(const wire::ListTasks& list) {
  wire::TasksReply reply;
  for (const Task& task : jobs_[list.job].tasks) {
    if (task.spec.index >= list.first_index && reply.tasks.size() < std::min(list.limit, 3u)) {
      reply.tasks.push_back(task.info);  // three at a time, so that clients have to ask again
      reply.tasks.back().result.clear();
    }
  }
  return reply;
}

void FakeHead::AnswerWatches(bool all_due) {
  const int64_t now_ns = MonotonicNowNs();
  std::erase_if(watches_, [&](const Watch& watch) {
    const Job& job = jobs_[watch.wait.job];
    wire::JobInfo info = InfoOf(watch.wait.job, job);
    if (!all_due && job.version <= watch.wait.known_version && !info.finished() && now_ns < watch.due_ns) return false;
    Reply(watch.peer, watch.request, wire::JobReply{info});
    return true;
  });
}

wire::Body FakeHead::Answer(const wire::ServerEvent& event, uint64_t request, const wire::Body& body, bool* later) {
  if (const auto* hello = std::get_if<wire::Hello>(&body)) {
    ++hellos;
    if (hello->role != event.role) return Error(PermissionDenied("the key does not allow this role"));
    wire::Welcome welcome;
    welcome.software_version = "0.1.0-fake";
    return welcome;
  }
  if (const auto* chunk = std::get_if<wire::SubmitChunk>(&body)) return Submit(*chunk);
  if (const auto* wait = std::get_if<wire::WaitJob>(&body)) {
    if (jobs_.count(wait->job) == 0) return Error(NotFound("there is no job " + wait->job.ToString()));
    watches_.push_back({event.peer, request, *wait, MonotonicNowNs() + wait->timeout_ms * kNanosPerMilli});
    *later = true;
    return {};
  }
  if (const auto* get = std::get_if<wire::GetTask>(&body)) {
    auto job = jobs_.find(get->task.job);
    if (job == jobs_.end() || get->task.index >= job->second.tasks.size()) {
      return Error(NotFound("there is no task " + get->task.ToString()));
    }
    return wire::TaskReply{job->second.tasks[get->task.index].info};
  }
  if (const auto* cancel = std::get_if<wire::CancelTasks>(&body)) {
    auto job = jobs_.find(cancel->job);
    if (job == jobs_.end()) return Error(NotFound("there is no job " + cancel->job.ToString()));
    uint64_t count = 0;
    for (Task& task : job->second.tasks) {
      if (IsFinal(task.info.state)) continue;
      task.info.state = wire::TaskState::kCancelled;
      ++count;
    }
    ++job->second.version;
    return wire::CountReply{count};
  }
  if (std::holds_alternative<wire::ListJobs>(body)) {
    wire::JobsReply reply;
    for (const auto& [id, job] : jobs_) reply.jobs.push_back(InfoOf(id, job));
    return reply;
  }
  if (const auto* list = std::get_if<wire::ListTasks>(&body)) return List(*list);
  if (std::holds_alternative<wire::ListWorkers>(body)) {
    wire::WorkerInfo worker;
    worker.name = "host/cpu0";
    worker.device.name = "cpu0";
    worker.connected = true;
    worker.capacity.trainer_attached = true;
    worker.capacity.iteration_period_us = 80'000;
    worker.capacity.slots = {{9'000, 10'000, 11'000}, {19'000, 20'000, 21'000}};
    worker.bubble_share = 0.4;
    return wire::WorkersReply{{worker}};
  }
  if (std::holds_alternative<wire::GetStatus>(body)) {
    wire::StatusReply reply;
    reply.incarnation = 3;
    reply.software_version = "0.1.0-fake";
    reply.jobs = jobs_.size();
    return reply;
  }
  if (std::holds_alternative<wire::ExplainTask>(body)) {
    return wire::ExplainReply{wire::TaskState::kQueued, "one worker could run it", {{"host/cpu0", true, 12.5, ""}}};
  }
  if (const auto* migrate = std::get_if<wire::MigrateTask>(&body)) {
    if (event.role != wire::Role::kOperator) return Error(PermissionDenied("only operators move tasks"));
    if (migrate->to_worker == "nowhere") return Error(NotFound("there is no worker 'nowhere'"));
    return wire::CountReply{1};
  }
  if (std::holds_alternative<wire::DrainWorker>(body)) return wire::CountReply{2};
  if (const auto* announce = std::get_if<wire::Announce>(&body)) {
    announcements_.push_back(*announce);
    return wire::CountReply{1};
  }
  return Error(Unsupported("the fake head does not know this"));
}

}  // namespace pillion
