#include "cli/demo/workload.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace pillion::demo {
namespace {

using nlohmann::json;

constexpr int kStepUs = 1000;

// apt's lists have all packages of the distribution; a machine without them still has its own installed ones.
bool HasAptLists() {
  auto names = ListDirectory("/var/lib/apt/lists");
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return name.find("_Packages") != std::string::npos;
         });
}

json PageRank(bool apt, uint64_t iterations, double damping) {
  // Installed packages are a graph of a thousandth the work, so it is ranked more often, and hardly damped, which
  // converges late.
  if (!apt) return {{"graph", "dpkg"}, {"iterations", 400 * iterations}, {"damping", 1 - (1 - damping) / 1e4}, {"tolerance", 0}};
  return {{"graph", "apt"}, {"iterations", iterations}, {"damping", damping}, {"tolerance", 0}};
}

}  // namespace

Result<Graph> MakeWorkload(const WorkloadOptions& options, const std::string& job_name,
                           const std::string& output_directory) {
  wire::JobOptions job;
  job.name = job_name;
  Graph graph(job);
  auto add = [&graph](const std::string& program, json arguments) {
    arguments["step_us"] = kStepUs;
    graph.AddSteps(program, arguments.dump());
  };
  const uint64_t n = options.iterations;
  const bool apt = HasAptLists();
  add("graph.pagerank", PageRank(apt, 4 * n, 0.85));
  add("image.resize_watermark", {{"input", options.pictures},
                                 {"output", output_directory + "/large"},
                                 {"width", 1600},
                                 {"filter", "lanczos"}});
  if (options.torch) add("train.cnn", {{"epochs", std::max<uint64_t>(2, n / 16)}, {"seed", 1}});
  add("graph.pagerank", PageRank(apt, 3 * n, 0.9));
  add("image.resize_watermark", {{"input", options.pictures},
                                 {"output", output_directory + "/small"},
                                 {"width", 800},
                                 {"filter", "lanczos"}});
  if (options.torch) add("train.cnn", {{"epochs", std::max<uint64_t>(2, n / 20)}, {"seed", 2}});
  add("checksum", {{"path", options.file}});
  PILLION_RETURN_IF_ERROR(graph.status());
  return graph;
}

Result<bool> SameResult(const std::string& result, const std::string& reference) {
  json one = json::parse(result, nullptr, false), other = json::parse(reference, nullptr, false);
  for (json* each : {&one, &other}) {
    if (!each->is_object() || each->empty()) return Corruption("a result is no JSON object: " + result.substr(0, 200));
    each->erase("output");
  }
  return one == other;
}

bool WorthMoving(const std::string& program) { return program != "checksum"; }

}  // namespace pillion::demo
