#include "tests/bench/harvest.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/futex.h"
#include "examples/metronome/metronome.h"
#include "tests/bench/side_processes.h"
#include "worker/turns/slowdown.h"
#include "worker/turns/turn_engine.h"

namespace pillion::bench {
namespace {

constexpr int64_t kWarmUpMs = 3000;
constexpr int kSoloSteps = 200;

void SleepSeconds(double seconds) {
  timespec time{static_cast<time_t>(seconds), static_cast<long>((seconds - std::floor(seconds)) * 1e9)};
  while (nanosleep(&time, &time) != 0) {
  }
}

Result<int> CoreOf(const std::string& device) {
  if (device == "cpu") return OnlineCores() - 1;
  int core = 0;
  auto [stop, error] = std::from_chars(device.data() + std::min<size_t>(3, device.size()),
                                       device.data() + device.size(), core);
  if (device.rfind("cpu", 0) != 0 || error != std::errc() || *stop != 0 || core < 0 || core >= OnlineCores()) {
    return InvalidArgument("'" + device + "' is no cpu device of this machine: cpu, or cpu0 to cpu" +
                           std::to_string(OnlineCores() - 1));
  }
  return core;
}

// One measured stretch of one mode.
struct Block {
  Mode mode;
  int64_t from_ns = 0, to_ns = 0;
};

// Children that end with this object.
class Children {
 public:
  explicit Children(Stage* stage) : stage_(stage) {}
  ~Children() {
    stage_->leave.store(1);
    stage_->mode.store(UINT32_MAX);
    FutexWakeAll(&stage_->mode);
    for (pid_t child : children_) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  void Start(const std::function<void()>& body) {
    pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body();
      _exit(0);
    }
    children_.push_back(child);
  }

 private:
  Stage* const stage_;
  std::vector<pid_t> children_;
};

// A directory for the board that only this run uses, so that a live trainer or worker of the machine is not met.
class OwnBoardDirectory {
 public:
  OwnBoardDirectory() {
    char path[] = "/dev/shm/pillion-bench-XXXXXX";
    if (mkdtemp(path) != nullptr) path_ = path;
    setenv("PILLION_BOARD_DIR", path_.c_str(), 1);
  }
  ~OwnBoardDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

