// bench-tune: what the tuner reaches on published profiles, against OctoPipe's released tuner, the
// classical schedules and its own bounds. One row per goal: case, goal, reached, seconds.
//
//   bench-tune --profiles FILE [--json] [--only TEXT] [--time FACTOR] [--seed N]
//
// --only runs the rows whose group contains TEXT (targets, models, links, stall, scale, speed,
// small).
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "pipeline/tune.h"
#include "pipeline/tuner/decoder.h"
#include "pipeline/tuner/seeds.h"
#include "tests/unit/tuner/exact.h"

namespace pillion::pipeline {
namespace {

using nlohmann::json;

class Bench {
 public:
  Bench(std::string profiles, bool as_json, std::string only, double time_factor, uint64_t seed)
      : profiles_(std::move(profiles)),
        as_json_(as_json),
        only_(std::move(only)),
        factor_(time_factor),
        seed_(seed) {}

  int Run() {
    if (Wanted("targets")) Targets();
    if (Wanted("models")) Models();
    if (Wanted("links")) Links();
    if (Wanted("stall")) Stall();
    if (Wanted("speed")) Speed();
    if (Wanted("small")) Small();
    if (Wanted("scale")) Scale();
    if (as_json_) std::cout << json{{"schema", 1}, {"rows", rows_}}.dump(1) << "\n";
    return missed_ == 0 ? 0 : 1;
  }

 private:
  bool Wanted(const char* group) const { return only_.empty() || only_ == group; }

  // A goal is an upper limit, or a lower one when `at_least`.
  void Row(const std::string& group, const std::string& name, double goal, double reached,
           double seconds, bool at_least = false, const std::string& more = "") {
    const bool ok = at_least ? reached >= goal : reached <= goal;
    missed_ += !ok;
    rows_.push_back({{"group", group},
                     {"case", name},
                     {"goal", goal},
                     {"reached", reached},
                     {"ok", ok},
                     {"seconds", seconds},
                     {"more", more}});
    if (as_json_) return;
    std::printf("%-7s %-44s goal %s %10.2f reached %10.2f %-4s %6.1f s  %s\n", group.c_str(),
                name.c_str(), at_least ? ">=" : "<=", goal, reached, ok ? "ok" : "MISS", seconds,
                more.c_str());
    std::fflush(stdout);
  }

  Costs Model(const std::string& name, int32_t devices, int64_t live_layers) const {
    Result<Costs> costs = LoadProfile(profiles_, name);
    PILLION_CHECK(costs.ok(), "the profile has the model");
    UseUniformDevices(devices, &*costs);
    for (DeviceSpec& device : costs->devices) device.live_layer_cap = live_layers;
    return *costs;
  }

  TuneResult Search(const Costs& costs, int32_t microbatches, double seconds,
                    bool split = true) const {
    TuneOptions options;
    options.microbatches = microbatches;
    options.max_seconds = seconds * factor_;
    options.seed = seed_;
    options.split_backward = split;
    Result<TuneResult> result = Tune(costs, options);
    if (!result.ok()) {
      std::cerr << costs.model << ": " << result.status().ToString() << "\n";
      TuneResult none;
      none.makespan_ticks = INT64_MAX / 2;
      none.lower_bound_ticks = 1;
      return none;
    }
    return *result;
  }

  static std::string Describe(const TuneResult& r) {
    char text[160];
    std::snprintf(text, sizeof text, "bound %ld (%s), gap %.2f %%, %ld evaluations, %zu stages",
                  static_cast<long>(r.lower_bound_ticks), r.lower_bound_name.c_str(), 100 * r.gap,
                  static_cast<long>(r.evaluations), r.plan.stages.size());
    return text;
  }

  void Targets() {
    struct Target {
      const char* model;
      int32_t p, m;
      int64_t cap;
      double seconds, goal;
    };
    const Target targets[] = {
        {"nemotron-nano-v2-9B", 4, 8, kNoCap, 5, 87500},
        {"nemotron-nano-v2-9B", 4, 8, kNoCap, 60, 86500},
        {"nemotron-nano-v2-9B", 4, 8, 56, 20, 91000},
        {"nemotron-nano-v2-9B", 4, 8, 56, 60, 90000},
        {"nemotron-nano-v2-9B", 8, 16, kNoCap, 120, 90000},
        {"nemotron-nano-v2-9B", 8, 16, 56, 120, 97000},
        {"nemotron-h-8B", 8, 16, kNoCap, 120, 40700},
        {"nemotron-h-8B", 8, 16, 52, 120, 43800},
    };
    for (const Target& t : targets) {
      const TuneResult r = Search(Model(t.model, t.p, t.cap), t.m, t.seconds);
      Row("targets", Name(t.model, t.p, t.m, t.cap), t.goal, static_cast<double>(r.makespan_ticks),
          r.seconds, false, Describe(r));
    }
  }

