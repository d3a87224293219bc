// Jobs and tasks as the head holds them in memory. A queued task costs sizeof(Task) plus its encoded spec and 8 bytes
// per edge; what only running or finished tasks need hangs off it.
#ifndef PILLION_HEAD_TASK_H_
#define PILLION_HEAD_TASK_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/wire/messages.h"
#include "base/ids.h"

namespace pillion::head {

inline constexpr uint32_t kNone32 = UINT32_MAX;

// What alike tasks share; every job has a table of these. See SpecPage in head/records.h.
struct Template {
  std::string program;
  std::string library;
  wire::TaskKind kind = wire::TaskKind::kSteps;
  uint64_t max_steps = 0;
  wire::TaskOptions options;
  uint32_t task_class = kNone32;  // of the scheduler; set by the reactor

  bool Matches(const wire::TaskSpec& spec) const;
};

// A task's hold on a worker. Exists exactly while its state is kLeased.
struct Lease {
  WorkerId worker;
  std::string worker_name;
  int64_t granted_ns = 0;
  wire::HostState host_state = wire::HostState::kNone;
  bool attached = true;        // false: after a head restart, until its worker says hello
  bool revoking = false;       // asked to come back …
  int64_t revoked_ns = 0;      // … last then
  uint8_t unlisted = 0;        // heartbeats of the worker in a row that did not list it
  WorkerId reserved_target;    // planned move: where it goes next; zero: wherever the policy says
};

struct Checkpoints {
  wire::CheckpointRef last, previous;
};

// What a task has once it has been granted.
struct Run {
  Epoch epoch = 0;
  Epoch closed_epoch = 0;      // its newest lease that ended by the worker's own report: repeats of it are ok
  Step step = 0;               // last reported; not stored
  Step committed_step = 0;
  uint64_t items_done = 0, items_total = 0;
  uint32_t app_failures = 0, worker_losses = 0, out_of_memory = 0, preemptions = 0, planned_moves = 0;
  std::string error;
  std::string result;
  std::string result_file;
  std::unique_ptr<Checkpoints> checkpoints;
  std::unique_ptr<std::vector<WorkerId>> lost_workers;  // different ones that went silent while they held it
  std::unique_ptr<Lease> lease;
};

struct Task {
  uint32_t unmet = 0;               // dependencies that have not succeeded
  uint32_t first_edge = kNone32;    // into Job::edges: who waits for it
  uint32_t ticket = 0;              // counts departures from kQueued, so that old ready entries are told apart
  uint32_t page = 0;                // its spec: Job::pages[page].bytes from `offset`
  uint32_t offset = 0;
  uint32_t template_id = 0;         // into Job::templates
  wire::TaskState state = wire::TaskState::kWaiting;
  bool changed = false;             // its record is to be written this turn
  std::unique_ptr<Run> run;         // null: never granted, and not ended with an error text
};

struct Edge {
  uint32_t dependent = 0;
  uint32_t next = kNone32;
};

struct Page {
  uint32_t first_index = 0;
  std::string bytes;
};

struct Job {
  JobId id;
  uint32_t slot = 0;                // its place in the queue's table
  wire::JobOptions options;
  uint32_t owner = 0;               // options.owner, interned
  uint64_t order = 0;               // of submission: task i has order + i
  int64_t submitted_wall_ns = 0;
  int64_t submitted_ns = 0;         // for deadlines; after a head restart, the restart
  int64_t finished_ns = 0;
  bool committed = false;           // the last chunk has come and was fine
  bool changed = false;             // listed among this turn's changed jobs
  std::vector<uint64_t> chunks;     // checksum of each submitted chunk
  std::vector<uint32_t> chunk_first;  // first task index of each chunk
  std::vector<Template> templates;
  std::vector<Page> pages;
  std::vector<Task> tasks;
  std::vector<Edge> edges;
  uint64_t counts[7] = {};          // tasks by state
  uint64_t version = 0;
  uint32_t first_open = 0;          // all tasks before it are final
  std::map<std::pair<uint32_t, uint32_t>, std::pair<uint32_t, uint32_t>> nested;  // parent, batch → first index, count
  bool listed_as_finished = false;  // the reactor knows that it may be forgotten some day

  bool finished() const {
    return committed && counts[0] == 0 && counts[1] == 0 && counts[2] == 0;
  }
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_TASK_H_
