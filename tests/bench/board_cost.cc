#include "tests/bench/board_cost.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include "api/board/board.h"
#include "base/clock.h"
#include "base/futex.h"
#include "pillion/trainer.h"

namespace pillion::bench {
namespace {

constexpr int kCalls = 20'000;

// Median over single calls, the clock's own cost taken off.
template <typename Call>
double MedianNs(Call call) {
  std::vector<int64_t> costs_ns, clock_ns;
  for (int i = 0; i < kCalls; ++i) {
    int64_t start_ns = MonotonicNowNs();
    int64_t empty_ns = MonotonicNowNs();
    call();
    costs_ns.push_back(MonotonicNowNs() - empty_ns);
    clock_ns.push_back(empty_ns - start_ns);
  }
  auto median = [](std::vector<int64_t>* values) {
    std::nth_element(values->begin(), values->begin() + kCalls / 2, values->end());
    return static_cast<double>((*values)[kCalls / 2]);
  };
  return median(&costs_ns) - median(&clock_ns);
}

struct Costs {
  double iteration_ns, begin_ns, end_ns;
};

Costs Measure(pillion_board* board) {
  Costs costs{};
  costs.iteration_ns = MedianNs([&] { pillion_iteration(board, nullptr, 1); });
  costs.begin_ns = MedianNs([&] { pillion_bubble_begin(board, nullptr); });  // closes the one before as well
  costs.end_ns = MedianNs([&] {
    pillion_bubble_begin(board, nullptr);
    pillion_bubble_end(board, nullptr);
  });
  return costs;
}

}  // namespace

int RunBoardCost(bool json) {
  char directory[] = "/dev/shm/pillion-bench-XXXXXX";
  if (mkdtemp(directory) == nullptr) return 1;
  setenv("PILLION_BOARD_DIR", directory, 1);
  pillion_board_options options = PILLION_BOARD_OPTIONS_INIT;
  options.device = "cpu0";
  pillion_board* board = pillion_board_open(&options);
  if (board == nullptr) {
    std::fprintf(stderr, "pillion-bench: %s\n", pillion_board_error());
    return 1;
  }
  Costs idle = Measure(board);
  std::atomic<bool> leave{false};
  auto observer = board::Board::Open("cpu-0", board::Board::Access::kReadOnly);
  std::thread waiter([&] {
    const auto* edge = &(*observer)->layout()->edge;
    while (!leave.load()) FutexWait(edge, edge->load(), MonotonicNowNs() + 10 * kNanosPerMilli);
  });
  Costs watched = Measure(board);
  leave.store(true);
  waiter.join();
  double null_ns = MedianNs([] { pillion_bubble_begin(nullptr, nullptr); });
  pillion_board_close(board);
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  const char* format =
      json ? "{\"schema\":1,\"iteration_ns\":%.0f,\"begin_ns\":{\"alone\":%.0f,\"watched\":%.0f},"
             "\"begin_and_end_ns\":{\"alone\":%.0f,\"watched\":%.0f},\"null_ns\":%.0f}\n"
           : "iteration %.0f ns; bubble begin %.0f ns (watched %.0f); begin and end %.0f ns (watched %.0f); "
             "null board %.0f ns\n";
  std::printf(format, idle.iteration_ns, idle.begin_ns, watched.begin_ns, idle.end_ns, watched.end_ns, null_ns);
  return 0;
}

}  // namespace pillion::bench
