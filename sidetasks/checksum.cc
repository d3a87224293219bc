// checksum: the smallest side task. Reads a file in pieces of 64 KiB and chains their checksums.
//   {"path": "/usr/bin/bash"} → {"bytes": 1234567, "checksum": "0123456789abcdef"}
#include "base/checksum.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/file.h"
#include "pillion/side_task.h"
#include "sidetasks/step_pacer.h"

namespace pillion::sidetasks {
namespace {

class Checksum final : public SideTask {
 public:
  Status Init(InitContext& context) override {
    PILLION_ASSIGN_OR_RETURN(path_, context.arguments().Text("path"));
    PILLION_RETURN_IF_ERROR(pacer_.Init(context));
    PILLION_RETURN_IF_ERROR(context.arguments().CheckAllKnown());
    file_ = FileDescriptor(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    return file_.valid() ? Status::Ok() : ErrnoStatus("open " + path_);
  }

  Status Load(Device&, CheckpointReader* checkpoint) override {
    if (checkpoint == nullptr) return Status::Ok();
    PILLION_RETURN_IF_ERROR(checkpoint->ReadValue(&offset_));
    return checkpoint->ReadValue(&checksum_);
  }

  Result<StepOutcome> Step(StepContext& context) override {
    StepOutcome outcome;
    pacer_.BeginStep(context);
    do {
      ssize_t got = pread(file_.get(), piece_.data(), piece_.size(), static_cast<off_t>(offset_));
      if (got < 0) return ErrnoStatus("read " + path_);
      const uint64_t link[2] = {checksum_, Checksum64(piece_.data(), static_cast<size_t>(got))};
      checksum_ = Checksum64(link, sizeof link);
      offset_ += static_cast<uint64_t>(got);
      outcome.items += 1;
      outcome.done = got < static_cast<ssize_t>(piece_.size());
    } while (!outcome.done && pacer_.AnotherFits());
    return outcome;
  }

  Status Save(CheckpointWriter& checkpoint) override {
    PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(offset_));
    return checkpoint.WriteValue(checksum_);
  }

  Result<std::string> Finish() override {
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, checksum_);
    return nlohmann::json({{"bytes", offset_}, {"checksum", text}}).dump();
  }

  void Unload() override {}

 private:
  StepPacer pacer_;
  std::string path_;
  FileDescriptor file_;
  std::vector<char> piece_ = std::vector<char>(64 << 10);
  uint64_t offset_ = 0;    // all before it is in
  uint64_t checksum_ = 0;  // this
};

PILLION_SIDE_TASK("checksum", Checksum, Devices::kCpu);

}  // namespace
}  // namespace pillion::sidetasks
