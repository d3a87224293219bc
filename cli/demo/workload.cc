#include "cli/demo/workload.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/file.h"

namespace pillion::demo {
namespace {

using nlohmann::json;

constexpr int kStepUs = 1000;
constexpr uint64_t kLeastIterations = 200;  // less would be over before it could be moved

// apt's lists have all packages of the distribution; a machine without them still has its own installed ones.
bool HasAptLists() {
  auto names = ListDirectory("/var/lib/apt/lists");
  return names.ok() && std::any_of(names->begin(), names->end(), [](const std::string& name) {
           return name.find("_Packages") != std::string::npos;
         });
}

class Builder {
 public:
  Builder(const WorkloadOptions& options, const std::string& job_name, const std::string& output_directory)
      : options_(options), output_directory_(output_directory), graph_(NamedJob(job_name)) {}

  // Hardly damped, so that it converges late. Installed packages are a graph of a hundredth the work.
  void PageRank(double damping) {
    if (apt_) {
      Add("graph.pagerank", {{"graph", "apt"}, {"iterations", 3 * size_}, {"damping", damping}, {"tolerance", 0}});
    } else {
      Add("graph.pagerank",
          {{"graph", "dpkg"}, {"iterations", 200 * size_}, {"damping", 1 - (1 - damping) / 1e3}, {"tolerance", 0}});
    }
  }
  void Pictures(int width) {
    Add("image.resize_watermark", {{"input", options_.pictures},
                                   {"output", output_directory_ + "/" + std::to_string(width)},
                                   {"width", width},
                                   {"filter", "lanczos"}});
  }
  void TrainCnn(int seed) {
    if (!options_.torch) return;
    Add("train.cnn", {{"epochs", std::max<uint64_t>(2, size_ / 20)}, {"seed", seed}});
  }
  void Checksum() { Add("checksum", {{"path", options_.file}}); }
  Graph Take() { return std::move(graph_); }

 private:
  static wire::JobOptions NamedJob(const std::string& name) {
    wire::JobOptions job;
    job.name = name;
    return job;
  }
  void Add(const std::string& program, json arguments) {
    arguments["step_us"] = kStepUs;
    graph_.AddSteps(program, arguments.dump());
  }

  const WorkloadOptions& options_;
  const std::string& output_directory_;
  const uint64_t size_ = std::max(options_.iterations, kLeastIterations);
  const bool apt_ = HasAptLists();
  Graph graph_;
};

}  // namespace

Result<Graph> MakeWorkload(const WorkloadOptions& options, Wave wave, const std::string& job_name,
                           const std::string& output_directory) {
  Builder builder(options, job_name, output_directory);
  if (wave != Wave::kSecond) {
    builder.PageRank(0.99);
    builder.Pictures(1600);
    builder.TrainCnn(1);
    builder.Checksum();
    builder.PageRank(0.995);
  }
  if (wave != Wave::kFirst) {
    builder.TrainCnn(2);
    builder.Pictures(1280);
    builder.PageRank(0.985);
    builder.TrainCnn(3);
    builder.PageRank(0.98);
    builder.Pictures(1024);
    builder.PageRank(0.975);
    builder.Pictures(800);
  }
  Graph graph = builder.Take();
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