  static std::string Name(const std::string& model, int32_t p, int32_t m, int64_t cap) {
    return model + " P" + std::to_string(p) + " M" + std::to_string(m) +
           (cap == kNoCap ? "" : " cap " + std::to_string(cap));
  }

  // Every model and size: better than OctoPipe (or within 0.5 % of the bound) in no more time than
  // it took.
  void Models() {
    struct Sum {
      double ours = 0, theirs = 0;
      int count = 0;
    };
    std::map<int32_t, Sum> gaps;
    double improvement = 0;
    int capped = 0;
    const json file = json::parse(profiles_);
    for (const json& model : file["models"]) {
      const std::string name = model["model"];
      for (const json& f : model["figures_to_beat"]) {
        const int32_t p = f["devices"], m = f["microbatches"];
        const double seconds = f["octopipe_seconds"], theirs = f["octopipe_ticks"];
        const TuneResult r = Search(Model(name, p, kNoCap), m, seconds);
        const auto bound = static_cast<double>(r.lower_bound_ticks),
                   ours = static_cast<double>(r.makespan_ticks);
        Row("models", Name(name, p, m, kNoCap), std::max(theirs - 1, 1.005 * bound), ours,
            r.seconds, false, Describe(r));
        gaps[p].ours += ours / bound - 1;
        gaps[p].theirs += theirs / bound - 1;
        ++gaps[p].count;
        const int64_t cap = f["octopipe_capped"]["live_layers_cap"];
        const double their_capped = f["octopipe_capped"]["ticks"];
        const TuneResult c = Search(Model(name, p, cap), m, seconds);
        Row("models", Name(name, p, m, cap),
            std::max(their_capped - 1, 1.005 * static_cast<double>(c.lower_bound_ticks)),
            static_cast<double>(c.makespan_ticks), c.seconds, false, Describe(c));
        improvement += 100 * (1 - static_cast<double>(c.makespan_ticks) / their_capped);
        ++capped;
      }
    }
    for (const auto& [p, sum] : gaps) {
      Row("models", "mean gap to own bound, %, P" + std::to_string(p), 50 * sum.theirs / sum.count,
          100 * sum.ours / sum.count, 0, false, "goal: half of OctoPipe's");
    }
    if (capped > 0)
      Row("models", "mean improvement at equal cap, %", 8, improvement / capped, 0, true);
  }

  // 8 us + 200 GB/s inside nodes of 8, 25 GB/s between, 1F1B's memory: better than the best
  // classical schedule.
  void Links() {
    const json file = json::parse(profiles_);
    for (const json& model : file["models"]) {
      for (const int32_t p : {4, 16}) {
        const std::string name = model["model"];
        const int64_t layers = model["layers"].get<std::string>().size() - 2;
        Costs costs = Model(name, p, layers);
        PILLION_CHECK(ParseLinks("8,200/8,8,25", &costs).ok(), "the link text is right");
        const TuneResult r = Search(costs, 2 * p, 20);
        // Two-copy schedules count too, although they hold the weights twice and the tuner never
        // does.
        Ticks best = INT64_MAX / 4;
        std::string best_name = "none";
        for (const auto& [schedule, ticks] : r.baselines) {
          if (ticks && *ticks < best) best = *ticks, best_name = schedule;
        }
        Row("links", Name(name, p, 2 * p, layers) + " links", static_cast<double>(best - 1),
            static_cast<double>(r.makespan_ticks), r.seconds, false,
            "best classical: " + best_name + "; " + Describe(r));
      }
    }
  }

  void Stall() {
    Costs costs;
    costs.layers.assign(64, Layer{'T', 1, 2, 0});
    UseUniformDevices(4, &costs);
    const TuneResult r = Search(costs, 8, 5, false);
    Row("stall", "B=8 N=8 W=4 L=64 F=1 backward=2", 447, static_cast<double>(r.makespan_ticks),
        r.seconds, false, Describe(r));
  }

