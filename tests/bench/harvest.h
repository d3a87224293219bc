// `pillion-bench harvest`: what side work gets out of the bubbles of one cpu device, and what it costs the trainer,
// under Pillion and under four other ways, in interleaved blocks of one run.
#ifndef PILLION_TESTS_BENCH_HARVEST_H_
#define PILLION_TESTS_BENCH_HARVEST_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "tests/bench/stage.h"
#include "worker/turns/figures.h"

namespace pillion::bench {

struct Cell {
  Mode mode = Mode::kAlone;
  double bubble_ms = 0, step_ms = 0;
  double iteration_ms = 0;
  double useful_share = 0, harvest_share = 0, eligible_harvest_share = 0;
  turns::Interval slowdown;
  bool has_losses = false;
  turns::Losses losses;          // shares of bubble time
  double unexplained = 0;        // likewise
  double intrusion_share = 0;    // of iteration time
  double guard_us = 0;
  double edge_to_step_p50_us = 0, edge_to_step_p99_us = 0;
  uint64_t iterations = 0;
};

struct HarvestReport {
  std::vector<Cell> cells;
  double solo_step_ms_before = 0, solo_step_ms_after = 0;
};

// Blocks the caller for 2 × rounds × modes × block_s and a few seconds. kInvalidArgument for what cannot be run.
Result<HarvestReport> RunHarvest(const HarvestOptions& options);

std::string HarvestJson(const HarvestReport& report);
std::string HarvestText(const HarvestReport& report);

}  // namespace pillion::bench

#endif  // PILLION_TESTS_BENCH_HARVEST_H_
