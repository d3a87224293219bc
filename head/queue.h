// The queue: jobs, tasks and leases, and every rule about what may happen to them. A pure state machine: events in,
// transitions out; no clock, no disk, no network, no randomness. The same events in the same order give the same
// states.
//
// What the rules guarantee, whatever arrives in whatever order:
//   - A job exists completely or not at all.
//   - A task has one state and changes it only as waiting → queued → leased → final, leased → queued, or from any of
//     them to an unsuccessful end (cancelled, skipped, failed).
//   - A lease has an epoch, greater than every earlier one of the task. A report counts only with the epoch of the
//     present lease and a step that is not lower; everything else is kStale and changes nothing. A repeat of what
//     was accepted is ok and changes nothing.
//   - A final state never changes, so a result exists once.
#ifndef PILLION_HEAD_QUEUE_H_
#define PILLION_HEAD_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "api/wire/messages.h"
#include "base/status.h"
#include "head/records.h"
#include "head/task.h"

namespace pillion::head {

struct TaskRef {
  uint32_t job = 0;  // slot
  uint32_t index = 0;
};

// Consecutive tasks that became queued.
struct ReadyRange {
  TaskRef first;
  uint32_t count = 1;
  int64_t not_before_ns = 0;  // pause after a failure that was not the task's own
};

struct EndedLease {
  TaskRef task;
  TaskId id;
  Epoch epoch = 0;
  std::unique_ptr<Lease> lease;
  bool revoke = false;  // its worker does not know: it must kill and save nothing
};

// What an event changed. The queue appends; the reactor takes everything once a turn.
struct Transitions {
  std::vector<uint32_t> jobs;          // slots, once each: anything about the job or its tasks changed
  std::vector<uint32_t> committed;     // slots of jobs that came into being: their record is to be written
  std::vector<std::pair<uint32_t, uint32_t>> pages;  // slot, page: specs to be written
  std::vector<std::tuple<uint32_t, uint32_t, uint32_t>> nested;  // slot, parent, batch: likewise
  std::vector<TaskRef> tasks;          // once each: their records are to be written
  std::vector<ReadyRange> ready;
  std::vector<EndedLease> ended;
  std::vector<TaskRef> finished;       // reached a final state having had checkpoints
  std::vector<TaskRef> recommitted;    // have another newest checkpoint, and files of older ones
  std::vector<std::pair<JobId, uint32_t>> dropped_pages;  // of submissions that came to nothing: to be deleted,
                                                          // before any of `pages` is written
  void Clear();
};

// Events about tasks. `worker` is who says so.
struct Commit {
  TaskId task;
  WorkerId worker;
  wire::CheckpointRef checkpoint;
  uint64_t items_done = 0, items_total = 0;
};
struct Progress {
  TaskId task;
  WorkerId worker;
  Epoch epoch = 0;
  Step step = 0;
  uint64_t items_done = 0, items_total = 0;
  wire::HostState host_state = wire::HostState::kNone;
};
struct Finish {
  TaskId task;
  WorkerId worker;
  Epoch epoch = 0;
  Step step = 0;
  Status outcome;
  wire::ReleaseCause cause = wire::ReleaseCause::kAppFailure;
  std::string result;
  std::string result_file;
};
struct Release {
  TaskId task;
  WorkerId worker;
  Epoch epoch = 0;
  wire::ReleaseCause cause = wire::ReleaseCause::kPlannedMove;
  std::string detail;
};
struct Grant {
  TaskRef task;
  WorkerId worker;
  std::string worker_name;
};
struct Nested {
  TaskId parent;
  WorkerId worker;
  Epoch epoch = 0;
  uint32_t batch = 0;
  std::vector<wire::TaskSpec> tasks;
};
struct Refuse {  // a queued task that cannot be granted: it fails
  TaskRef task;
  std::string error;
};
struct LoseLease {  // the worker went silent, or never got the grant (then `counts` is false)
  TaskRef task;
  bool counts = true;
};

class Queue {
 public:
  // Says whether tasks like this may be submitted now; the message becomes the submission's error.
  using Admission = std::function<Status(const Template&)>;

  explicit Queue(Admission admission) : admission_(std::move(admission)) {}

  // One chunk of a submission; chunk.last commits. Ok for repeats of chunks that were taken; kAlreadyExists when
  // the job exists with other contents; kInvalidArgument names the task and what is wrong with it (cycles and
  // dangling dependencies included); kResourceExhausted names the limit. After any error but a mismatch with a
  // committed job nothing of the job remains.
  Status Apply(const wire::SubmitChunk& chunk, const std::string& default_owner, int64_t now_ns, int64_t wall_ns);
  // Forgets submissions whose last chunk came before `before_ns`.
  void DropAbandoned(int64_t before_ns);

  // Takes a lease on a queued task (checked): raises the epoch.
  Epoch Apply(Grant event, int64_t now_ns);

  // Verdicts on reports: ok, or kStale with the reason.
  Status Apply(Commit event);
  Status Apply(const Progress& event);
  Status Apply(Finish event, int64_t now_ns);
  Status Apply(Release event, int64_t now_ns);

