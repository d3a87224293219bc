// pillion-demo: what `pillion demo` runs.
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"
#include "cli/demo/demo.h"
#include "cli/demo/report.h"

namespace {

using nlohmann::json;
using namespace pillion;  // NOLINT: a program of one file

constexpr int kFailed = 1, kUsage = 2, kInterrupted = 130;

struct Options {
  demo::DemoOptions demo;
  std::string trainer = "auto", keep, timeline;
  bool as_json = false;
};

// A private directory that goes away with this object, unless it is to be kept.
class Directory {
 public:
  static Result<Directory> Temporary(const std::string& parent) {
    std::string path = parent + "/pillion-demo-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return ErrnoStatus("make a directory in " + parent);
    return Directory(path, true);
  }
  static Result<Directory> Kept(const std::string& path) {
    std::error_code error;
    const std::string absolute = std::filesystem::absolute(path, error);
    auto names = ListDirectory(absolute);
    if (names.ok() && !names->empty()) return AlreadyExists("--keep " + path + ": it is not empty");
    PILLION_RETURN_IF_ERROR(MakePrivateDirectory(absolute).WithContext("--keep"));
    return Directory(absolute, false);
  }
  Directory(Directory&& other) noexcept : path_(std::exchange(other.path_, "")), remove_(other.remove_) {}
  ~Directory() {
    std::error_code ignored;
    if (remove_ && !path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  Directory(std::string path, bool remove) : path_(std::move(path)), remove_(remove) {}
  std::string path_;
  bool remove_;
};

void AddOptions(CLI::App* app, Options* o) {
  app->add_flag("--json", o->as_json, "print one JSON value");
  app->add_option("--seconds", o->demo.seconds, "how long the training with side tasks lasts, about")
      ->check(CLI::Range(1.0, 3600.0))->capture_default_str();
  app->add_option("--iterations", o->demo.iterations, "train so many iterations instead, rounded down to 8 + 32 n")
      ->check(CLI::Range(uint64_t{demo::IterationsOf(2)}, uint64_t{demo::IterationsOf(demo::kMostGroups)}));
  app->add_option("--reference-iterations", o->demo.reference_iterations, "of the quiet run that losses are compared with")
      ->check(CLI::Range(2, 100'000))->capture_default_str();
  app->add_option("--trainer", o->trainer, "gpt (needs LibTorch), metronome, or auto: gpt if it was built")
      ->check(CLI::IsMember({"auto", "gpt", "metronome"}))->capture_default_str();
  app->add_option("--keep", o->keep, "work in this new or empty directory, and keep logs, reports and state there");
  app->add_option("--timeline", o->timeline, "file for the Chrome trace of both devices (default: a new one in /tmp, or in --keep)");
  app->footer(
      "Runs a trainer with bubbles, a head, two workers and side tasks of several programs on cores 0 and 1, moves one\n"
      "task while it runs, and compares every result with that of an uncut run. Takes about a minute.\n"
      "Examples:\n  pillion demo\n  pillion demo --json --seconds 20\n  pillion demo --keep /tmp/what-it-did\n"
      "Exit codes: 0 all of it worked, 1 a part failed, 2 usage, 130 interrupted.");
}

int Fail(const Options& o, const Status& status, int code) {
  if (o.as_json) {
    std::printf("%s\n", json({{"error", {{"code", StatusCodeName(status.code())}, {"message", status.message()}}}}).dump().c_str());
  }
  std::fprintf(stderr, "pillion demo: %s\n", status.message().c_str());
  return code;
}

Result<std::string> TimelinePath(const Options& o) {
  std::error_code error;
  if (!o.timeline.empty()) return std::filesystem::absolute(o.timeline, error).string();
  if (!o.keep.empty()) return std::filesystem::absolute(o.keep, error).string() + "/timeline.json";
  std::string path = "/tmp/pillion-timeline-XXXXXX.json";
  FileDescriptor file(mkstemps(path.data(), 5));
  if (!file.valid()) return ErrnoStatus("make " + path);
  return path;
}

// Everything is ended when this returns.
Status Run(const Options& o, const Directory& directory, std::string* output) {
  const int64_t start_ns = MonotonicNowNs();
  PILLION_ASSIGN_OR_RETURN(Directory boards, Directory::Temporary(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"));
  demo::DemoOptions options = o.demo;
  options.directory = directory.path();
  options.board_directory = boards.path();
  PILLION_ASSIGN_OR_RETURN(demo::DemoRecord record, demo::RunDemo(options));
  PILLION_ASSIGN_OR_RETURN(std::string timeline, TimelinePath(o));
  PILLION_RETURN_IF_ERROR(demo::MergeTimelines(record.timeline_files, timeline).WithContext("timeline"));
  const double wall_s = static_cast<double>(MonotonicNowNs() - start_ns) / kNanosPerSecond;
  PILLION_ASSIGN_OR_RETURN(json report, demo::MakeReport(record, timeline, wall_s));
  *output = o.as_json ? report.dump() + "\n" : demo::ForPeople(report, record);
  if (record.losses_compared && !record.losses_identical) {
    return TaskFailed("trainer: its losses are not those of the quiet run");
  }
  return Status();
}

int Main(int argc, char** argv) {
  CLI::App app("Shows the main job end to end on this machine's cores", "pillion demo");
  Options options;
  AddOptions(&app, &options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return Fail(options, InvalidArgument(std::string(error.what()) + " (pillion demo --help)"), kUsage);
  }
  if (OnlineCores() < static_cast<int>(demo::kDevices.size())) {
    return Fail(options, Unsupported("the demo needs two cores, for the two stages of its pipeline"), kFailed);
  }
  const bool have_gpt = access(demo::BesideUs("pillion-trainer").c_str(), X_OK) == 0;
  if (options.trainer == "gpt" && !have_gpt) {
    return Fail(options, Unsupported("--trainer gpt: this build has no pillion-trainer; it needs LibTorch"), kUsage);
  }
  options.demo.trainer =
      options.trainer == "metronome" || !have_gpt ? demo::TrainerKind::kMetronome : demo::TrainerKind::kGpt;
  demo::InstallSignalHandlers();
  auto directory = options.keep.empty() ? Directory::Temporary("/tmp") : Directory::Kept(options.keep);
  if (!directory.ok()) return Fail(options, directory.status(), options.keep.empty() ? kFailed : kUsage);
  std::string output;
  const Status status = Run(options, *directory, &output);
  std::fputs(output.c_str(), stdout);
  if (demo::Interrupted()) return Fail(options, Cancelled("interrupted"), kInterrupted);
  if (!status.ok() && !output.empty()) std::fprintf(stderr, "pillion demo: %s\n", status.message().c_str());
  if (!status.ok() && output.empty()) return Fail(options, status, kFailed);
  return status.ok() ? 0 : kFailed;
}

}  // namespace

int main(int argc, char** argv) { return Main(argc, argv); }
