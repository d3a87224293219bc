// The head's stored records, byte for byte (bytes.h). Each value starts with kRecordVersion. Grammar:
//
//   kHead  "state"        = version, incarnation, next order
//          "drain/" name  = version                                    an operator drains this worker
//   kJob   job            = version, order, wall, name, owner, priority (signed), tasks, n, n × checksum64
//   kNested job, parent, batch = version, first index, tasks            what a running task added, in one batch
//   kSpecs job, first     = version, n, n × template, m, m × task      SpecPage, m consecutive tasks
//     template            = kind, program, library, max steps, priority (signed), memory, device kind,
//                           minimum bubble, retries, deadline (signed), wait for device
//     task                = template, name, arguments, n, n × (dependency index, argument + 1)
//   kTask  job, index     = version, state, epoch, closed epoch, committed step, items done, items total,
//                           app failures, worker losses, out of memory, preemptions, planned moves,
//                           error, result, result file, n ≤ 2 × checkpoint, n × lost worker id,
//                           [worker id, worker name]                   the last two only when leased
//     checkpoint          = epoch, step, length, checksum64, bytes, path
//   kProfile device kind, program = version, step time in us, peak memory
//
// Keys hold ids and indices big endian, so that they sort. A task without a kTask record is as it was submitted:
// waiting, or queued when it has no dependencies. Versions only grow; newer ones are kUnsupported.
#ifndef PILLION_HEAD_RECORDS_H_
#define PILLION_HEAD_RECORDS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "head/bytes.h"
#include "head/task.h"

namespace pillion::head {

inline constexpr uint64_t kRecordVersion = 1;

std::string JobKey(const JobId& job);
std::string TaskKey(const JobId& job, uint32_t index);  // also of kSpecs, with the first index
std::string NestedKey(const JobId& job, uint32_t parent, uint32_t batch);
Result<JobId> ParseJobKey(std::string_view key);
Result<TaskId> ParseTaskKey(std::string_view key);

struct HeadRecord {
  uint64_t incarnation = 0;
  uint64_t next_order = 0;
};
std::string EncodeHead(const HeadRecord& record);
Result<HeadRecord> DecodeHead(std::string_view value);

// Tasks that one batch of a running task added.
struct NestedRange {
  uint32_t first = 0;
  uint32_t count = 0;
};
std::string EncodeNested(const NestedRange& range);
Result<NestedRange> DecodeNested(std::string_view value);

std::string EncodeJob(const Job& job);
// Fills what the record holds; `tasks` is how many tasks were submitted (running ones may have added more).
Status DecodeJob(std::string_view value, Job* job, uint64_t* tasks);

// Builds the pages of consecutive tasks.
class PageBuilder {
 public:
  // `job`'s templates grow; the page remembers the ones it uses. Returns the task's offset from the page's first
  // task: add Finish's header_bytes for its place in the page.
  uint32_t Add(const wire::TaskSpec& spec, Job* job, uint32_t* template_id);
  uint32_t tasks() const { return tasks_; }
  size_t bytes() const { return body_.size(); }
  // The page's bytes; the builder is empty again.
  std::string Finish(const Job& job, uint32_t* header_bytes);

 private:
  ByteWriter body_;
  uint32_t tasks_ = 0;
  std::vector<uint32_t> used_;  // job template ids, by number in the page
};

// One task of a page without its template.
struct SpecView {
  uint32_t page_template = 0;
  std::string_view name;
  std::string_view arguments;
  uint32_t dependencies = 0;  // how many follow: read each with ReadDependency
};
SpecView ReadSpec(ByteReader* reader);
wire::Dependency ReadDependency(ByteReader* reader);
// Templates at the front of a page, and the number of tasks that follow.
Result<std::vector<Template>> ReadPageHeader(ByteReader* reader, uint32_t* tasks);

// The full spec of a task, as it was submitted.
wire::TaskSpec SpecOf(const Job& job, uint32_t index);
std::string_view NameOf(const Job& job, uint32_t index);
// Just its dependencies.
std::vector<wire::Dependency> DependenciesOf(const Job& job, uint32_t index);

std::string EncodeTask(const Task& task);
Status DecodeTask(std::string_view value, Task* task);

struct Profile {
  uint32_t step_us = 0;
  uint64_t peak_memory_bytes = 0;
};
std::string ProfileKey(uint8_t device_kind, std::string_view program);
std::string EncodeProfile(const Profile& profile);
Result<Profile> DecodeProfile(std::string_view value);

}  // namespace pillion::head

#endif  // PILLION_HEAD_RECORDS_H_