  // A running task adds tasks to its job: all or none, once per (parent, batch), whoever asks again. Returns the
  // index of the first. Dependencies point to earlier tasks of the batch, or (plus 2^31) to tasks of the job, so
  // no cycle can arise. kStale when the parent's lease is over.
  Result<uint32_t> Apply(Nested event, int64_t now_ns);

  // Cancels the tasks (empty: all) and all that depend on them; returns how many were not final.
  Result<uint64_t> Cancel(const JobId& job, const std::vector<uint32_t>& indices, int64_t now_ns);

  void Apply(const LoseLease& event, int64_t now_ns);
  void Apply(Refuse event, int64_t now_ns);

  // Forgets a finished job. Its slot is used again.
  void Remove(uint32_t slot);

  // Recovery, in this order: jobs, nested batches, pages, tasks, FinishRestore.
  Status RestoreJob(const JobId& id, std::string_view value, int64_t now_ns);
  // False: no such job, the record is a leftover.
  Result<bool> RestoreNested(std::string_view key, std::string_view value);
  Result<bool> RestorePage(const TaskId& first, std::string_view value);
  Result<bool> RestoreTask(const TaskId& id, std::string_view value);
  Status FinishRestore(int64_t now_ns, uint64_t version_base);

  void SetVersionBase(uint64_t base) { version_base_ = base; }
  uint64_t next_order() const { return next_order_; }
  void SetNextOrder(uint64_t order) { next_order_ = order; }

  // Committed jobs only; null when there is none.
  Job* FindJob(const JobId& id);
  const Job* FindJob(const JobId& id) const { return const_cast<Queue*>(this)->FindJob(id); }
  Job* job(uint32_t slot) { return slot < slots_.size() ? slots_[slot].get() : nullptr; }
  const Job* job(uint32_t slot) const { return slot < slots_.size() ? slots_[slot].get() : nullptr; }
  uint32_t slots() const { return static_cast<uint32_t>(slots_.size()); }
  // Null when there is no such job or task.
  Task* FindTask(const TaskId& id, TaskRef* ref = nullptr);
  Task& task(TaskRef ref) { return slots_[ref.job]->tasks[ref.index]; }
  const Task& task(TaskRef ref) const { return slots_[ref.job]->tasks[ref.index]; }

  // Committed jobs in order of submission: by Job::order.
  const std::map<uint64_t, uint32_t>& by_order() const { return by_order_; }
  uint64_t total(wire::TaskState state) const { return totals_[static_cast<size_t>(state)]; }
  uint64_t payload_bytes() const { return payload_bytes_; }
  uint64_t open_jobs() const { return open_jobs_; }

  Transitions& transitions() { return transitions_; }

 private:
  Job* Create(const JobId& id);
  Status CheckRepeat(const Job& job, const wire::SubmitChunk& chunk, uint64_t checksum) const;
  Status Admit(const wire::SubmitChunk& chunk) const;
  Status CheckNested(const Job& job, std::vector<wire::TaskSpec>* tasks) const;
  Status AddTasks(const wire::SubmitChunk& chunk, Job* job);
  Status AddTask(const wire::TaskSpec& spec, Job* job, PageBuilder* builder, size_t* first_in_page);
  void EndPage(Job* job, PageBuilder* builder, size_t* first_in_page);
  void AddEdge(Job* job, uint32_t dependency, uint32_t dependent);
  Status CommitJob(Job* job, int64_t now_ns);
  void EmitReady(Job* job, uint32_t first);
  void Discard(Job* job);

  Status CheckLease(const TaskId& id, const WorkerId& worker, Epoch epoch, Step step, TaskRef* ref, Task** task,
                    bool* repeat);
  void SetState(Job* job, uint32_t index, wire::TaskState state, int64_t now_ns);
  Run& RunOf(Task* task);
  void MarkTask(Job* job, uint32_t index);
  void MarkJob(Job* job);
  void EndLease(Job* job, uint32_t index, bool revoke);
  void Requeue(Job* job, uint32_t index, int64_t not_before_ns, int64_t now_ns);
  void Succeed(Job* job, uint32_t index, int64_t now_ns);
  void Fail(Job* job, uint32_t index, std::string error, int64_t now_ns);
  void EndUnfinished(Job* job, uint32_t index, wire::ReleaseCause cause, const std::string& detail, int64_t now_ns);
  void SkipDependents(Job* job, uint32_t index, int64_t now_ns);

  const Admission admission_;
  std::vector<std::unique_ptr<Job>> slots_;
  std::vector<uint32_t> free_slots_;
  std::unordered_map<JobId, uint32_t> by_id_;     // uncommitted ones too
  std::map<uint64_t, uint32_t> by_order_;         // committed ones
  std::map<uint32_t, int64_t> submitting_;        // slot → last chunk's time
  std::unordered_map<uint32_t, std::vector<std::pair<uint32_t, uint32_t>>> forward_;  // slot → (dependency, dependent)
  uint64_t totals_[7] = {};
  uint64_t pending_tasks_ = 0;                    // of submissions that have not committed
  uint64_t payload_bytes_ = 0;                    // specs and results held
  uint64_t open_jobs_ = 0;
  uint64_t next_order_ = 1;
  uint64_t version_base_ = 0;
  Transitions transitions_;
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_QUEUE_H_
