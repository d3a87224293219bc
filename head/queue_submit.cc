// Submission and recovery: how jobs come into the queue.
#include <algorithm>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/limits.h"
#include "head/graph.h"
#include "head/queue.h"

namespace pillion::head {
namespace {

// Of everything a chunk says, so that a retried submission is told from another one with the same id.
uint64_t ChunkChecksum(const wire::SubmitChunk& chunk) {
  ByteWriter out;
  out.Number(chunk.last);
  if (chunk.chunk == 0) {
    out.Text(chunk.options.name);
    out.Text(chunk.options.owner);
    out.Signed(chunk.options.priority);
  }
  for (const wire::TaskSpec& spec : chunk.tasks) {
    out.Number(spec.index);
    out.Text(spec.name);
    out.Number(static_cast<uint64_t>(spec.kind));
    out.Text(spec.program);
    out.Text(spec.library);
    out.Text(spec.arguments);
    out.Number(spec.dependencies.size());
    for (const wire::Dependency& dependency : spec.dependencies) {
      out.Number(dependency.index);
      out.Signed(dependency.argument);
    }
    out.Number(spec.max_steps);
    out.Signed(spec.options.priority);
    out.Number(spec.options.memory_bytes);
    out.Number(spec.options.device_kind);
    out.Number(spec.options.minimum_bubble_us);
    out.Number(spec.options.app_retries);
    out.Signed(spec.options.deadline_ms);
    out.Number(spec.options.wait_for_device);
  }
  return Checksum64(out.Take());
}

Status CheckSpec(const wire::TaskSpec& spec, uint64_t expected_index) {
  std::string label = TaskLabel(spec.index, spec.name);
  if (spec.index != expected_index) {
    return InvalidArgument(label + " comes where task " + std::to_string(expected_index) +
                           " was expected: the tasks of a job are numbered 0, 1, 2 ... in the order they are sent");
  }
  if (spec.program.empty()) return InvalidArgument(label + " names no program");
  if (spec.dependencies.size() > limits::kDependenciesPerTask) {
    return ResourceExhausted(label + " has " + std::to_string(spec.dependencies.size()) +
                             " dependencies; the limit is " + std::to_string(limits::kDependenciesPerTask));
  }
  if (spec.arguments.size() > limits::kArgumentBytes) {
    return ResourceExhausted(label + " has arguments of " + std::to_string(spec.arguments.size()) +
                             " bytes; the limit is " + std::to_string(limits::kArgumentBytes));
  }
  if (spec.options.device_kind > 2 && spec.options.device_kind != 255) {
    return InvalidArgument(label + " asks for device kind " + std::to_string(spec.options.device_kind) +
                           ", which does not exist");
  }
  return Status();
}

}  // namespace

Job* Queue::Create(const JobId& id) {
  uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  slots_[slot] = std::make_unique<Job>();
  slots_[slot]->id = id;
  slots_[slot]->slot = slot;
  by_id_[id] = slot;
  return slots_[slot].get();
}

// Forgets a job that was never committed.
void Queue::Discard(Job* job) {
  uint32_t slot = job->slot;
  auto of_job = [slot](const std::pair<uint32_t, uint32_t>& page) { return page.first == slot; };
  std::erase_if(transitions_.pages, of_job);
  for (const Page& page : job->pages) {
    transitions_.dropped_pages.emplace_back(job->id, page.first_index);
    payload_bytes_ -= page.bytes.size();
  }
  pending_tasks_ -= job->tasks.size();
  submitting_.erase(slot);
  forward_.erase(slot);
  by_id_.erase(job->id);
  slots_[slot].reset();
  free_slots_.push_back(slot);
}

void Queue::DropAbandoned(int64_t before_ns) {
  std::vector<uint32_t> abandoned;
  for (const auto& [slot, last_ns] : submitting_) {
    if (last_ns < before_ns) abandoned.push_back(slot);
  }
  for (uint32_t slot : abandoned) Discard(slots_[slot].get());
}

Status Queue::CheckRepeat(const Job& job, const wire::SubmitChunk& chunk, uint64_t checksum) const {
  if (chunk.chunk < job.chunks.size() && job.chunks[chunk.chunk] == checksum) return Status();
  return AlreadyExists("job " + job.id.ToString() + " exists with other contents (chunk " +
                       std::to_string(chunk.chunk) + " differs): use a fresh job id");
}

Status Queue::Admit(const wire::SubmitChunk& chunk) const {
  uint64_t held = totals_[0] + totals_[1] + totals_[2] + pending_tasks_;
  if (held + chunk.tasks.size() > limits::kQueuedTasks) {
    return ResourceExhausted("the head holds " + std::to_string(held) + " unfinished tasks; the limit is " +
                             std::to_string(limits::kQueuedTasks) + ": submit again when some have finished");
  }
  if (open_jobs_ + submitting_.size() > limits::kOpenJobs) {
    return ResourceExhausted("the head holds " + std::to_string(open_jobs_) + " open jobs; the limit is " +
                             std::to_string(limits::kOpenJobs) + ": submit again when some have finished");
  }
  if (payload_bytes_ > limits::kQueuedPayloadBytes) {
    return ResourceExhausted("the head holds " + std::to_string(payload_bytes_) +
                             " bytes of arguments and results; the limit is " +
                             std::to_string(limits::kQueuedPayloadBytes) + ": submit again when jobs have finished");
  }
  return Status();
}

Status Queue::Apply(const wire::SubmitChunk& chunk, const std::string& default_owner, int64_t now_ns,
                    int64_t wall_ns) {
  uint64_t checksum = ChunkChecksum(chunk);
  auto known = by_id_.find(chunk.job);
  Job* job = known == by_id_.end() ? nullptr : slots_[known->second].get();
  if (job != nullptr) {
    if (job->committed || chunk.chunk < job->chunks.size()) return CheckRepeat(*job, chunk, checksum);
  } else {
    if (chunk.job.IsZero()) return InvalidArgument("a job's id must not be zero");
    if (chunk.chunk != 0) {
      return FailedPrecondition("chunk " + std::to_string(chunk.chunk) + " of job " + chunk.job.ToString() +
                                " came, but none before it: send the job again from chunk 0");
    }
    PILLION_RETURN_IF_ERROR(Admit(chunk));
    job = Create(chunk.job);
    job->options = chunk.options;
    if (job->options.owner.empty()) job->options.owner = default_owner;
    job->submitted_ns = now_ns;
    job->submitted_wall_ns = wall_ns;
  }
  Status status;
  if (chunk.chunk != job->chunks.size()) {
    status = FailedPrecondition("chunk " + std::to_string(chunk.chunk) + " of job " + chunk.job.ToString() +
                                " came where chunk " + std::to_string(job->chunks.size()) + " was expected");
  }
  if (status.ok() && chunk.chunk != 0) status = Admit(chunk);
  if (status.ok()) status = AddTasks(chunk, job);
  if (status.ok()) {
    job->chunks.push_back(checksum);
    submitting_[job->slot] = now_ns;
    if (chunk.last) status = CommitJob(job, now_ns);
  }
  if (!status.ok()) Discard(job);
  return status;
}

Status Queue::AddTasks(const wire::SubmitChunk& chunk, Job* job) {
  if (job->tasks.size() + chunk.tasks.size() > limits::kTasksPerJob) {
    return ResourceExhausted("the job has more than " + std::to_string(limits::kTasksPerJob) +
                             " tasks, which is the limit: split it");
  }
  PageBuilder builder;
  size_t first_in_page = job->tasks.size();
  for (const wire::TaskSpec& spec : chunk.tasks) {
    PILLION_RETURN_IF_ERROR(CheckSpec(spec, job->tasks.size()));
    PILLION_RETURN_IF_ERROR(AddTask(spec, job, &builder, &first_in_page));
  }
  EndPage(job, &builder, &first_in_page);
  return Status();
}

Status Queue::AddTask(const wire::TaskSpec& spec, Job* job, PageBuilder* builder, size_t* first_in_page) {
  uint32_t index = static_cast<uint32_t>(job->tasks.size());
  size_t templates = job->templates.size();
  Task task;
  task.offset = builder->Add(spec, job, &task.template_id);
  if (job->templates.size() > templates && admission_) {
    Status status = admission_(job->templates.back());
    if (!status.ok()) return status.WithContext(TaskLabel(index, spec.name));
  }
  task.page = static_cast<uint32_t>(job->pages.size());
  task.unmet = static_cast<uint32_t>(spec.dependencies.size());
  job->tasks.push_back(std::move(task));
  ++pending_tasks_;
  for (const wire::Dependency& dependency : spec.dependencies) {
    if (dependency.argument < -1 || dependency.argument >= static_cast<int32_t>(limits::kDependenciesPerTask)) {
      return InvalidArgument(TaskLabel(index, spec.name) + " uses a dependency as argument " +
                             std::to_string(dependency.argument) + "; 0 to " +
                             std::to_string(limits::kDependenciesPerTask - 1) + " or -1 is expected");
    }
    if (dependency.index < index) {
      AddEdge(job, dependency.index, index);
    } else {
      forward_[job->slot].emplace_back(dependency.index, index);
    }
  }
  if (builder->bytes() >= limits::kSpecPageBytes) EndPage(job, builder, first_in_page);
  return Status();
}

void Queue::EndPage(Job* job, PageBuilder* builder, size_t* first_in_page) {
  if (builder->tasks() == 0) return;
  uint32_t header_bytes = 0;
  Page page{static_cast<uint32_t>(*first_in_page), builder->Finish(*job, &header_bytes)};
  for (size_t i = *first_in_page; i < job->tasks.size(); ++i) job->tasks[i].offset += header_bytes;
  *first_in_page = job->tasks.size();
  payload_bytes_ += page.bytes.size();
  transitions_.pages.emplace_back(job->slot, static_cast<uint32_t>(job->pages.size()));
  job->pages.push_back(std::move(page));
}

void Queue::AddEdge(Job* job, uint32_t dependency, uint32_t dependent) {
  uint32_t edge = static_cast<uint32_t>(job->edges.size());
  job->edges.push_back({dependent, job->tasks[dependency].first_edge});
  job->tasks[dependency].first_edge = edge;
}

Status Queue::CommitJob(Job* job, int64_t now_ns) {
  if (job->tasks.empty()) return InvalidArgument("the job has no tasks");
  auto forward = forward_.find(job->slot);
  if (forward != forward_.end()) {
    for (const auto& [dependency, dependent] : forward->second) {
      if (dependency >= job->tasks.size()) {
        return InvalidArgument(TaskLabel(dependent, NameOf(*job, dependent)) + " depends on task " +
                               std::to_string(dependency) + ", but the job's tasks are 0 to " +
                               std::to_string(job->tasks.size() - 1));
      }
      AddEdge(job, dependency, dependent);
    }
    forward_.erase(forward);
    PILLION_RETURN_IF_ERROR(CheckAcyclic(*job));
  }
  for (Task& task : job->tasks) {
    task.state = task.unmet == 0 ? wire::TaskState::kQueued : wire::TaskState::kWaiting;
    ++job->counts[static_cast<size_t>(task.state)];
    ++totals_[static_cast<size_t>(task.state)];
  }
  job->tasks.shrink_to_fit();
  job->edges.shrink_to_fit();
  pending_tasks_ -= job->tasks.size();
  submitting_.erase(job->slot);
  job->committed = true;
  job->order = next_order_;
  next_order_ += job->tasks.size();
  by_order_[job->order] = job->slot;
  ++open_jobs_;
  transitions_.committed.push_back(job->slot);
  MarkJob(job);
  EmitReady(job, 0);
  return Status();
}

// Tells of everything queued from task `first` on, in as few ranges as alike neighbours allow.
void Queue::EmitReady(Job* job, uint32_t first) {
  ReadyRange range;
  range.count = 0;
  auto flush = [&] {
    if (range.count > 0) transitions_.ready.push_back(range);
    range.count = 0;
  };
  for (uint32_t i = first; i < job->tasks.size(); ++i) {
    const Task& task = job->tasks[i];
    if (task.state != wire::TaskState::kQueued) {
      flush();
      continue;
    }
    bool alike = range.count > 0 && !task.run && !job->tasks[i - 1].run &&
                 task.template_id == job->tasks[i - 1].template_id;
    if (!alike) {
      flush();
      range.first = {job->slot, i};
    }
    ++range.count;
  }
  flush();
}

// Turns the batch's numbering into the job's and refuses what could not be added completely.
Status Queue::CheckNested(const Job& job, std::vector<wire::TaskSpec>* tasks) const {
  constexpr uint32_t kInJob = uint32_t{1} << 31;
  const uint32_t first = static_cast<uint32_t>(job.tasks.size());
  if (tasks->empty()) return InvalidArgument("the batch has no tasks");
  if (first + tasks->size() > limits::kTasksPerJob) {
    return ResourceExhausted("the job would have more than " + std::to_string(limits::kTasksPerJob) +
                             " tasks, which is the limit");
  }
  for (uint32_t i = 0; i < tasks->size(); ++i) {
    wire::TaskSpec& spec = (*tasks)[i];
    PILLION_RETURN_IF_ERROR(CheckSpec(spec, i));
    for (wire::Dependency& dependency : spec.dependencies) {
      bool in_job = dependency.index >= kInJob;
      uint32_t index = in_job ? dependency.index - kInJob : dependency.index;
      if (index >= (in_job ? first : i) || dependency.argument < -1) {
        return InvalidArgument(TaskLabel(i, spec.name) + " of the batch depends on task " + std::to_string(index) +
                               (in_job ? " of the job, which has " + std::to_string(first) + " tasks"
                                       : ": only earlier tasks of the batch are possible"));
      }
      dependency.index = in_job ? index : first + index;
    }
    if (admission_) {
      Template t{spec.program, spec.library, spec.kind, spec.max_steps, spec.options, kNone32};
      Status status = admission_(t);
      if (!status.ok()) return status.WithContext(TaskLabel(i, spec.name));
    }
    spec.index = first + i;
  }
  return Status();
}

Result<uint32_t> Queue::Apply(Nested event, int64_t now_ns) {
  TaskRef ref;
  Task* parent = nullptr;
  bool repeat = false;
  PILLION_RETURN_IF_ERROR(
      CheckLease(event.parent, event.worker, event.epoch, UINT64_MAX, &ref, &parent, &repeat));
  if (repeat) return Stale("epoch " + std::to_string(event.epoch) + " of task " + event.parent.ToString() + " is over");
  Job* job = slots_[ref.job].get();
  auto known = job->nested.find({ref.index, event.batch});
  if (known != job->nested.end()) return known->second.first;
  wire::SubmitChunk as_chunk;
  as_chunk.tasks = std::move(event.tasks);
  PILLION_RETURN_IF_ERROR(Admit(as_chunk));
  PILLION_RETURN_IF_ERROR(CheckNested(*job, &as_chunk.tasks));
  const uint32_t first = static_cast<uint32_t>(job->tasks.size());
  Status added = AddTasks(as_chunk, job);
  PILLION_CHECK(added.ok(), "what was checked can be added");
  pending_tasks_ -= as_chunk.tasks.size();
  for (const wire::TaskSpec& spec : as_chunk.tasks) {
    Task& task = job->tasks[spec.index];
    bool hopeless = false;
    for (const wire::Dependency& dependency : spec.dependencies) {
      wire::TaskState state = job->tasks[dependency.index].state;
      if (state == wire::TaskState::kSucceeded) --task.unmet;
      hopeless = hopeless || (IsFinal(state) && state != wire::TaskState::kSucceeded);
    }
    task.state = task.unmet == 0 ? wire::TaskState::kQueued : wire::TaskState::kWaiting;
    ++job->counts[static_cast<size_t>(task.state)];
    ++totals_[static_cast<size_t>(task.state)];
    if (!hopeless) continue;
    SetState(job, spec.index, wire::TaskState::kSkipped, now_ns);
    MarkTask(job, spec.index);
  }
  job->nested[{ref.index, event.batch}] = {first, static_cast<uint32_t>(as_chunk.tasks.size())};
  transitions_.nested.emplace_back(ref.job, ref.index, event.batch);
  MarkJob(job);
  EmitReady(job, first);
  return first;
}

Result<bool> Queue::RestoreNested(std::string_view key, std::string_view value) {
  if (key.size() != 24) return Corruption("the key has " + std::to_string(key.size()) + " bytes instead of 24");
  PILLION_ASSIGN_OR_RETURN(TaskId parent, ParseTaskKey(key.substr(0, 20)));
  PILLION_ASSIGN_OR_RETURN(NestedRange range, DecodeNested(value));
  Job* job = FindJob(parent.job);
  if (job == nullptr) return false;
  uint32_t batch = 0;
  for (char byte : key.substr(20)) batch = batch << 8 | static_cast<uint8_t>(byte);
  job->nested[{parent.index, batch}] = {range.first, range.count};
  size_t before = job->tasks.size();
  if (range.first + range.count > before) {
    job->tasks.resize(range.first + range.count);
    for (size_t i = before; i < job->tasks.size(); ++i) job->tasks[i].page = kNone32;
  }
  return true;
}

Status Queue::RestoreJob(const JobId& id, std::string_view value, int64_t now_ns) {
  Job* job = Create(id);
  uint64_t tasks = 0;
  PILLION_RETURN_IF_ERROR(DecodeJob(value, job, &tasks));
  job->tasks.resize(tasks);
  for (Task& task : job->tasks) task.page = kNone32;
  job->submitted_ns = now_ns;
  job->committed = true;
  by_order_[job->order] = job->slot;
  next_order_ = std::max(next_order_, job->order + tasks);
  return Status();
}

Result<bool> Queue::RestorePage(const TaskId& first, std::string_view value) {
  Job* job = FindJob(first.job);
  if (job == nullptr) return false;
  ByteReader reader(value);
  uint32_t count = 0;
  PILLION_ASSIGN_OR_RETURN(std::vector<Template> templates, ReadPageHeader(&reader, &count));
  if (first.index + uint64_t{count} > job->tasks.size()) {
    return Corruption("the specs go up to task " + std::to_string(first.index + uint64_t{count}) + " of " +
                      std::to_string(job->tasks.size()));
  }
  std::vector<uint32_t> ids;
  for (Template& t : templates) {
    wire::TaskSpec as_spec;
    as_spec.kind = t.kind;
    as_spec.program = t.program;
    as_spec.library = t.library;
    as_spec.max_steps = t.max_steps;
    as_spec.options = t.options;
    if (job->templates.empty() || !job->templates.back().Matches(as_spec)) job->templates.push_back(std::move(t));
    ids.push_back(static_cast<uint32_t>(job->templates.size()) - 1);
  }
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t index = first.index + i;
    Task& task = job->tasks[index];
    task.page = static_cast<uint32_t>(job->pages.size());
    task.offset = static_cast<uint32_t>(reader.position());
    SpecView spec = ReadSpec(&reader);
    if (!reader.ok() || spec.page_template >= ids.size()) return Corruption("the specs are cut off");
    task.template_id = ids[spec.page_template];
    task.unmet = spec.dependencies;
    for (uint32_t d = 0; d < spec.dependencies; ++d) {
      wire::Dependency dependency = ReadDependency(&reader);
      if (dependency.index >= job->tasks.size()) return Corruption("a dependency points outside the job");
      AddEdge(job, dependency.index, index);
    }
  }
  if (!reader.ok() || !reader.AtEnd()) return Corruption("the specs do not end with their record");
  payload_bytes_ += value.size();
  job->pages.push_back({first.index, std::string(value)});
  return true;
}

