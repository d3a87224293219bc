#include "harness.h"

#include <stdlib.h>

#include <cstring>
#include <filesystem>

#include "base/clock.h"
#include "base/file.h"

namespace pillion::testing {
namespace {

class Writer final : public CheckpointWriter {
 public:
  Status Write(const void* data, size_t bytes) override {
    text_.append(static_cast<const char*>(data), bytes);
    return Status::Ok();
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Reader final : public CheckpointReader {
 public:
  explicit Reader(std::string text) : text_(std::move(text)) {}
  Status Read(void* to, size_t bytes) override {
    if (bytes > remaining()) return Corruption("checkpoint: it ends early");
    std::memcpy(to, text_.data() + at_, bytes);
    at_ += bytes;
    return Status::Ok();
  }
  size_t remaining() const override { return text_.size() - at_; }

 private:
  std::string text_;
  size_t at_ = 0;
};

class Context final : public InitContext {
 public:
  Context(const Arguments& arguments, const DeviceInfo& device, RunReport* report)
      : arguments_(arguments), device_(device), report_(report) {}
  const Arguments& arguments() const override { return arguments_; }
  const TaskId& task() const override { return task_; }
  const std::vector<std::string>& inputs() const override { return inputs_; }
  const DeviceInfo& device() const override { return device_; }
  void DeclareMemory(uint64_t bytes) override { report_->declared_memory = bytes; }
  void DeclareElastic() override { report_->elastic = true; }
  void DeclareItems(uint64_t total) override { report_->declared_items = total; }
  void Log(std::string_view) override {}

 private:
  const Arguments& arguments_;
  const DeviceInfo& device_;
  RunReport* report_;
  TaskId task_;
  std::vector<std::string> inputs_;
};

class StepFor final : public StepContext {
 public:
  StepFor(Device* device, Step step, const RunOptions& options)
      : device_(device), step_(step), options_(options) {}
  Device& device() override { return *device_; }
  Stream stream() override { return nullptr; }
  Step step() const override { return step_; }
  int64_t time_left_ns() const override { return options_.time_left_ns; }
  bool stop_requested() const override { return options_.stop_at_once; }
  void Log(std::string_view) override {}
  void ReportMetric(std::string_view, double) override {}

 private:
  Device* device_;
  Step step_;
  const RunOptions& options_;
};

// One task object with its device.
struct Session {
  std::unique_ptr<Device> device;
  std::unique_ptr<SideTask> task;

  Status Open(const std::string& program, const std::string& text, RunReport* report) {
    PILLION_ASSIGN_OR_RETURN(const Program* found, ProgramRegistry::Global().Find(program));
    PILLION_ASSIGN_OR_RETURN(Arguments arguments, Arguments::Parse(text));
    DeviceInfo info;
    info.index = -1;
    info.name = "cpu0";
    task = found->make_task();
    Context context(arguments, info, report);
    PILLION_RETURN_IF_ERROR(task->Init(context));
    // The pool holds what was declared and nothing more.
    device = MakeCpuDevice(info, std::max<uint64_t>(report->declared_memory, 1));
    return Status::Ok();
  }
  Status Load(const std::string* state) {
    if (state == nullptr) return task->Load(*device, nullptr);
    Reader reader(*state);
    PILLION_RETURN_IF_ERROR(task->Load(*device, &reader));
    if (reader.remaining() != 0) return Corruption("checkpoint: Load left something unread");
    return Status::Ok();
  }
  Result<std::string> Save() {
    Writer writer;
    PILLION_RETURN_IF_ERROR(task->Save(writer));
    return writer.text();
  }
  Status Unload() {
    task->Unload();
    return device->allocated_bytes() == 0 ? Status::Ok() : Internal("Unload kept device memory");
  }
};

Status RunSteps(const std::string& program, const std::string& arguments, const RunOptions& options,
                RunReport* report) {
  Session session;
  PILLION_RETURN_IF_ERROR(session.Open(program, arguments, report));
  PILLION_RETURN_IF_ERROR(session.Load(nullptr));
  while (true) {
    if (report->steps >= options.steps_at_most) return Internal("the task does not end");
    StepFor context(session.device.get(), report->steps, options);
    int64_t begin_ns = MonotonicNowNs();
    PILLION_ASSIGN_OR_RETURN(StepOutcome outcome, session.task->Step(context));
    report->step_ns.push_back(MonotonicNowNs() - begin_ns);
    report->longest_step_ns = std::max(report->longest_step_ns, report->step_ns.back());
    ++report->steps;
    report->items += outcome.items;
    if (outcome.done) break;
    bool move = report->steps == options.move_after ||
                (options.move_every != 0 && report->steps % options.move_every == 0);
    if (!move) continue;
    PILLION_ASSIGN_OR_RETURN(std::string state, session.Save());
    PILLION_RETURN_IF_ERROR(session.Unload());
    session = Session();
    PILLION_RETURN_IF_ERROR(session.Open(program, arguments, report));
    PILLION_RETURN_IF_ERROR(session.Load(&state));
    ++report->moves;
  }
  PILLION_ASSIGN_OR_RETURN(report->result, session.task->Finish());
  return session.Unload();
}

}  // namespace

RunReport RunProgram(const std::string& program, const std::string& arguments,
                     const RunOptions& options) {
  RunReport report;
  report.status = RunSteps(program, arguments, options, &report);
  return report;
}

Result<std::string> SaveAfter(const std::string& program, const std::string& arguments,
                              uint64_t steps) {
  RunReport report;
  RunOptions options;
  Session session;
  PILLION_RETURN_IF_ERROR(session.Open(program, arguments, &report));
  PILLION_RETURN_IF_ERROR(session.Load(nullptr));
  for (uint64_t i = 0; i < steps; ++i) {
    StepFor context(session.device.get(), i, options);
    PILLION_RETURN_IF_ERROR(session.task->Step(context).status());
  }
  return session.Save();
}

Status LoadFrom(const std::string& program, const std::string& arguments,
                const std::string& state) {
  RunReport report;
  Session session;
  PILLION_RETURN_IF_ERROR(session.Open(program, arguments, &report));
  return session.Load(&state);
}

TemporaryFolder::TemporaryFolder() {
  char name[] = "/tmp/pillion-sidetask-XXXXXX";
  path_ = mkdtemp(name);
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

std::string TemporaryFolder::File(const std::string& name, const std::string& bytes) const {
  std::string path = *this / name;
  if (!WriteFileAtomically(path, bytes).ok()) std::abort();
  return path;
}

}  // namespace pillion::testing
