#include "examples/metronome/metronome.h"

#include <algorithm>
#include <ctime>
#include <vector>

namespace pillion::metronome {
namespace {

int64_t NowNs() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void SleepUntil(int64_t ns) {
  timespec time{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr) != 0) {
  }
}

}  // namespace

void Busy(uint64_t loops) {
  uint64_t value = loops | 1;
  for (uint64_t i = 0; i < loops; ++i) {
    value ^= value << 13;
    value ^= value >> 7;
    value ^= value << 17;
  }
  asm volatile("" : : "r"(value));  // the compiler must believe that somebody wants it
}

double LoopsPerMs(int64_t warm_up_ms) {
  constexpr uint64_t kPiece = 200'000;
  int64_t warm_until_ns = NowNs() + warm_up_ms * 1'000'000;
  while (NowNs() < warm_until_ns) Busy(kPiece);
  std::vector<int64_t> pieces_ns;
  for (int i = 0; i < 501; ++i) {
    int64_t start_ns = NowNs();
    Busy(kPiece);
    pieces_ns.push_back(NowNs() - start_ns);
  }
  auto middle = pieces_ns.begin() + 250;
  std::nth_element(pieces_ns.begin(), middle, pieces_ns.end());
  return static_cast<double>(kPiece) * 1e6 / static_cast<double>(*middle);
}

Metronome::Metronome(const Options& options, double loops_per_ms, pillion_board* board)
    : options_(options),
      loops_(static_cast<uint64_t>(options.busy_ms * loops_per_ms)),
      board_(board),
      random_(options.seed) {}

Iteration Metronome::Next(const std::function<void(int64_t, int64_t)>& in_bubble) {
  Iteration iteration;
  iteration.index = next_++;
  iteration.start_ns = NowNs();
  pillion_iteration(board_, nullptr, options_.bubbles);
  iteration.quiet = pillion_iteration_is_quiet(board_) != 0;
  std::normal_distribution<double> jitter(1, options_.jitter);
  for (uint32_t bubble = 0; bubble < options_.bubbles; ++bubble) {
    Busy(loops_);
    double share = options_.jitter > 0 ? std::max(0.1, jitter(random_)) : 1;
    auto length_ns = static_cast<int64_t>(options_.bubble_ms * 1e6 * scale_ * share);
    iteration.open_ns = NowNs();
    pillion_bubble_begin(board_, nullptr);
    if (in_bubble) in_bubble(iteration.open_ns, length_ns);
    SleepUntil(iteration.open_ns + length_ns);
    pillion_bubble_end(board_, nullptr);
    iteration.close_ns = NowNs();
  }
  scale_ *= 1 + options_.drift;
  iteration.end_ns = NowNs();
  return iteration;
}

}  // namespace pillion::metronome
