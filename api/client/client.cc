#include "pillion/client.h"

#include <unistd.h>

#include <algorithm>
#include <deque>

#include "api/client/connection.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"

#ifndef PILLION_VERSION
#define PILLION_VERSION "unknown"
#endif

namespace pillion {

namespace {

constexpr int64_t kWaitSliceMs = 2'000;
// How long Wait without a timeout puts up with an unreachable head.
constexpr int64_t kUnreachableMs = limits::kReattachGraceMs;
constexpr size_t kChunksOutstanding = 8;
constexpr uint64_t kChunkBytes = limits::kMessageBytes - (64 << 10);

// At least what one task takes in an encoded chunk.
uint64_t EncodedBytes(const wire::TaskSpec& spec) {
  return 192 + 8 * spec.dependencies.size() + 16 * 3 + spec.name.size() + spec.program.size() + spec.library.size() +
         spec.arguments.size();
}

int64_t After(int64_t ms) { return MonotonicNowNs() + ms * kNanosPerMilli; }

std::string HostAndPid() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return std::string(host) + ":" + std::to_string(getpid());
}

Status FinalError(const wire::TaskInfo& task) {
  const std::string label = "task " + task.task.ToString() + " (" + task.program + ")";
  switch (task.state) {
    case wire::TaskState::kSucceeded: return Status();
    case wire::TaskState::kFailed: return TaskFailed(label + " failed: " + task.error);
    case wire::TaskState::kCancelled: return Cancelled(label + " was cancelled");
    default: return TaskFailed(label + " is " + std::string(TaskStateName(task.state)) + ": " + task.error);
  }
}

}  // namespace

class Client::Impl {
 public:
  Impl(ClientOptions options, wire::PeerOptions peer, wire::Hello hello)
      : options_(std::move(options)), connection_(std::move(peer), std::move(hello)), pending_(options_.calls) {}

  template <typename Reply>
  Result<Reply> Ask(wire::Body body) {
    return connection_.Ask<Reply>(std::move(body), After(options_.timeout_ms));
  }

  // Starts all requests of a graph that fit into the window; see SubmitAll.
  struct Submission {
    const Graph* graph;
    size_t next_task = 0;
    uint32_t next_chunk = 0;
    std::deque<uint64_t> outstanding;
    Status status;
    bool all_started() const { return !status.ok() || (next_chunk > 0 && next_task == graph->size()); }
  };
  void StartChunk(Submission* submission);
  void FinishOldest(Submission* submission);

  ClientOptions options_;
  Connection connection_;
  Graph pending_;
  Graph::Fetch fetch_;
};

void Client::Impl::StartChunk(Submission* submission) {
  const Graph& graph = *submission->graph;
  wire::SubmitChunk chunk;
  chunk.job = graph.id();
  chunk.chunk = submission->next_chunk++;
  if (chunk.chunk == 0) chunk.options = graph.options();
  uint64_t bytes = 4096;
  size_t end = submission->next_task;
  while (end < graph.size() && end - submission->next_task < limits::kTasksPerChunk) {
    bytes += EncodedBytes(graph.tasks()[end]);
    if (bytes > kChunkBytes && end > submission->next_task) break;
    ++end;
  }
  chunk.tasks.assign(graph.tasks().begin() + static_cast<ptrdiff_t>(submission->next_task),
                     graph.tasks().begin() + static_cast<ptrdiff_t>(end));
  submission->next_task = end;
  chunk.last = end == graph.size();
  submission->outstanding.push_back(connection_.Start(std::move(chunk)));
}

void Client::Impl::FinishOldest(Submission* submission) {
  // After a failure the rest is not waited for.
  const int64_t deadline_ns = submission->status.ok() ? After(options_.timeout_ms) : 0;
  auto reply =
      Connection::Expect<wire::SubmitReply>(connection_.Finish(submission->outstanding.front(), deadline_ns));
  submission->outstanding.pop_front();
  if (!reply.ok() && submission->status.ok()) submission->status = reply.status();
}

Result<Client> Client::Connect(ClientOptions options) {
  if (options.runtime_directory.empty()) options.runtime_directory = DefaultRuntimeDirectory();
  wire::PeerOptions peer;
  if (options.key_file.empty()) {
    auto keys = wire::LoadKeys(options.runtime_directory, options.role);
    if (!keys.ok()) return keys.status();
    peer.keys = std::move(*keys);
  } else {
    PILLION_ASSIGN_OR_RETURN(peer.keys, wire::ReadKeyFile(options.key_file));
  }
  if (options.endpoint) {
    peer.find_server = [endpoint = *options.endpoint]() -> Result<wire::Endpoint> { return endpoint; };
  } else {
    peer.find_server = wire::EndpointFromFile(options.runtime_directory, "head");
  }
  wire::Hello hello;
  hello.role = options.role;
  hello.software_version = PILLION_VERSION;
  hello.name = HostAndPid();
  const int64_t deadline_ns = After(options.timeout_ms);
  auto impl = std::make_unique<Impl>(std::move(options), std::move(peer), std::move(hello));
  PILLION_RETURN_IF_ERROR(impl->connection_.WaitUntilReady(deadline_ns).WithContext("head"));
  return Client(std::move(impl));
}