Result<bool> Queue::RestoreTask(const TaskId& id, std::string_view value) {
  TaskRef ref;
  Task* task = FindTask(id, &ref);
  if (task == nullptr) return false;
  PILLION_RETURN_IF_ERROR(DecodeTask(value, task));
  if (task->run) {
    payload_bytes_ += task->run->result.size();
    if (task->run->lease) task->run->lease->attached = false;
  }
  if (task->state == wire::TaskState::kQueued) task->changed = true;  // marks "has a record" until FinishRestore
  return true;
}

Status Queue::FinishRestore(int64_t now_ns, uint64_t version_base) {
  version_base_ = version_base;
  for (auto& [order, slot] : by_order_) {
    Job* job = slots_[slot].get();
    for (uint32_t i = 0; i < job->tasks.size(); ++i) {
      Task& task = job->tasks[i];
      if (task.page == kNone32) {
        return Corruption("job " + job->id.ToString() + ": the spec of task " + std::to_string(i) + " is missing");
      }
      if (task.state != wire::TaskState::kSucceeded) continue;
      for (uint32_t e = task.first_edge; e != kNone32; e = job->edges[e].next) {
        Task& dependent = job->tasks[job->edges[e].dependent];
        if (dependent.unmet > 0) --dependent.unmet;
      }
    }
    for (Task& task : job->tasks) {
      if (task.state == wire::TaskState::kWaiting && task.unmet == 0) task.state = wire::TaskState::kQueued;
      task.changed = false;
      if (task.run && task.run->lease) task.run->lease->granted_ns = now_ns;
      ++job->counts[static_cast<size_t>(task.state)];
      ++totals_[static_cast<size_t>(task.state)];
    }
    while (job->first_open < job->tasks.size() && IsFinal(job->tasks[job->first_open].state)) ++job->first_open;
    job->edges.shrink_to_fit();
    job->version = version_base_;
    job->finished_ns = now_ns;
    if (!job->finished()) ++open_jobs_;
    EmitReady(job, 0);
  }
  return Status();
}

}  // namespace pillion::head
