// image.resize_watermark: every JPEG and PNG of a folder, resized and marked, into another folder.
//   {"input": "/usr/share/wallpapers", "output": "/tmp/small", "width": 256, "height": 0, "filter":
//   "area" | "lanczos",
//    "watermark": "PILLION", "opacity": 0.5, "quality": 85, "on_error": "fail" | "skip"}
//   → {"pictures", "failed", "failures": ["name: reason", …], "checksum", "output"}
// An item is one unit of one picture (picture.h). Files appear whole or not at all, and are on disk
// before a checkpoint counts them.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/file.h"
#include "pillion/side_task.h"
#include "sidetasks/image/picture.h"
#include "sidetasks/step_pacer.h"

namespace pillion::sidetasks {
namespace {

constexpr size_t kFailuresListed = 50;
constexpr size_t kFailureBytes = 300;

bool HasPictureName(const std::string& name) {
  std::string extension = std::filesystem::path(name).extension().string();
  for (char& c : extension) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

class ResizeWatermark final : public SideTask {
 public:
  Status Init(InitContext& context) override {
    PILLION_RETURN_IF_ERROR(ReadArguments(context.arguments()));
    PILLION_RETURN_IF_ERROR(pacer_.Init(context));
    PILLION_RETURN_IF_ERROR(context.arguments().CheckAllKnown());
    Result<std::vector<std::string>> names = ListDirectory(input_);
    if (!names.ok()) return names.status().WithContext("argument 'input'");
    std::copy_if(names->begin(), names->end(), std::back_inserter(names_), HasPictureName);
    if (names_.empty())
      return InvalidArgument("argument 'input': no .jpg, .jpeg or .png file in " + input_);
    PILLION_RETURN_IF_ERROR(MakeDirectories(output_).WithContext("argument 'output'"));
    std::error_code error;
    if (std::filesystem::equivalent(input_, output_, error)) {
      return InvalidArgument("arguments 'input' and 'output' name the same folder, " + input_);
    }
    context.DeclareItems(names_.size());
    return Status::Ok();
  }

  Status Load(Device&, CheckpointReader* checkpoint) override {
    if (checkpoint != nullptr) return Restore(*checkpoint);
    StartPicture();
    return Status::Ok();
  }

  Result<StepOutcome> Step(StepContext& context) override {
    StepOutcome outcome;
    pacer_.BeginStep(context);
    do {
      Result<bool> finished = picture_->Advance();
      if (!finished.ok()) {
        PILLION_RETURN_IF_ERROR(TakeFailure(finished.status()));
      } else if (*finished) {
        PILLION_RETURN_IF_ERROR(TakePicture());
      } else {
        continue;
      }
      ++outcome.items;
      ++counts_.next;
      StartPicture();
    } while (picture_ != nullptr && pacer_.AnotherFits());
    outcome.done = picture_ == nullptr;
    return outcome;
  }

  Status Save(CheckpointWriter& checkpoint) override {
    PILLION_RETURN_IF_ERROR(SyncOutputs());
    PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(Fingerprint()));
    PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(counts_));
    PILLION_RETURN_IF_ERROR(checkpoint.WriteValue<uint64_t>(failures_.size()));
    for (const std::string& failure : failures_)
      PILLION_RETURN_IF_ERROR(checkpoint.WriteText(failure));
    return picture_ == nullptr ? Status::Ok() : picture_->Save(checkpoint);
  }