Client::Client(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Graph& Client::pending() {
  // Bound anew at each call: the Client may have been moved meanwhile.
  impl_->fetch_ = [this](const TaskId& task) { return GetEncoded(task); };
  return impl_->pending_;
}
const Graph::Fetch& Client::fetch() const { return impl_->fetch_; }
const std::string& Client::library() const { return impl_->options_.library; }
bool Client::connected() const { return impl_->connection_.ready(); }
const std::string& Client::head_version() const { return impl_->connection_.welcome().software_version; }

Result<JobId> Client::Flush() {
  if (impl_->pending_.size() == 0) {
    // A call that could not be added said so in its Ref; it must not spoil the next ones.
    Status status = impl_->pending_.status();
    impl_->pending_ = Graph(impl_->options_.calls);
    return status.ok() ? FailedPrecondition("nothing was called since the last time") : status;
  }
  auto submitted = Submit(impl_->pending_);
  // Whether it arrived is unknown only when the head could not be reached: then the same job is tried again.
  const StatusCode code = submitted.status().code();
  if (code != StatusCode::kUnavailable && code != StatusCode::kDeadlineExceeded) {
    impl_->pending_ = Graph(impl_->options_.calls);
  }
  return submitted;
}

Result<JobId> Client::Submit(const Graph& graph) {
  PILLION_RETURN_IF_ERROR(graph.status());
  if (graph.size() == 0) return InvalidArgument("the graph has no tasks");
  Impl::Submission submission;
  submission.graph = &graph;
  while (!submission.all_started() || !submission.outstanding.empty()) {
    if (!submission.all_started() && submission.outstanding.size() < kChunksOutstanding) {
      impl_->StartChunk(&submission);
    } else {
      impl_->FinishOldest(&submission);
    }
  }
  if (!submission.status.ok()) return submission.status;
  return graph.id();
}

std::vector<Result<JobId>> Client::SubmitAll(const std::vector<Graph>& graphs, size_t outstanding) {
  std::vector<Result<JobId>> results(graphs.size(), Internal("not submitted"));
  std::deque<std::pair<size_t, Impl::Submission>> window;
  auto finish_oldest = [&] {
    auto& [index, submission] = window.front();
    while (!submission.outstanding.empty()) impl_->FinishOldest(&submission);
    results[index] = submission.status.ok() ? Result<JobId>(graphs[index].id()) : Result<JobId>(submission.status);
    window.pop_front();
  };
  for (size_t i = 0; i < graphs.size(); ++i) {
    if (!graphs[i].status().ok() || graphs[i].size() == 0 || EncodedBytes(graphs[i].tasks()[0]) * graphs[i].size() >
                                                                 kChunkBytes / 2) {
      results[i] = Submit(graphs[i]);  // large ones have a window of their own
      continue;
    }
    Impl::Submission submission;
    submission.graph = &graphs[i];
    while (!submission.all_started()) impl_->StartChunk(&submission);
    window.emplace_back(i, std::move(submission));
    if (window.size() >= std::max<size_t>(outstanding, 1)) finish_oldest();
  }
  while (!window.empty()) finish_oldest();
  return results;
}

Result<wire::JobInfo> Client::Wait(const JobId& job, const Progress& progress, int64_t timeout_ms) {
  const int64_t deadline_ns = timeout_ms < 0 ? INT64_MAX : After(timeout_ms);
  int64_t reached_ns = MonotonicNowNs();
  uint64_t version = 0;
  for (;;) {
    const int64_t now_ns = MonotonicNowNs();
    const int64_t left_ms = deadline_ns == INT64_MAX ? kWaitSliceMs : (deadline_ns - now_ns) / kNanosPerMilli;
    const int64_t slice_ms = std::clamp<int64_t>(left_ms, 0, kWaitSliceMs);
    wire::WaitJob wait{job, version, static_cast<uint32_t>(slice_ms)};
    auto reply = impl_->connection_.Ask<wire::JobReply>(wait, After(slice_ms + impl_->options_.timeout_ms));
    if (reply.ok()) {
      reached_ns = MonotonicNowNs();
      version = reply->job.version;
      if (progress) progress(reply->job);
      if (reply->job.finished()) return std::move(reply->job);
    } else if (connected() || (reply.status().code() != StatusCode::kUnavailable &&
                               reply.status().code() != StatusCode::kDeadlineExceeded)) {
      return reply.status();
    } else if (deadline_ns == INT64_MAX && MonotonicNowNs() - reached_ns > kUnreachableMs * kNanosPerMilli) {
      return reply.status();
    }
    if (MonotonicNowNs() >= deadline_ns) {
      if (!reply.ok()) return reply.status();
      return DeadlineExceeded("job " + job.ToString() + " is not finished after " + std::to_string(timeout_ms) +
                              " ms: " + std::to_string(reply->job.waiting + reply->job.queued + reply->job.leased) +
                              " of " + std::to_string(reply->job.tasks) + " tasks are open");
    }
  }
}

Result<wire::TaskInfo> Client::WaitTask(const TaskId& task, int64_t timeout_ms) {
  if (task.job == impl_->pending_.id()) {
    auto flushed = Flush();
    if (!flushed.ok()) return flushed.status();
  }
  const int64_t deadline_ns = timeout_ms < 0 ? INT64_MAX : After(timeout_ms);
  uint64_t version = 0;
  int64_t slice_ms = 0;  // the first look does not wait
  for (;;) {
    // The job first, then the task: what changes in between is seen by one of them.
    auto job = impl_->Ask<wire::JobReply>(wire::WaitJob{task.job, version, static_cast<uint32_t>(slice_ms)});
    if (!job.ok()) return job.status();
    version = job->job.version;
    PILLION_ASSIGN_OR_RETURN(wire::TaskInfo info, GetTask(task));
    if (IsFinal(info.state)) return info;
    const int64_t now_ns = MonotonicNowNs();
    if (now_ns >= deadline_ns) {
      return DeadlineExceeded("task " + task.ToString() + " is " + std::string(TaskStateName(info.state)) + " after " +
                              std::to_string(timeout_ms) + " ms");
    }
    const int64_t left_ms = deadline_ns == INT64_MAX ? kWaitSliceMs : (deadline_ns - now_ns) / kNanosPerMilli + 1;
    slice_ms = std::min({left_ms, kWaitSliceMs, std::max<int64_t>(impl_->options_.timeout_ms / 2, 1)});
  }
}

Result<std::string> Client::GetEncoded(const TaskId& task, int64_t timeout_ms) {
  PILLION_ASSIGN_OR_RETURN(wire::TaskInfo info, WaitTask(task, timeout_ms));
  PILLION_RETURN_IF_ERROR(FinalError(info));
  if (info.result_file.empty()) return std::move(info.result);
  return ReadFile(info.result_file);
}

Result<wire::TaskInfo> Client::GetTask(const TaskId& task) {
  PILLION_ASSIGN_OR_RETURN(auto reply, impl_->Ask<wire::TaskReply>(wire::GetTask{task}));
  return std::move(reply.task);
}

Result<uint64_t> Client::Cancel(const JobId& job, std::vector<uint32_t> indices) {
  PILLION_ASSIGN_OR_RETURN(auto reply, impl_->Ask<wire::CountReply>(wire::CancelTasks{job, std::move(indices)}));
  return reply.count;
}

Result<std::vector<wire::JobInfo>> Client::ListJobs(uint32_t limit, std::string owner) {
  PILLION_ASSIGN_OR_RETURN(auto reply, impl_->Ask<wire::JobsReply>(wire::ListJobs{limit, std::move(owner)}));
  return std::move(reply.jobs);
}

Result<std::vector<wire::TaskInfo>> Client::ListTasks(const JobId& job, uint32_t first_index, uint32_t limit) {
  std::vector<wire::TaskInfo> tasks;
  // The head answers with as many as fit a message.
  while (tasks.size() < limit) {
    wire::ListTasks list{job, first_index, limit - static_cast<uint32_t>(tasks.size())};
    PILLION_ASSIGN_OR_RETURN(auto reply, impl_->Ask<wire::TasksReply>(list));
    const bool last = reply.tasks.empty() || job.IsZero();
    if (!last) first_index = reply.tasks.back().task.index + 1;
    tasks.insert(tasks.end(), std::make_move_iterator(reply.tasks.begin()), std::make_move_iterator(reply.tasks.end()));
    if (last) break;
  }
  return tasks;
}

Result<std::vector<wire::WorkerInfo>> Client::ListWorkers() {
  PILLION_ASSIGN_OR_RETURN(auto reply, impl_->Ask<wire::WorkersReply>(wire::ListWorkers{}));
  return std::move(reply.workers);
}

Result<wire::StatusReply> Client::GetStatus() { return impl_->Ask<wire::StatusReply>(wire::GetStatus{}); }
Result<wire::ExplainReply> Client::Explain(const TaskId& task) {
  return impl_->Ask<wire::ExplainReply>(wire::ExplainTask{task});
}

Result<uint64_t> Client::Migrate(const TaskId& task, std::string to_worker) {
  PILLION_ASSIGN_OR_RETURN(auto reply, impl_->Ask<wire::CountReply>(wire::MigrateTask{task, std::move(to_worker)}));
  return reply.count;
}

Result<uint64_t> Client::Drain(std::string worker, bool drain) {
  PILLION_ASSIGN_OR_RETURN(auto reply, impl_->Ask<wire::CountReply>(wire::DrainWorker{std::move(worker), drain}));
  return reply.count;
}

}  // namespace pillion
