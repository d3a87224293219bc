#include "head/records.h"

#include <algorithm>

#include "base/limits.h"

namespace pillion::head {
namespace {

void AppendBigEndian(uint64_t value, int bytes, std::string* out) {
  for (int i = bytes - 1; i >= 0; --i) out->push_back(static_cast<char>(value >> (8 * i)));
}

uint64_t ReadBigEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (char byte : bytes) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

// Reads the version in front of each value.
Status ReadVersion(ByteReader* reader) {
  uint64_t version = reader->Number();
  if (!reader->ok() || version == 0) return Corruption("the record is empty");
  if (version > kRecordVersion) {
    return Unsupported("record version " + std::to_string(version) + " is newer than " +
                       std::to_string(kRecordVersion) + ", which this build reads: use the newer pillion-head");
  }
  return Status();
}

Status CheckEnd(const ByteReader& reader) {
  if (!reader.ok()) return Corruption("the record is cut off at byte " + std::to_string(reader.position()));
  if (!reader.AtEnd()) return Corruption("bytes follow the record at byte " + std::to_string(reader.position()));
  return Status();
}

void WriteTemplate(const Template& t, ByteWriter* out) {
  out->Number(static_cast<uint64_t>(t.kind));
  out->Text(t.program);
  out->Text(t.library);
  out->Number(t.max_steps);
  out->Signed(t.options.priority);
  out->Number(t.options.memory_bytes);
  out->Number(t.options.device_kind);
  out->Number(t.options.minimum_bubble_us);
  out->Number(t.options.app_retries);
  out->Signed(t.options.deadline_ms);
  out->Number(t.options.wait_for_device ? 1 : 0);
}

Template ReadTemplate(ByteReader* in) {
  Template t;
  t.kind = static_cast<wire::TaskKind>(std::min<uint64_t>(in->Number(), 2));
  t.program = in->Text();
  t.library = in->Text();
  t.max_steps = in->Number();
  t.options.priority = static_cast<int32_t>(in->Signed());
  t.options.memory_bytes = in->Number();
  t.options.device_kind = static_cast<uint8_t>(in->Number());
  t.options.minimum_bubble_us = static_cast<uint32_t>(in->Number());
  t.options.app_retries = static_cast<uint32_t>(in->Number());
  t.options.deadline_ms = in->Signed();
  t.options.wait_for_device = in->Number() != 0;
  return t;
}

void WriteCheckpoint(const wire::CheckpointRef& c, ByteWriter* out) {
  out->Number(c.epoch);
  out->Number(c.step);
  out->Number(c.length_bytes);
  out->Fixed64(c.checksum);
  out->Text(c.bytes);
  out->Text(c.path);
}

wire::CheckpointRef ReadCheckpoint(ByteReader* in) {
  wire::CheckpointRef c;
  c.epoch = in->Number();
  c.step = in->Number();
  c.length_bytes = in->Number();
  c.checksum = in->Fixed64();
  c.bytes = in->Text();
  c.path = in->Text();
  return c;
}

}  // namespace

bool Template::Matches(const wire::TaskSpec& spec) const {
  const wire::TaskOptions &a = options, &b = spec.options;
  return kind == spec.kind && max_steps == spec.max_steps && program == spec.program && library == spec.library &&
         a.priority == b.priority && a.memory_bytes == b.memory_bytes && a.device_kind == b.device_kind &&
         a.minimum_bubble_us == b.minimum_bubble_us && a.app_retries == b.app_retries &&
         a.deadline_ms == b.deadline_ms && a.wait_for_device == b.wait_for_device;
}

std::string JobKey(const JobId& job) {
  std::string key;
  key.reserve(16);
  AppendBigEndian(job.high, 8, &key);
  AppendBigEndian(job.low, 8, &key);
  return key;
}

std::string TaskKey(const JobId& job, uint32_t index) {
  std::string key;
  key.reserve(20);
  AppendBigEndian(job.high, 8, &key);
  AppendBigEndian(job.low, 8, &key);
  AppendBigEndian(index, 4, &key);
  return key;
}

std::string NestedKey(const JobId& job, uint32_t parent, uint32_t batch) {
  std::string key = TaskKey(job, parent);
  AppendBigEndian(batch, 4, &key);
  return key;
}

std::string EncodeNested(const NestedRange& range) {
  ByteWriter out;
  out.Number(kRecordVersion);
  out.Number(range.first);
  out.Number(range.count);
  return out.Take();
}

Result<NestedRange> DecodeNested(std::string_view value) {
  ByteReader in(value);
  PILLION_RETURN_IF_ERROR(ReadVersion(&in));
  uint64_t first = in.Number(), count = in.Number();
  PILLION_RETURN_IF_ERROR(CheckEnd(in));
  if (first + count > limits::kTasksPerJob) return Corruption("the batch goes up to task " + std::to_string(first + count));
  return NestedRange{static_cast<uint32_t>(first), static_cast<uint32_t>(count)};
}

Result<JobId> ParseJobKey(std::string_view key) {
  if (key.size() != 16) return Corruption("a job's key has " + std::to_string(key.size()) + " bytes instead of 16");
  return JobId{ReadBigEndian(key.substr(0, 8)), ReadBigEndian(key.substr(8, 8))};
}

Result<TaskId> ParseTaskKey(std::string_view key) {
  if (key.size() != 20) return Corruption("a task's key has " + std::to_string(key.size()) + " bytes instead of 20");
  TaskId id;
  id.job = {ReadBigEndian(key.substr(0, 8)), ReadBigEndian(key.substr(8, 8))};
  id.index = static_cast<uint32_t>(ReadBigEndian(key.substr(16, 4)));
  return id;
}

std::string EncodeHead(const HeadRecord& record) {
  ByteWriter out;
  out.Number(kRecordVersion);
  out.Number(record.incarnation);
  out.Number(record.next_order);
  return out.Take();
}

Result<HeadRecord> DecodeHead(std::string_view value) {
  ByteReader in(value);
  PILLION_RETURN_IF_ERROR(ReadVersion(&in));
  HeadRecord record;
  record.incarnation = in.Number();
  record.next_order = in.Number();
  PILLION_RETURN_IF_ERROR(CheckEnd(in));
  return record;
}

std::string EncodeJob(const Job& job) {
  ByteWriter out;
  out.Number(kRecordVersion);
  out.Number(job.order);
  out.Signed(job.submitted_wall_ns);
  out.Text(job.options.name);
  out.Text(job.options.owner);
  out.Signed(job.options.priority);
  out.Number(job.tasks.size());
  out.Number(job.chunks.size());
  for (uint64_t checksum : job.chunks) out.Fixed64(checksum);
  return out.Take();
}

Status DecodeJob(std::string_view value, Job* job, uint64_t* tasks) {
  ByteReader in(value);
  PILLION_RETURN_IF_ERROR(ReadVersion(&in));
  job->order = in.Number();
  job->submitted_wall_ns = in.Signed();
  job->options.name = in.Text();
  job->options.owner = in.Text();
  job->options.priority = static_cast<int32_t>(in.Signed());
  *tasks = in.Number();
  if (*tasks > limits::kTasksPerJob) return Corruption("the job claims " + std::to_string(*tasks) + " tasks");
  uint64_t chunks = in.Number();
  for (uint64_t i = 0; i < chunks && in.ok(); ++i) job->chunks.push_back(in.Fixed64());
  return CheckEnd(in);
}

uint32_t PageBuilder::Add(const wire::TaskSpec& spec, Job* job, uint32_t* template_id) {
  auto same = [&](uint32_t id) { return job->templates[id].Matches(spec); };
  // Alike tasks come in runs: the newest templates of the page first, then those of the job.
  uint32_t number = kNone32;
  for (uint32_t i = used_.size(); i-- > 0 && number == kNone32;) {
    if (same(used_[i])) number = i;
  }
  if (number == kNone32) {
    uint32_t id = kNone32;
    size_t oldest = job->templates.size() > 64 ? job->templates.size() - 64 : 0;
    for (size_t i = job->templates.size(); i-- > oldest && id == kNone32;) {
      if (same(static_cast<uint32_t>(i))) id = static_cast<uint32_t>(i);
    }
    if (id == kNone32) {
      id = static_cast<uint32_t>(job->templates.size());
      job->templates.push_back({spec.program, spec.library, spec.kind, spec.max_steps, spec.options, kNone32});
    }
    number = static_cast<uint32_t>(used_.size());
    used_.push_back(id);
  }
  *template_id = used_[number];
  uint32_t offset = static_cast<uint32_t>(body_.size());
  body_.Number(number);
  body_.Text(spec.name);
  body_.Text(spec.arguments);
  body_.Number(spec.dependencies.size());
  for (const wire::Dependency& dependency : spec.dependencies) {
    body_.Number(dependency.index);
    body_.Number(static_cast<uint64_t>(static_cast<int64_t>(dependency.argument) + 1));
  }
  ++tasks_;
  return offset;
}

std::string PageBuilder::Finish(const Job& job, uint32_t* header_bytes) {
  ByteWriter header;
  header.Number(kRecordVersion);
  header.Number(used_.size());
  for (uint32_t id : used_) WriteTemplate(job.templates[id], &header);
  header.Number(tasks_);
  *header_bytes = static_cast<uint32_t>(header.size());
  std::string bytes = header.Take();
  bytes += body_.Take();
  bytes.shrink_to_fit();
  body_ = ByteWriter();
  tasks_ = 0;
  used_.clear();
  return bytes;
}

SpecView ReadSpec(ByteReader* reader) {
  SpecView spec;
  spec.page_template = static_cast<uint32_t>(reader->Number());
  spec.name = reader->Text();
  spec.arguments = reader->Text();
  spec.dependencies = static_cast<uint32_t>(reader->Number());
  return spec;
}

wire::Dependency ReadDependency(ByteReader* reader) {
  wire::Dependency dependency;
  dependency.index = static_cast<uint32_t>(reader->Number());
  dependency.argument = static_cast<int32_t>(static_cast<int64_t>(reader->Number()) - 1);
  return dependency;
}

Result<std::vector<Template>> ReadPageHeader(ByteReader* reader, uint32_t* tasks) {
  PILLION_RETURN_IF_ERROR(ReadVersion(reader));
  uint64_t count = reader->Number();
  std::vector<Template> templates;
  for (uint64_t i = 0; i < count && reader->ok(); ++i) templates.push_back(ReadTemplate(reader));
  *tasks = static_cast<uint32_t>(reader->Number());
  if (!reader->ok()) return Corruption("the record is cut off in its templates");
  return templates;
}

namespace {

ByteReader ReaderAt(const Job& job, uint32_t index) {
  const Task& task = job.tasks[index];
  return ByteReader(std::string_view(job.pages[task.page].bytes).substr(task.offset));
}

}  // namespace

wire::TaskSpec SpecOf(const Job& job, uint32_t index) {
  const Template& t = job.templates[job.tasks[index].template_id];
  ByteReader reader = ReaderAt(job, index);
  SpecView view = ReadSpec(&reader);
  wire::TaskSpec spec;
  spec.index = index;
  spec.name = view.name;
  spec.kind = t.kind;
  spec.program = t.program;
  spec.library = t.library;
  spec.arguments = view.arguments;
  spec.dependencies.reserve(view.dependencies);
  for (uint32_t i = 0; i < view.dependencies; ++i) spec.dependencies.push_back(ReadDependency(&reader));
  spec.max_steps = t.max_steps;
  spec.options = t.options;
  return spec;
}

std::string_view NameOf(const Job& job, uint32_t index) {
  ByteReader reader = ReaderAt(job, index);
  return ReadSpec(&reader).name;
}

std::vector<wire::Dependency> DependenciesOf(const Job& job, uint32_t index) {
  ByteReader reader = ReaderAt(job, index);
  SpecView view = ReadSpec(&reader);
  std::vector<wire::Dependency> dependencies;
  for (uint32_t i = 0; i < view.dependencies; ++i) dependencies.push_back(ReadDependency(&reader));
  return dependencies;
}

std::string EncodeTask(const Task& task) {
  static const Run kNothing;
  const Run& run = task.run ? *task.run : kNothing;
  ByteWriter out;
  out.Number(kRecordVersion);
  out.Number(static_cast<uint64_t>(task.state));
  for (uint64_t number : {run.epoch, run.closed_epoch, run.committed_step, run.items_done, run.items_total}) {
    out.Number(number);
  }
  for (uint32_t number :
       {run.app_failures, run.worker_losses, run.out_of_memory, run.preemptions, run.planned_moves}) {
    out.Number(number);
  }
  out.Text(run.error);
  out.Text(run.result);
  out.Text(run.result_file);
  uint64_t checkpoints = 0;
  if (run.checkpoints) checkpoints = run.checkpoints->previous.exists() ? 2 : 1;
  out.Number(checkpoints);
  if (checkpoints > 0) WriteCheckpoint(run.checkpoints->last, &out);
  if (checkpoints > 1) WriteCheckpoint(run.checkpoints->previous, &out);
  out.Number(run.lost_workers ? run.lost_workers->size() : 0);
  if (run.lost_workers) {
    for (const WorkerId& id : *run.lost_workers) out.Id(id.high, id.low);
  }
  if (task.state == wire::TaskState::kLeased) {
    out.Id(run.lease->worker.high, run.lease->worker.low);
    out.Text(run.lease->worker_name);
  }
  return out.Take();
}

Status DecodeTask(std::string_view value, Task* task) {
  ByteReader in(value);
  PILLION_RETURN_IF_ERROR(ReadVersion(&in));
  uint64_t state = in.Number();
  if (state > static_cast<uint64_t>(wire::TaskState::kSkipped)) {
    return Corruption("the task has state " + std::to_string(state) + ", which does not exist");
  }
  task->state = static_cast<wire::TaskState>(state);
  auto run = std::make_unique<Run>();
  for (uint64_t* number :
       {&run->epoch, &run->closed_epoch, &run->committed_step, &run->items_done, &run->items_total}) {
    *number = in.Number();
  }
  for (uint32_t* number : {&run->app_failures, &run->worker_losses, &run->out_of_memory, &run->preemptions,
                           &run->planned_moves}) {
    *number = static_cast<uint32_t>(in.Number());
  }
  run->step = run->committed_step;
  run->error = in.Text();
  run->result = in.Text();
  run->result_file = in.Text();
  uint64_t checkpoints = in.Number();
  if (checkpoints > 0) {
    run->checkpoints = std::make_unique<Checkpoints>();
    run->checkpoints->last = ReadCheckpoint(&in);
    if (checkpoints > 1) run->checkpoints->previous = ReadCheckpoint(&in);
  }
  uint64_t lost = in.Number();
  for (uint64_t i = 0; i < lost && in.ok(); ++i) {
    if (!run->lost_workers) run->lost_workers = std::make_unique<std::vector<WorkerId>>();
    WorkerId id;
    id.high = in.Fixed64();
    id.low = in.Fixed64();
    run->lost_workers->push_back(id);
  }
  if (task->state == wire::TaskState::kLeased) {
    run->lease = std::make_unique<Lease>();
    run->lease->worker.high = in.Fixed64();
    run->lease->worker.low = in.Fixed64();
    run->lease->worker_name = in.Text();
  }
  PILLION_RETURN_IF_ERROR(CheckEnd(in));
  bool bare = run->epoch == 0 && run->error.empty();
  task->run = bare ? nullptr : std::move(run);
  return Status();
}

std::string ProfileKey(uint8_t device_kind, std::string_view program) {
  return std::string(1, static_cast<char>(device_kind)) + std::string(program);
}

std::string EncodeProfile(const Profile& profile) {
  ByteWriter out;
  out.Number(kRecordVersion);
  out.Number(profile.step_us);
  out.Number(profile.peak_memory_bytes);
  return out.Take();
}

Result<Profile> DecodeProfile(std::string_view value) {
  ByteReader in(value);
  PILLION_RETURN_IF_ERROR(ReadVersion(&in));
  Profile profile;
  profile.step_us = static_cast<uint32_t>(in.Number());
  profile.peak_memory_bytes = in.Number();
  PILLION_RETURN_IF_ERROR(CheckEnd(in));
  return profile;
}

}  // namespace pillion::head
