// pillion-sim: runs seeds and says which broke an invariant.
//   pillion-sim --seeds 1000 [--first-seed 1] [--scenario NAME] [--bug NAME] [--json] [--verbose]
//   pillion-sim --scale [--workers 10000] [--tasks 1000000] [--json]      the scale run instead
// Exit code 0: no violation; 1: some; 2: usage.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/log.h"
#include "tests/sim/cluster.h"
#include "tests/sim/scale.h"

namespace {

using pillion::sim::PlantedBug;
using pillion::sim::RunResult;
using pillion::sim::Scenario;

struct Options {
  uint64_t seeds = 100, first_seed = 1;
  const Scenario* scenario = nullptr;
  PlantedBug bug = PlantedBug::kNone;
  bool json = false, verbose = false, scale = false;
  pillion::sim::ScaleOptions size;
};

int Usage(const std::string& what) {
  std::fprintf(stderr, "pillion-sim: %s\nusage: pillion-sim [--seeds N] [--first-seed S] [--scenario NAME] [--bug NAME] "
                       "[--json] [--verbose]\n       pillion-sim --scale [--workers N] [--tasks N] [--json]\nscenarios:",
               what.c_str());
  for (const Scenario& scenario : pillion::sim::Scenarios()) std::fprintf(stderr, " %s", scenario.name);
  std::fprintf(stderr, "\nbugs:");
  for (int bug = 0; bug < pillion::sim::kPlantedBugs; ++bug) {
    std::fprintf(stderr, " %s", PlantedBugName(static_cast<PlantedBug>(bug)));
  }
  std::fprintf(stderr, "\n");
  return 2;
}

// 0 to go on, else the exit code.
int Parse(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--json") {
      options->json = true;
      continue;
    }
    if (flag == "--verbose") {
      options->verbose = true;
      continue;
    }
    if (flag == "--scale") {
      options->scale = true;
      continue;
    }
    if (i + 1 >= argc) return Usage("unknown flag or missing value: " + flag);
    std::string value = argv[++i];
    bool is_size = flag == "--workers" || flag == "--tasks";
    if (flag == "--seeds" || flag == "--first-seed" || is_size) {
      char* end = nullptr;
      uint64_t number = std::strtoull(value.c_str(), &end, 10);
      if (value.empty() || *end != 0) return Usage("'" + value + "' is no number");
      if (is_size && (number == 0 || number > 4'000'000)) return Usage("between 1 and 4000000 is expected: " + value);
      if (flag == "--seeds") options->seeds = number;
      if (flag == "--first-seed") options->first_seed = number;
      if (flag == "--workers") options->size.workers = static_cast<uint32_t>(number);
      if (flag == "--tasks") options->size.tasks = static_cast<uint32_t>(number);
    } else if (flag == "--scenario") {
      options->scenario = pillion::sim::FindScenario(value);
      if (options->scenario == nullptr) return Usage("there is no scenario '" + value + "'");
    } else if (flag == "--bug") {
      int bug = 0;
      while (bug < pillion::sim::kPlantedBugs && value != PlantedBugName(static_cast<PlantedBug>(bug))) ++bug;
      if (bug == pillion::sim::kPlantedBugs) return Usage("there is no bug '" + value + "'");
      options->bug = static_cast<PlantedBug>(bug);
    } else {
      return Usage("unknown flag " + flag);
    }
  }
  return 0;
}

int PrintScale(const Options& options) {
  pillion::sim::ScaleResult r = RunScale(options.size);
  const char* format =
      options.json ? "{\"workers\":%u,\"tasks\":%u,\"virtual_s\":%.1f,\"ideal_s\":%.1f,\"head_cpu_us_per_task\":%.2f,"
                     "\"submit_tasks_per_s\":%.0f,\"dispatch_ms\":{\"p50\":%.2f,\"p99\":%.2f},\"turn_ms\":{\"p99\":%.2f,"
                     "\"max\":%.1f},\"balance\":%.3f,\"records\":%llu,\"record_bytes\":%llu,\"queued_rss_bytes\":%llu,"
                     "\"restart_s\":%.3f}\n"
                   : "%u workers, %u tasks: %.1f s of virtual time (ideal %.1f), head CPU %.2f us per task, submission "
                     "%.0f tasks/s,\ndispatch p50 %.2f ms, p99 %.2f ms (virtual), turn p99 %.2f ms, max %.1f ms, balance "
                     "%.3f,\n%llu records of %llu bytes, all queued: RSS +%llu bytes, restart %.3f s\n";
  std::printf(format, options.size.workers, options.size.tasks, r.virtual_s, r.ideal_s, r.head_cpu_us_per_task,
              r.submit_tasks_per_s, r.dispatch_ms_p50, r.dispatch_ms_p99, r.turn_ms_p99, r.turn_ms_max, r.balance,
              static_cast<unsigned long long>(r.records), static_cast<unsigned long long>(r.record_bytes),
              static_cast<unsigned long long>(r.queued_rss_bytes), r.restart_s);
  if (!r.error.empty()) std::fprintf(stderr, "pillion-sim: %s\n", r.error.c_str());
  return r.error.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (int code = Parse(argc, argv, &options); code != 0) return code;
  pillion::log::Configure("pillion-sim", pillion::log::Level::kError, pillion::log::Format::kText);
  if (options.scale) return PrintScale(options);
  uint64_t events = 0, violations = 0, first_failing = 0;
  for (uint64_t seed = options.first_seed; seed < options.first_seed + options.seeds; ++seed) {
    const auto& all = pillion::sim::Scenarios();
    const Scenario& scenario = options.scenario != nullptr ? *options.scenario : all[seed % all.size()];
    RunResult result = Run(scenario, seed, options.bug);
    events += result.events;
    violations += result.violations.size();
    if (options.verbose) {
      std::fprintf(stderr, "seed=%llu scenario=%s events=%llu virtual_s=%.0f tasks=%llu succeeded=%llu grants=%llu moves=%llu "
                           "losses=%llu\n", static_cast<unsigned long long>(seed), scenario.name,
                   static_cast<unsigned long long>(result.events), result.virtual_s,
                   static_cast<unsigned long long>(result.tasks), static_cast<unsigned long long>(result.succeeded),
                   static_cast<unsigned long long>(result.grants), static_cast<unsigned long long>(result.moves),
                   static_cast<unsigned long long>(result.losses));
    }
    if (result.violations.empty()) continue;
    if (first_failing == 0) first_failing = seed;
    for (const auto& violation : result.violations) {
      std::fprintf(stderr, "seed=%llu scenario=%s after %.3f s: %s: %s\n", static_cast<unsigned long long>(seed), scenario.name,
                   result.virtual_s, InvariantName(violation.invariant), violation.text.c_str());
    }
  }
  if (options.json) {
    std::printf("{\"seeds\":%llu,\"events\":%llu,\"violations\":%llu,\"first_failing_seed\":%s}\n",
                static_cast<unsigned long long>(options.seeds), static_cast<unsigned long long>(events),
                static_cast<unsigned long long>(violations),
                first_failing == 0 ? "null" : std::to_string(first_failing).c_str());
  } else {
    std::printf("%llu seeds, %llu events, %llu violations\n", static_cast<unsigned long long>(options.seeds),
                static_cast<unsigned long long>(events), static_cast<unsigned long long>(violations));
  }
  return violations == 0 ? 0 : 1;
}
