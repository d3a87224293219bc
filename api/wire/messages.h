// Every message that travels between clients, head and workers, as plain structs. api/wire/pillion.capnp is the
// byte format, api/wire/codec.h converts and checks. Fields only grow; numbers of enums are on the wire.
//
// Conversation. All peers are DEALER sockets on the head's ROUTER. A connection starts with Hello (client or
// operator) or WorkerHello. A request carries a request id that its reply repeats; each request gets exactly one
// reply: the typed one, or ErrorReply. Messages from the head to a worker that answer nothing (Grants, Revoke,
// Drain) carry request id 0, as do a worker's Progress, Heartbeat and TaskLog, which nobody answers.
// Retrying any request is safe: submissions are keyed by the client's job id, reports by (task, epoch, step).
#ifndef PILLION_API_WIRE_MESSAGES_H_
#define PILLION_API_WIRE_MESSAGES_H_

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/device/device.h"
#include "base/ids.h"
#include "base/status.h"

namespace pillion::wire {

inline constexpr uint16_t kSchemaVersion = 1;

enum class Role : uint8_t { kClient = 0, kWorker = 1, kOperator = 2 };

enum class TaskKind : uint8_t { kCall = 0, kSteps = 1, kCommand = 2 };

// DESIGN §5: waiting → queued → leased → succeeded | failed | cancelled | skipped; leased → queued.
enum class TaskState : uint8_t {
  kWaiting = 0,    // a dependency has not succeeded yet
  kQueued = 1,
  kLeased = 2,
  kSucceeded = 3,
  kFailed = 4,
  kCancelled = 5,
  kSkipped = 6,    // a dependency failed, was cancelled or skipped
};
constexpr bool IsFinal(TaskState state) { return state >= TaskState::kSucceeded; }
std::string_view TaskStateName(TaskState state);

// Detail of kLeased, as the worker sees it (FreeRide's states).
enum class HostState : uint8_t { kNone = 0, kCreated = 1, kPaused = 2, kRunning = 3, kStopped = 4 };
std::string_view HostStateName(HostState state);

// Why a lease ended without a result. Only kAppFailure uses up retries.
enum class ReleaseCause : uint8_t {
  kAppFailure = 0,   // the task's own code failed or crashed
  kWorkerLost = 1,   // head only: the worker went silent
  kOutOfMemory = 2,
  kPreempted = 3,    // evicted: the trainer claimed memory, or enforcement stopped it
  kPlannedMove = 4,  // migrate, rebalance, drain
  kHostLost = 5,     // the task host was killed from outside
};
std::string_view ReleaseCauseName(ReleaseCause cause);

struct Dependency {
  uint32_t index = 0;       // of the task in the same job that must succeed first
  int32_t argument = -1;    // call tasks: its result becomes this argument; -1: order only
};

struct TaskOptions {
  int32_t priority = 0;               // higher first, within the owner's share
  uint64_t memory_bytes = 0;          // device memory it needs; 0: unknown until Init declares it
  uint8_t device_kind = 255;          // DeviceKind; 255: any that the program supports
  uint32_t minimum_bubble_us = 0;
  uint32_t app_retries = 3;           // app failures before it fails for good
  int64_t deadline_ms = 0;            // from submission, on the head's clock; 0: none
  bool wait_for_device = false;       // queue it although no known worker could run it
};

struct TaskSpec {
  uint32_t index = 0;                 // in the job, unique; dependencies may only point to tasks of the job
  std::string name;                   // for people; may be empty
  TaskKind kind = TaskKind::kSteps;
  std::string program;                // registered name; kCommand: path of the executable
  std::string library;                // path of a shared library that registers it; empty: ships with Pillion
  std::string arguments;              // kSteps, kCommand: a JSON object; kCall: one encoded tuple (serialize.h)
  std::vector<Dependency> dependencies;
  uint64_t max_steps = 0;             // kSteps: ends after so many; 0: when it says done
  TaskOptions options;
};

struct JobOptions {
  std::string name;
  std::string owner;                  // fair share is between owners; empty: the key's name
  int32_t priority = 0;
};

// One task state as list, get and wait report it.
struct TaskInfo {
  TaskId task;
  std::string name;
  std::string program;
  TaskKind kind = TaskKind::kSteps;
  TaskState state = TaskState::kWaiting;
  HostState host_state = HostState::kNone;
  Epoch epoch = 0;
  Step step = 0;                      // last reported
  Step committed_step = 0;            // of the last durable checkpoint
  uint64_t items_done = 0;            // as the program counts; 0 of 0 when it does not
  uint64_t items_total = 0;
  std::string worker;                 // name of the worker that holds it, e.g. "host/cpu0"
  std::string error;                  // final failures, or the last one while it is retried
  uint32_t app_failures = 0, worker_losses = 0, out_of_memory = 0, preemptions = 0, planned_moves = 0;
  std::string result;                 // `get` only: inline result
  std::string result_file;            // larger than kInlineResultBytes: where it lies
};

struct JobInfo {
  JobId job;
  std::string name;
  std::string owner;
  uint64_t tasks = 0, waiting = 0, queued = 0, leased = 0, succeeded = 0, failed = 0, cancelled = 0, skipped = 0;
  uint64_t version = 0;               // grows with every change of the job
  int64_t submitted_wall_ns = 0;      // for people
  bool finished() const { return tasks == succeeded + failed + cancelled + skipped; }
};

// Predicted length of one marked bubble of an iteration, µs.
struct SlotForecast {
  uint32_t p10_us = 0, p50_us = 0, p90_us = 0;
};

// What the bubbles of one device offer.
struct Capacity {
  uint32_t iteration_period_us = 0;   // 0: no trainer attached (the whole device is free)
  std::vector<SlotForecast> slots;
  uint64_t free_memory_bytes = 0;
  uint32_t guard_us = 0;
  bool trainer_attached = false;
};

struct WorkerInfo {
  WorkerId worker;
  std::string name;                   // "<host>/<device>"
  DeviceInfo device;
  Capacity capacity;
  bool connected = false;
  bool draining = false;
  std::vector<TaskId> leases;
  // Live figures of §12, shares of 1; negative: not known yet.
  double bubble_share = -1, harvest_share = -1, eligible_harvest_share = -1, slowdown_mean = -1;
  double slowdown_low = -1, slowdown_high = -1;
  uint64_t iterations = 0;
};

// Where a checkpoint's bytes are. Exactly one of bytes and path is used; an empty ref (step 0, none) means fresh.
struct CheckpointRef {
  Epoch epoch = 0;
  Step step = 0;
  uint64_t length_bytes = 0;
  uint64_t checksum = 0;              // Checksum64 of the payload
  std::string bytes;                  // up to kInlineCheckpointBytes
  std::string path;                   // file, as store/checkpoint_file.h lays it out
  bool exists() const { return epoch != 0; }
};

// ---- clients → head, and replies -------------------------------------------------------------------

struct Hello {                        // reply: Welcome
  Role role = Role::kClient;
  std::string software_version;
  std::string name;                   // host:pid, for logs
};
struct Welcome {
  uint64_t incarnation = 0;           // of the head; grows at every start
  std::string software_version;
  int64_t heartbeat_ms = 0;
  std::vector<TaskId> drop;           // workers: leases that are no longer theirs: kill without saving
};

// A graph in one or more chunks; the last one commits all atomically. Reply: SubmitReply, after it is on disk.
// The same job id again with the same chunks is acknowledged again; with others kAlreadyExists.
struct SubmitChunk {
  JobId job;
  uint32_t chunk = 0;                 // 0, 1, 2 …
  bool last = true;
  JobOptions options;                 // read from chunk 0
  std::vector<TaskSpec> tasks;
};
struct SubmitReply {
  JobId job;
};

struct WaitJob {                      // reply: JobReply, when version > known_version, the job is finished, or time is up
  JobId job;
  uint64_t known_version = 0;
  uint32_t timeout_ms = 0;
};
struct JobReply {
  JobInfo job;
};

struct GetTask {                      // reply: TaskReply with result or error
  TaskId task;
};
struct TaskReply {
  TaskInfo task;
};

struct CancelTasks {                  // reply: CountReply. Cancels the given tasks and all that depend on them
  JobId job;
  std::vector<uint32_t> indices;      // empty: the whole job
};
struct CountReply {
  uint64_t count = 0;
};

struct ListJobs { uint32_t limit = 100; std::string owner; };                // reply: JobsReply, newest first
struct JobsReply { std::vector<JobInfo> jobs; };
struct ListTasks { JobId job; uint32_t first_index = 0; uint32_t limit = 1000; };  // zero job: open tasks of all jobs
struct TasksReply { std::vector<TaskInfo> tasks; };
struct ListWorkers {};                                                        // reply: WorkersReply
struct WorkersReply { std::vector<WorkerInfo> workers; };

struct GetStatus {};                                                          // reply: StatusReply
struct StatusReply {
  uint64_t incarnation = 0;
  std::string software_version;
  double uptime_s = 0;
  uint64_t jobs = 0, waiting = 0, queued = 0, leased = 0, succeeded = 0, failed = 0, cancelled = 0, skipped = 0;
  uint32_t workers_connected = 0, workers_known = 0;
  std::string store_error;            // not empty: acknowledging has stopped, and why
  double store_write_ms_p50 = 0, store_write_ms_p99 = 0;
  uint64_t store_bytes = 0;
  uint64_t hostile_messages = 0;
};

struct ExplainTask { TaskId task; };                                          // reply: ExplainReply
struct ExplainLine { std::string worker; bool eligible = false; double steps_per_s = 0; std::string reason; };
struct ExplainReply { TaskState state = TaskState::kWaiting; std::string summary; std::vector<ExplainLine> workers; };

struct MigrateTask { TaskId task; std::string to_worker; };  // reply: CountReply once the move has been ordered; empty: any other
struct DrainWorker { std::string worker; bool drain = true; };                // reply: CountReply (leases being moved)

struct ErrorReply {
  Status status;
};

// ---- workers ↔ head --------------------------------------------------------------------------------

struct HeldLease {
  TaskId task;
  Epoch epoch = 0;
  Step step = 0;
  HostState state = HostState::kNone;
};
struct WorkerHello {                  // reply: Welcome. First message of every connection, and again after a head restart
  WorkerId worker;                    // fresh at each worker start
  std::string name;
  std::string software_version;
  DeviceInfo device;
  int64_t pid = 0;
  std::vector<std::string> programs;  // registered names that ship with it
  std::vector<HeldLease> held;
};
struct Heartbeat {
  WorkerInfo info;                    // leases (all it holds, until their last verdict) and figures; the head answers
                                      // nothing. A lease left out three times in a row counts as never received
};
// Capacity learned from the board, or received through an Announcer. Worker → head, and Announcer → worker.
struct Announce {                     // reply to an Announcer: CountReply
  std::string device;                 // device name or uuid it is about
  Capacity capacity;
};
// "I have room": the worker holds `held` leases and could use `want` more. The head counts grants that are still on
// their way against it, so pulling again before they arrive asks for nothing twice. Nobody answers it.
struct Pull {
  static constexpr uint32_t kHeldUnknown = UINT32_MAX;
  uint32_t held = kHeldUnknown;       // leases received and neither finished nor released, as far as sent
  uint32_t want = 0;
  uint32_t call_slots = 0;            // of them, how many idle pooled hosts for call tasks
  uint64_t free_memory_bytes = 0;
};
struct Grant {
  TaskId task;
  TaskSpec spec;
  Epoch epoch = 0;
  CheckpointRef checkpoint;           // empty: fresh
  CheckpointRef previous_checkpoint;  // used when the first is damaged; the task must then get past the first one's
                                      // step before it commits again: lower steps are stale
  std::vector<std::string> inputs;    // results of the dependencies, in order of spec.dependencies; "" for those
                                      // that are no argument
  std::vector<std::string> input_files;  // as inputs: where a result larger than kInlineResultBytes lies, or "";
                                         // empty when none is a file
};
struct Grants { std::vector<Grant> grants; };

struct Progress {
  TaskId task;
  Epoch epoch = 0;
  Step step = 0;
  uint64_t items_done = 0, items_total = 0;
  HostState state = HostState::kNone;
  uint64_t step_time_p50_us = 0, step_time_p99_us = 0;  // the automatic profile (DESIGN §8)
  uint64_t peak_memory_bytes = 0;
  std::vector<std::pair<std::string, double>> metrics;  // what the task reported last
};
struct Commit {                       // reply: Verdict
  TaskId task;
  CheckpointRef checkpoint;           // epoch is the lease's
  uint64_t items_done = 0, items_total = 0;
};
struct Finish {                       // reply: Verdict
  TaskId task;
  Epoch epoch = 0;
  Step step = 0;
  Status outcome;                     // ok, or the task's error: then it is retried or fails
  ReleaseCause cause = ReleaseCause::kAppFailure;  // read when outcome is not ok
  std::string result;
  std::string result_file;
};
struct FinishBatch { std::vector<Finish> finishes; };     // reply: VerdictBatch, same order
// The worker gives a lease back unfinished; its last commit is where it goes on. Reply: Verdict.
struct Release {
  TaskId task;
  Epoch epoch = 0;
  ReleaseCause cause = ReleaseCause::kPlannedMove;
  std::string detail;
};
struct Verdict {
  TaskId task;
  Epoch epoch = 0;
  Step step = 0;
  Status status;                      // ok (also for a repeat), or kStale: drop it
};
struct VerdictBatch { std::vector<Verdict> verdicts; };
struct Revoke {                       // head → worker: stop at a step boundary, save, commit, release
  TaskId task;
  Epoch epoch = 0;
  ReleaseCause cause = ReleaseCause::kPlannedMove;
  bool discard = false;               // cancelled: kill, save nothing, release
};
struct Drain { bool drain = true; };  // head → worker: pull no more (false: pull again)
struct TaskLog {
  TaskId task;
  Epoch epoch = 0;
  std::vector<std::string> lines;
};
// A running task adds tasks to its own job. (parent, batch) is added once, whoever retries. Reply: NestedReply.
struct NestedSubmit {
  TaskId parent;
  Epoch epoch = 0;
  uint32_t batch = 0;                 // counted by the task from 0
  std::vector<TaskSpec> tasks;        // spec.index counts from 0 in the batch; dependencies likewise, or ≥ 2^31 for
                                      // job index + 2^31
};
struct NestedReply { uint32_t first_index = 0; };  // batch task i became job task first_index + i

using Body = std::variant<Hello, Welcome, SubmitChunk, SubmitReply, WaitJob, JobReply, GetTask, TaskReply, CancelTasks,
                          CountReply, ListJobs, JobsReply, ListTasks, TasksReply, ListWorkers, WorkersReply, GetStatus,
                          StatusReply, ExplainTask, ExplainReply, MigrateTask, DrainWorker, ErrorReply, WorkerHello,
                          Heartbeat, Announce, Pull, Grants, Progress, Commit, Finish, FinishBatch, Release, Verdict,
                          VerdictBatch, Revoke, Drain, TaskLog, NestedSubmit, NestedReply>;

struct Message {
  uint64_t request_id = 0;
  Body body;
};

}  // namespace pillion::wire

#endif  // PILLION_API_WIRE_MESSAGES_H_