 private:
  std::string path_;
};

// In a child on the core, so that this process is not pinned: loops per ms (warm) or ms per step.
double OnCore(Stage* stage, int core, const std::function<double()>& measure) {
  pid_t child = fork();
  if (child == 0) {
    (void)PinThisThread(core);
    double value = measure();
    uint64_t bits = 0;
    static_assert(sizeof bits == sizeof value);
    std::memcpy(&bits, &value, sizeof bits);
    stage->step_loops.store(bits);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  uint64_t bits = stage->step_loops.load();
  double value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

double SoloStepMs(uint64_t loops) {
  for (int i = 0; i < kSoloSteps / 4; ++i) metronome::Busy(loops);
  std::vector<int64_t> steps_ns;
  for (int i = 0; i < kSoloSteps; ++i) {
    int64_t start_ns = MonotonicNowNs();
    metronome::Busy(loops);
    steps_ns.push_back(MonotonicNowNs() - start_ns);
  }
  std::nth_element(steps_ns.begin(), steps_ns.begin() + kSoloSteps / 2, steps_ns.end());
  return static_cast<double>(steps_ns[kSoloSteps / 2]) / 1e6;
}

// The turn engine's figures over all of its blocks.
struct EngineSums {
  turns::DeviceFigures sums;
  std::vector<double> edge_to_step_us;

  void AddBlock(const turns::DeviceFigures& block) {
    sums.bubble_ns += block.bubble_ns;
    sums.harvest_ns += block.harvest_ns;
    sums.useful_ns += block.useful_ns;
    sums.eligible_bubble_ns += block.eligible_bubble_ns;
    sums.eligible_harvest_ns += block.eligible_harvest_ns;
    sums.intrusion_ns += block.intrusion_ns;
    sums.iteration_time_ns += block.iteration_time_ns;
    sums.losses.no_task_ns += block.losses.no_task_ns;
    sums.losses.memory_ns += block.losses.memory_ns;
    sums.losses.shorter_than_step_ns += block.losses.shorter_than_step_ns;
    sums.losses.guard_ns += block.losses.guard_ns;
    sums.losses.tail_ns += block.losses.tail_ns;
    sums.losses.switching_ns += block.losses.switching_ns;
    sums.losses.forecast_miss_ns += block.losses.forecast_miss_ns;
    sums.unexplained_ns += block.unexplained_ns;
    sums.guard_us = block.guard_us;
  }
};

double Percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  auto rank = static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + static_cast<long>(rank), values.end());
  return values[rank];
}

// Iterations that lie within the block, without those that a stall of the machine stretched beyond thrice the usual.
std::vector<IterationRecord> IterationsOf(const Stage& stage, const Block& block) {
  std::vector<IterationRecord> within;
  uint32_t count = stage.iterations.count.load(std::memory_order_acquire);
  std::vector<double> durations;
  for (uint32_t i = 0; i < count; ++i) {
    const IterationRecord& iteration = stage.iterations.records[i];
    // Under Pillion the quiet iterations are not what is asked for.
    if (block.mode == Mode::kPillion && iteration.quiet) continue;
    if (iteration.start_ns < block.from_ns || iteration.end_ns > block.to_ns) continue;
    within.push_back(iteration);
    durations.push_back(static_cast<double>(iteration.end_ns - iteration.start_ns));
  }
  double usual_ns = Percentile(durations, 0.5);
  std::erase_if(within, [&](const IterationRecord& iteration) {
    return static_cast<double>(iteration.end_ns - iteration.start_ns) > 3 * usual_ns;
  });
  return within;
}

double MeanMs(const std::vector<IterationRecord>& iterations) {
  double sum_ms = 0;
  for (const IterationRecord& iteration : iterations) {
    sum_ms += static_cast<double>(iteration.end_ns - iteration.start_ns) / 1e6;
  }
  return iterations.empty() ? 0 : sum_ms / static_cast<double>(iterations.size());
}

// Shares of the modes that log their steps, from the trainer's own records.
struct StepShares {
  double bubble_ns = 0, harvest_ns = 0;
  uint64_t steps = 0;
  std::vector<double> edge_to_step_us;
};

void AddSteps(const Stage& stage, const Block& block, const std::vector<IterationRecord>& iterations, StepShares* shares) {
  const auto& log = stage.steps[static_cast<uint32_t>(block.mode)];
  const StepRecord* end = log.records + log.count.load(std::memory_order_acquire);
  for (const IterationRecord& iteration : iterations) {
    shares->bubble_ns += static_cast<double>(iteration.close_ns - iteration.open_ns);
    const StepRecord* step = std::lower_bound(log.records, end, iteration.start_ns, [](const StepRecord& each, int64_t ns) {
      return each.start_ns < ns;
    });
    bool first = true;
    for (; step != end && step->start_ns < iteration.end_ns; ++step) {
      ++shares->steps;  // wherever in the iteration it was done: work is work
      if (step->start_ns < iteration.open_ns) continue;
      if (std::exchange(first, false)) {
        shares->edge_to_step_us.push_back(static_cast<double>(step->start_ns - iteration.open_ns) / 1e3);
      }
      if (step->end_ns <= iteration.close_ns) shares->harvest_ns += static_cast<double>(step->end_ns - step->start_ns);
    }
  }
}

class Run {
 public:
  Run(const HarvestOptions& options, int core) : options_(options), core_(core), stage_(MakeStage()) {}

