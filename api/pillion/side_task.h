// SideTask: work that fits into bubbles, one bounded step at a time. This header is all that an author includes.
//
//   class Checksum : public pillion::SideTask { … };
//   PILLION_SIDE_TASK("checksum", Checksum, pillion::Devices::kCpu);
//
// A task host creates one object per task and calls it from one thread, in this order:
//   Init, Load, (Step* Save?)*, Finish | Unload. After Unload the object is destroyed.
// Init, Save, Finish and host parts run at idle scheduling priority; only Step (and device parts of Load, Save,
// Unload) may use the device, and only within a turn. A step returns only after its device work has finished.
#ifndef PILLION_SIDE_TASK_H_
#define PILLION_SIDE_TASK_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/device/device.h"
#include "base/ids.h"
#include "base/status.h"
#include "pillion/arguments.h"

namespace pillion {

class InitContext {
 public:
  virtual ~InitContext() = default;
  virtual const Arguments& arguments() const = 0;
  virtual const TaskId& task() const = 0;
  // Results of the tasks this one depends on, in order.
  virtual const std::vector<std::string>& inputs() const = 0;
  virtual const DeviceInfo& device() const = 0;

  // Most device memory the task will hold; the pool enforces it. Default 0: host memory only.
  virtual void DeclareMemory(uint64_t bytes) = 0;
  // The task sizes its steps to StepContext::time_left_ns(). Default: steps of fixed size.
  virtual void DeclareElastic() = 0;
  // Total items, for progress and time to go. Default unknown.
  virtual void DeclareItems(uint64_t total) = 0;
  virtual void Log(std::string_view line) = 0;
};

class StepContext {
 public:
  virtual ~StepContext() = default;
  virtual Device& device() = 0;
  virtual Stream stream() = 0;
  virtual Step step() const = 0;           // steps done before this one
  virtual int64_t time_left_ns() const = 0;  // until the turn ends; large without a trainer
  virtual bool stop_requested() const = 0;  // true: return soon, at any item boundary
  virtual void Log(std::string_view line) = 0;
  virtual void ReportMetric(std::string_view name, double value) = 0;
};

struct StepOutcome {
  bool done = false;       // nothing is left to do
  uint64_t items = 0;      // items that this step advanced by
};

// Sequential bytes of a saved state. Integers in the host's (little-endian) order.
class CheckpointWriter {
 public:
  virtual ~CheckpointWriter() = default;
  virtual Status Write(const void* data, size_t bytes) = 0;

  template <typename T>
  Status WriteValue(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return Write(&value, sizeof value);
  }
  Status WriteText(std::string_view text) {
    PILLION_RETURN_IF_ERROR(WriteValue<uint64_t>(text.size()));
    return Write(text.data(), text.size());
  }
};

class CheckpointReader {
 public:
  virtual ~CheckpointReader() = default;
  // Exactly `bytes`, or kCorruption when fewer are left.
  virtual Status Read(void* to, size_t bytes) = 0;
  virtual size_t remaining() const = 0;

  template <typename T>
  Status ReadValue(T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return Read(value, sizeof *value);
  }
  Status ReadText(std::string* text);
};

class SideTask {
 public:
  virtual ~SideTask() = default;
  // Reads arguments and input files, prepares host state, declares. An error fails the task with this text.
  virtual Status Init(InitContext& context) = 0;
  // Onto the device: from a checkpoint that Save wrote, or fresh when `checkpoint` is nullptr.
  virtual Status Load(Device& device, CheckpointReader* checkpoint) = 0;
  // One bounded unit. The same state always yields the same next state, however the steps are cut.
  virtual Result<StepOutcome> Step(StepContext& context) = 0;
  // At a step boundary: everything that Load needs to go on.
  virtual Status Save(CheckpointWriter& checkpoint) = 0;
  // After a step said done (or max_steps): the result, up to limits::kInlineResultBytes (larger: write a file and
  // return its description). Shipped programs return a JSON object.
  virtual Result<std::string> Finish() = 0;
  // Gives back all device memory.
  virtual void Unload() = 0;
};

enum class Devices : uint8_t { kCpu = 1, kCuda = 2, kCpuAndCuda = 3 };

// ---- registration: what a program library makes known when it is loaded ---------------------------------

using SideTaskFactory = std::function<std::unique_ptr<SideTask>()>;
// Takes and returns encoded values (serialize.h). Runs on the device's host in one piece: keep it short.
using CallFunction = std::function<Result<std::string>(std::string_view encoded_arguments)>;

struct Program {
  std::string name;
  Devices devices = Devices::kCpu;
  std::string help;           // one line for people
  SideTaskFactory make_task;  // steps programs
  CallFunction call;          // call programs; exactly one of the two is set
};

// Process-wide. Registration happens while libraries load (one thread); look-ups are thread-safe after.
class ProgramRegistry {
 public:
  static ProgramRegistry& Global();
  // Two programs of one name: the first stays and the second is reported by Find as kAlreadyExists.
  void Register(Program program);
  // kNotFound names the nearest known program.
  Result<const Program*> Find(std::string_view name) const;
  std::vector<const Program*> All() const;  // by name

 private:
  struct State;
  State* state();
};

struct ProgramRegistration {
  explicit ProgramRegistration(Program program) { ProgramRegistry::Global().Register(std::move(program)); }
};

#define PILLION_JOIN_INNER(a, b) a##b
#define PILLION_JOIN(a, b) PILLION_JOIN_INNER(a, b)
#define PILLION_SIDE_TASK(name, Class, devices)                                          \
  static const ::pillion::ProgramRegistration PILLION_JOIN(pillion_program_, __COUNTER__)( \
      ::pillion::Program{name, devices, "", [] { return std::make_unique<Class>(); }, nullptr})

}  // namespace pillion

#endif  // PILLION_SIDE_TASK_H_
