// Programs that behave well and badly, for tests of the task host.
#include <stdexcept>
#include <string>

#include "pillion/function.h"
#include "pillion/side_task.h"

namespace {

using pillion::Result;
using pillion::Status;

int Square(int x) { return x * x; }
PILLION_FUNCTION(Square);
int Add(int a, int b) { return a + b; }
PILLION_FUNCTION(Add);
int Throw(int x) { throw std::runtime_error("thrown " + std::to_string(x)); }
PILLION_FUNCTION(Throw);

// Counts to `count`, `step_items` at a time; its arguments say where it goes wrong.
class Counter : public pillion::SideTask {
 public:
  Status Init(pillion::InitContext& context) override {
    PILLION_ASSIGN_OR_RETURN(count_, context.arguments().Integer("count", 100));
    PILLION_ASSIGN_OR_RETURN(throw_at_, context.arguments().Integer("throw_at", -1));
    PILLION_ASSIGN_OR_RETURN(refuse_load_, context.arguments().Boolean("refuse_load", false));
    PILLION_ASSIGN_OR_RETURN(allocate_, context.arguments().Integer("allocate", 0));
    PILLION_ASSIGN_OR_RETURN(padding_, context.arguments().Integer("padding", 0));
    if (allocate_ != 0) context.DeclareMemory(4096);
    context.DeclareItems(static_cast<uint64_t>(count_));
    context.Log("counting to " + std::to_string(count_));
    return Status::Ok();
  }
  Status Load(pillion::Device& device, pillion::CheckpointReader* checkpoint) override {
    if (loaded_) return pillion::Internal("loaded twice");
    loaded_ = true;
    if (checkpoint == nullptr) return Status::Ok();
    if (refuse_load_) return pillion::NotFound("the input file is gone");
    PILLION_RETURN_IF_ERROR(checkpoint->ReadValue(&at_));
    std::string padding;
    PILLION_RETURN_IF_ERROR(checkpoint->ReadText(&padding));
    if (padding.size() != static_cast<size_t>(padding_)) return pillion::Corruption("wrong padding");
    return Status::Ok();
  }
  Result<pillion::StepOutcome> Step(pillion::StepContext& context) override {
    if (at_ == throw_at_) throw std::runtime_error("thrown at " + std::to_string(at_));
    if (allocate_ != 0) {
      PILLION_ASSIGN_OR_RETURN(void* memory, context.device().Allocate(static_cast<size_t>(allocate_)));
      context.device().Free(memory);
    }
    ++at_;
    for (int i = 0; i < 50; ++i) context.ReportMetric("at", static_cast<double>(at_));
    return pillion::StepOutcome{at_ >= count_, 1};
  }
  Status Save(pillion::CheckpointWriter& checkpoint) override {
    PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(at_));
    return checkpoint.WriteText(std::string(static_cast<size_t>(padding_), 'p'));
  }
  Result<std::string> Finish() override { return "{\"count\":" + std::to_string(at_) + "}"; }
  void Unload() override {}

 private:
  int64_t count_ = 0, throw_at_ = -1, at_ = 0, allocate_ = 0, padding_ = 0;
  bool refuse_load_ = false, loaded_ = false;
};
PILLION_SIDE_TASK("test.counter", Counter, pillion::Devices::kCpu);

}  // namespace