  Result<HarvestReport> Do() {
    double loops_per_ms = OnCore(stage_, core_, [] { return metronome::LoopsPerMs(kWarmUpMs); });
    auto step_loops = static_cast<uint64_t>(loops_per_ms * options_.step_ms);
    HarvestReport report;
    report.solo_step_ms_before = OnCore(stage_, core_, [&] { return SoloStepMs(step_loops); });
    stage_->step_loops.store(step_loops);
    stage_->mode.store(static_cast<uint32_t>(Mode::kAlone));
    {
      Children children(stage_);
      PILLION_RETURN_IF_ERROR(StartAll(&children, loops_per_ms));
      Measure();
      engine_.reset();
    }
    report.solo_step_ms_after = OnCore(stage_, core_, [&] { return SoloStepMs(step_loops); });
    Evaluate(&report);
    return report;
  }

 private:
  Status StartAll(Children* children, double loops_per_ms) {
    PILLION_ASSIGN_OR_RETURN(auto board,
                             board::Board::Open("cpu-" + std::to_string(core_), board::Board::Access::kReadWrite));
    int trainer_sockets[2], task_sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, trainer_sockets) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, task_sockets) != 0) {
      return ErrnoStatus("make the sockets of the FreeRide-like mode");
    }
    // All that forks comes before the engine's thread.
    children->Start([&] { RunUncontrolled(stage_, Mode::kUncontrolled, core_, 0); });
    children->Start([&] { RunUncontrolled(stage_, Mode::kUncontrolledNice19, core_, 19); });
    children->Start([&] { RunFreeRideManager(stage_, trainer_sockets[0], task_sockets[0]); });
    children->Start([&] { RunFreeRideTask(stage_, options_, core_, task_sockets[1]); });
    turns::EngineOptions engine_options;
    engine_options.core = core_;
    engine_options.run_without_trainer = false;
    engine_options.timeline_events = 1 << 18;
    PILLION_ASSIGN_OR_RETURN(engine_, turns::TurnEngine::Start(engine_options, std::move(board), [](turns::ResidentId, int64_t overrun_ns) {
      std::fprintf(stderr, "pillion-bench: a step outlasted its bubble by %.1f ms; the core is too busy to measure\n",
                   static_cast<double>(overrun_ns) / 1e6);
    }));
    PILLION_ASSIGN_OR_RETURN(control_, host::ControlPage::Create("pillion-bench"));
    auto doorbell = engine_->doorbell();
    children->Start([&] { RunPillionHost(stage_, core_, control_.get(), doorbell.get()); });
    turns::ResidentOptions resident;
    resident.name = "spin";
    resident.solo_unit_ns = 1;  // units; scaled by the measured solo time in the end
    PILLION_ASSIGN_OR_RETURN(resident_, engine_->AddResident(control_, resident));
    (void)engine_->Pause(resident_, kNanosPerSecond);
    children->Start([&] { RunTrainer(stage_, options_, core_, loops_per_ms, trainer_sockets[1]); });
    SleepSeconds(1);
    return Status::Ok();
  }

  void Measure() {
    std::vector<Mode> order = options_.modes;
    // What the first turns teach (step time, bubble lengths) belongs to no block.
    RunBlock(Mode::kPillion, false);
    // Alone before and after each block: what drifts between two blocks of one mode does not count.
    RunBlock(Mode::kAlone, true);
    for (uint32_t round = 0; round < options_.rounds; ++round) {
      for (Mode mode : order) {
        RunBlock(mode, true);
        RunBlock(Mode::kAlone, true);
      }
      std::reverse(order.begin(), order.end());
    }
  }

  void RunBlock(Mode mode, bool measured) {
    stage_->mode.store(static_cast<uint32_t>(mode));
    FutexWakeAll(&stage_->mode);
    if (mode == Mode::kPillion) engine_->Resume(resident_);
    SleepSeconds(options_.settle_s);
    if (mode == Mode::kPillion) engine_->ResetFigures();
    Block block{mode, MonotonicNowNs(), 0};
    SleepSeconds(options_.block_s - options_.settle_s);
    block.to_ns = MonotonicNowNs();
    if (mode == Mode::kPillion) {
      if (measured) engine_sums_.AddBlock(engine_->GetFigures());
      (void)engine_->Pause(resident_, kNanosPerSecond);
    }
    if (measured) blocks_.push_back(block);
  }

  void Evaluate(HarvestReport* report) {
    std::map<Mode, std::deque<double>> ratios, means_ms;
    std::map<Mode, StepShares> shares;
    std::map<Mode, uint64_t> iterations;
    std::vector<double> block_ms;
    for (const Block& block : blocks_) {
      auto within = IterationsOf(*stage_, block);
      block_ms.push_back(MeanMs(within));
      means_ms[block.mode].push_back(block_ms.back());
      iterations[block.mode] += within.size();
      AddSteps(*stage_, block, within, &shares[block.mode]);
    }
    for (size_t i = 1; i + 1 < blocks_.size(); i += 2) {  // every second block is the trainer alone
      double alone_ms = (block_ms[i - 1] + block_ms[i + 1]) / 2;
      if (alone_ms > 0 && block_ms[i] > 0) ratios[blocks_[i].mode].push_back(block_ms[i] / alone_ms - 1);
    }
    double solo_ns = (report->solo_step_ms_before + report->solo_step_ms_after) / 2 * 1e6;
    for (const auto& [mode, means] : means_ms) {
      Cell cell;
      cell.mode = mode;
      cell.bubble_ms = options_.bubble_ms;
      cell.step_ms = options_.step_ms;
      cell.iterations = iterations[mode];
      cell.iteration_ms = turns::MeanInterval(means).mean;
      if (mode != Mode::kAlone) cell.slowdown = turns::MeanInterval(ratios[mode]);
      FillShares(shares[mode], solo_ns, &cell);
      report->cells.push_back(cell);
    }
  }

  void FillShares(const StepShares& shares, double solo_ns, Cell* cell) const {
    cell->edge_to_step_p50_us = Percentile(shares.edge_to_step_us, 0.5);
    cell->edge_to_step_p99_us = Percentile(shares.edge_to_step_us, 0.99);
    if (shares.bubble_ns <= 0) return;
    cell->useful_share = static_cast<double>(shares.steps) * solo_ns / shares.bubble_ns;
    cell->harvest_share = cell->eligible_harvest_share = shares.harvest_ns / shares.bubble_ns;
    if (cell->mode != Mode::kPillion) return;
    const turns::DeviceFigures& sums = engine_sums_.sums;
    if (sums.bubble_ns <= 0) return;
    cell->useful_share = sums.useful_ns * solo_ns / sums.bubble_ns;
    cell->harvest_share = sums.harvest_ns / sums.bubble_ns;
    cell->eligible_harvest_share =
        sums.eligible_bubble_ns > 0 ? sums.eligible_harvest_ns / sums.eligible_bubble_ns : 0;
    cell->has_losses = true;
    cell->losses = sums.losses;
    for (double* loss : {&cell->losses.no_task_ns, &cell->losses.memory_ns, &cell->losses.shorter_than_step_ns,
                         &cell->losses.guard_ns, &cell->losses.tail_ns, &cell->losses.switching_ns,
                         &cell->losses.forecast_miss_ns}) {
      *loss /= sums.bubble_ns;
    }
    cell->unexplained = sums.unexplained_ns / sums.bubble_ns;
    if (sums.iteration_time_ns > 0) cell->intrusion_share = sums.intrusion_ns / sums.iteration_time_ns;
    cell->guard_us = sums.guard_us;
  }

  const HarvestOptions options_;
  const int core_;
  Stage* const stage_;
  std::unique_ptr<turns::TurnEngine> engine_;
  std::shared_ptr<host::ControlPage> control_;
  turns::ResidentId resident_ = 0;
  std::vector<Block> blocks_;
  EngineSums engine_sums_;
};

}  // namespace

Result<HarvestReport> RunHarvest(const HarvestOptions& options) {
  PILLION_ASSIGN_OR_RETURN(int core, CoreOf(options.device));
  if (options.block_s <= options.settle_s) return InvalidArgument("blocks must be longer than what settles in them");
  OwnBoardDirectory directory;
  return Run(options, core).Do();
}

}  // namespace pillion::bench