  Result<std::string> Finish() override {
    PILLION_RETURN_IF_ERROR(SyncOutputs());
    char checksum[17];
    std::snprintf(checksum, sizeof checksum, "%016" PRIx64, counts_.checksum);
    return nlohmann::json({{"pictures", counts_.next - counts_.failed},
                           {"failed", counts_.failed},
                           {"failures", failures_},
                           {"checksum", checksum},
                           {"output", output_}})
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  void Unload() override { picture_.reset(); }

 private:
  struct Counts {
    uint64_t next = 0;  // picture
    uint64_t failed = 0;
    uint64_t checksum = 0;  // chained over the files written
  };

  Status ReadArguments(const Arguments& arguments) {
    PILLION_ASSIGN_OR_RETURN(input_, arguments.Text("input"));
    PILLION_ASSIGN_OR_RETURN(output_, arguments.Text("output"));
    PILLION_ASSIGN_OR_RETURN(int64_t width, arguments.Integer("width", 256, 1, 16384));
    PILLION_ASSIGN_OR_RETURN(int64_t height, arguments.Integer("height", 0, 0, 16384));
    PILLION_ASSIGN_OR_RETURN(std::string filter, arguments.Text("filter", "area"));
    PILLION_ASSIGN_OR_RETURN(options_.watermark, arguments.Text("watermark", "PILLION"));
    PILLION_ASSIGN_OR_RETURN(double opacity, arguments.Number("opacity", 0.5));
    PILLION_ASSIGN_OR_RETURN(int64_t quality, arguments.Integer("quality", 85, 1, 100));
    PILLION_ASSIGN_OR_RETURN(int64_t megapixels, arguments.Integer("max_megapixels", 64, 1, 1000));
    PILLION_ASSIGN_OR_RETURN(std::string on_error, arguments.Text("on_error", "fail"));
    if (filter != "area" && filter != "lanczos")
      return InvalidArgument("argument 'filter' must be area or lanczos");
    if (on_error != "fail" && on_error != "skip")
      return InvalidArgument("argument 'on_error' must be fail or skip");
    if (!(opacity >= 0 && opacity <= 1))
      return InvalidArgument("argument 'opacity' must be from 0 to 1");
    PILLION_RETURN_IF_ERROR(Watermark::Check(options_.watermark));
    options_.width = static_cast<uint32_t>(width);
    options_.height = static_cast<uint32_t>(height);
    options_.filter = filter == "area" ? ResampleFilter::kArea : ResampleFilter::kLanczos;
    options_.opacity = static_cast<int>(opacity * 255 + 0.5);
    options_.quality = static_cast<int>(quality);
    options_.pixels_at_most = static_cast<uint64_t>(megapixels) * 1'000'000;
    skip_broken_ = on_error == "skip";
    return Status::Ok();
  }

  void StartPicture() {
    picture_.reset();
    if (counts_.next < names_.size()) {
      picture_ = std::make_unique<Picture>(&options_, input_ + "/" + names_[counts_.next]);
    }
  }

  Status TakePicture() {
    const std::string& name = names_[counts_.next];
    std::string path = output_ + "/" + name;
    PILLION_RETURN_IF_ERROR(WriteFileAtomically(path, picture_->output()));
    unsynced_.push_back(std::move(path));
    const uint64_t link[3] = {counts_.checksum, Checksum64(name), Checksum64(picture_->output())};
    counts_.checksum = Checksum64(link, sizeof link);
    return Status::Ok();
  }

  Status TakeFailure(const Status& status) {
    const std::string& name = names_[counts_.next];
    if (!skip_broken_) {
      return TaskFailed("picture " + input_ + "/" + name + ": " + status.message() +
                        " (with on_error=skip the others go on)");
    }
    ++counts_.failed;
    if (failures_.size() < kFailuresListed) {
      failures_.push_back((name + ": " + status.message()).substr(0, kFailureBytes));
    }
    return Status::Ok();
  }

  Status SyncOutputs() {
    for (const std::string& path : unsynced_) {
      FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
      if (!file.valid()) return ErrnoStatus("open " + path);
      if (fsync(file.get()) != 0) return ErrnoStatus("fsync " + path);
    }
    if (!unsynced_.empty()) PILLION_RETURN_IF_ERROR(FsyncDirectory(output_));
    unsynced_.clear();
    return Status::Ok();
  }

  uint64_t Fingerprint() const {
    std::string all;
    for (const std::string& name : names_) all += name + "/";
    return Checksum64(all);
  }

  Status Restore(CheckpointReader& checkpoint) {
    uint64_t fingerprint = 0, failures = 0;
    PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&fingerprint));
    if (fingerprint != Fingerprint()) {
      return FailedPrecondition("the pictures in " + input_ +
                                " have changed since the checkpoint: submit the task "
                                "again");
    }
    PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&counts_));
    PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&failures));
    if (counts_.next > names_.size() || failures > kFailuresListed) {
      return Corruption("checkpoint: a position beyond the last picture");
    }
    failures_.resize(failures);
    for (std::string& failure : failures_) PILLION_RETURN_IF_ERROR(checkpoint.ReadText(&failure));
    StartPicture();
    return picture_ == nullptr ? Status::Ok() : picture_->Load(checkpoint);
  }

  StepPacer pacer_;
  std::string input_, output_;
  PictureOptions options_;
  bool skip_broken_ = false;
  std::vector<std::string> names_;  // sorted

  Counts counts_;
  std::vector<std::string> failures_;
  std::unique_ptr<Picture> picture_;   // the one in work; nullptr: all are done
  std::vector<std::string> unsynced_;  // written and perhaps not yet on disk
};

PILLION_SIDE_TASK("image.resize_watermark", ResizeWatermark, Devices::kCpu);

}  // namespace
}  // namespace pillion::sidetasks