  void Scale() {
    struct Size {
      int32_t p, m, layers;
      double seconds;
    };
    for (const Size& size : {Size{32, 64, 128, 60}, Size{128, 256, 256, 600}}) {
      Costs costs;
      costs.layers.assign(size.layers, Layer{'T', 174, 197, 108});
      UseUniformDevices(size.p, &costs);
      const TuneResult r = Search(costs, size.m, size.seconds);
      const bool last = size.p == 128;
      Row("scale", "P" + std::to_string(size.p) + " M" + std::to_string(size.m) + ", gap %",
          last ? 20 : 5, 100 * r.gap, r.seconds, false, Describe(r));
    }
  }

  // Whole schedules, none broken off, of a plan with 24 stages: 576 operations.
  void Speed() {
    using namespace tuner;
    ProblemOptions options;
    options.microbatches = 8;
    for (const int64_t cap : {kNoCap, int64_t{56}}) {
      const Costs costs = Model("nemotron-nano-v2-9B", 4, cap);
      const Problem problem = MakeProblem(costs, options);
      Candidate candidate;
      candidate.shape = RegularShape(problem, Pattern::kLoop, 6, false);
      SetSteadyKeys(problem, problem.total() / 4, 0, problem.total(), &candidate);
      Table table;
      Decoder decoder(problem);
      const auto begin = std::chrono::steady_clock::now();
      double seconds = 0;
      int64_t made = 0;
      for (; seconds < 2; made += 1000) {
        for (int i = 0; i < 1000; ++i) {
          table.Fill(problem, candidate.shape);
          decoder.Run(table, candidate.keys, 32, INT64_MAX / 2);
        }
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      }
      Row("speed",
          std::string("whole 576-operation schedules per second") +
              (cap == kNoCap ? "" : ", capped"),
          50000, static_cast<double>(made) / seconds, seconds, true);
    }
  }

  void Small() {
    int proved = 0, found = 0, below = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t seed = 1; proved < 500 && seed < 2000; ++seed) {
      const int32_t layers = 2 + static_cast<int32_t>(seed % 3),
                    m = 1 + static_cast<int32_t>(seed / 3 % 3);
      Costs costs = RandomTinyCosts(seed, 2, layers);
      if (seed % 5 == 0) {
        for (DeviceSpec& device : costs.devices) device.live_layer_cap = layers;
      }
      const auto optimum = ExactOptimum(costs, m, 3'000'000);
      if (!optimum || *optimum < 0) continue;
      ++proved;
      TuneOptions options;
      options.microbatches = m;
      options.max_evaluations = 50'000;
      options.seed = seed_;
      const auto result = Tune(costs, options);
      found += result.ok() && result->makespan_ticks == *optimum;
      below +=
          !result.ok() || result->makespan_ticks < *optimum || result->lower_bound_ticks > *optimum;
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    Row("small", "optimum found, % of " + std::to_string(proved), 95,
        proved > 0 ? 100.0 * found / proved : 0, seconds, true);
    Row("small", "below the optimum, or bound above it", 0, below, seconds);
  }

  const std::string profiles_;
  const bool as_json_;
  const std::string only_;
  const double factor_;
  const uint64_t seed_;
  json rows_ = json::array();
  int missed_ = 0;
};

}  // namespace
}  // namespace pillion::pipeline

int main(int argc, char** argv) {
  std::string file, only;
  bool as_json = false;
  double factor = 1;
  uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (!std::strcmp(argv[i], "--json")) {
      as_json = true;
    } else if (!std::strcmp(argv[i], "--profiles") && more) {
      file = argv[++i];
    } else if (!std::strcmp(argv[i], "--only") && more) {
      only = argv[++i];
    } else if (!std::strcmp(argv[i], "--time") && more) {
      factor = std::atof(argv[++i]);
    } else if (!std::strcmp(argv[i], "--seed") && more) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::cerr << "usage: bench-tune --profiles FILE [--json] [--only GROUP] [--time FACTOR] "
                   "[--seed N]\n";
      return 2;
    }
  }
  std::ifstream in(file);
  if (!in) {
    std::cerr << "cannot read the profiles '" << file << "': give --profiles FILE\n";
    return 2;
  }
  std::stringstream text;
  text << in.rdbuf();
  return pillion::pipeline::Bench(text.str(), as_json, only, factor, seed).Run();
}
