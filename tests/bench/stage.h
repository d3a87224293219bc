// What the processes of the harvest bench share: the present mode, the trainer's iterations, the side work's steps.
#ifndef PILLION_TESTS_BENCH_STAGE_H_
#define PILLION_TESTS_BENCH_STAGE_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace pillion::bench {

enum class Mode : uint32_t { kAlone, kPillion, kUncontrolled, kUncontrolledNice19, kFreeRideLike };
inline constexpr uint32_t kModes = 5;
const char* ModeName(Mode mode);

struct HarvestOptions {
  std::string device = "cpu";   // cpu: the last core; cpuN
  double busy_ms = 20;
  double bubble_ms = 20;
  double step_ms = 2;
  double jitter = 0.01;
  double block_s = 1.2;
  double settle_s = 0.2;        // beginning of each block that is not measured
  uint32_t rounds = 12;
  uint64_t seed = 1;
  std::vector<Mode> modes;      // alone is always measured
};

struct IterationRecord {
  int64_t start_ns, end_ns, open_ns, close_ns;
  bool quiet;
};
struct StepRecord {
  int64_t start_ns, end_ns;
};

// One writer, readers after the fact.
template <typename T, uint32_t kSize>
struct Log {
  std::atomic<uint32_t> count;
  T records[kSize];

  void Append(const T& record) {
    uint32_t at = count.load(std::memory_order_relaxed);
    if (at == kSize) return;
    records[at] = record;
    count.store(at + 1, std::memory_order_release);
  }
};

struct Stage {
  std::atomic<uint32_t> mode;          // Mode; a futex that idle processes sleep on
  std::atomic<uint32_t> leave;
  std::atomic<uint32_t> ready;         // processes that are calibrated
  std::atomic<uint64_t> step_loops;    // of one step of side work
  Log<IterationRecord, 1 << 17> iterations;
  Log<StepRecord, 1 << 19> steps[kModes];  // of the modes that log their steps
};

// In memory that forked processes share.
Stage* MakeStage();

}  // namespace pillion::bench

#endif  // PILLION_TESTS_BENCH_STAGE_H_
