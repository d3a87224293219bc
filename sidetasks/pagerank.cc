// graph.pagerank: ranks the vertices of a graph by power iteration.
//   {"graph": "dpkg" | "apt" | "/path/to/edges.txt", "iterations": 50, "damping": 0.85,
//   "tolerance": 1e-9} → {"vertices", "edges", "iterations", "converged", "delta", "checksum",
//   "top": [{"name", "rank"}, …]}
// A vertex gathers from its incoming edges in order, so every sum is made in the same order however
// the work is cut; an item is a run of at most kEdgesPerItem edges, also within one vertex.
#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/checksum.h"
#include "pillion/side_task.h"
#include "sidetasks/graph.h"
#include "sidetasks/step_pacer.h"

namespace pillion::sidetasks {
namespace {

constexpr uint64_t kEdgesPerItem = 2048;
constexpr uint32_t kVerticesPerItem = 512;
constexpr size_t kTop = 10;

class PageRank final : public SideTask {
 public:
  Status Init(InitContext& context) override {
    const Arguments& arguments = context.arguments();
    PILLION_ASSIGN_OR_RETURN(std::string source, arguments.Text("graph", "dpkg"));
    PILLION_ASSIGN_OR_RETURN(iterations_, arguments.Integer("iterations", 50, 1, 1'000'000));
    PILLION_ASSIGN_OR_RETURN(damping_, arguments.Number("damping", 0.85));
    PILLION_ASSIGN_OR_RETURN(tolerance_, arguments.Number("tolerance", 1e-9));
    PILLION_RETURN_IF_ERROR(pacer_.Init(context));
    PILLION_RETURN_IF_ERROR(arguments.CheckAllKnown());
    if (!(damping_ >= 0 && damping_ < 1))
      return InvalidArgument("argument 'damping' must be at least 0 and below 1");
    if (!(tolerance_ >= 0)) return InvalidArgument("argument 'tolerance' must not be negative");
    PILLION_ASSIGN_OR_RETURN(graph_, LoadGraph(source));
    context.DeclareMemory(DeviceBytes());
    context.DeclareItems(static_cast<uint64_t>(iterations_) * graph_.vertices());
    return Status::Ok();
  }

  Status Load(Device& device, CheckpointReader* checkpoint) override {
    device_ = &device;
    PILLION_RETURN_IF_ERROR(ToDevice(graph_.first_source, &first_source_));
    PILLION_RETURN_IF_ERROR(ToDevice(graph_.sources, &sources_));
    const size_t n = graph_.vertices();
    std::vector<double> weights(n), start(n, 1.0 / static_cast<double>(n));
    for (size_t v = 0; v < n; ++v)
      weights[v] = graph_.out_degree[v] == 0 ? 0 : 1.0 / graph_.out_degree[v];
    PILLION_RETURN_IF_ERROR(ToDevice(weights, &weight_));
    PILLION_RETURN_IF_ERROR(ToDevice(start, &rank_));
    PILLION_RETURN_IF_ERROR(ToDevice(start, &next_));
    if (checkpoint != nullptr) return Restore(*checkpoint);
    for (size_t v = 0; v < n; ++v) {
      if (graph_.out_degree[v] == 0) state_.dangling += start[v];
    }
    return Status::Ok();
  }

  Result<StepOutcome> Step(StepContext& context) override {
    StepOutcome outcome;
    pacer_.BeginStep(context);
    do {
      outcome.items += Advance();
      outcome.done = Done();
    } while (!outcome.done && pacer_.AnotherFits());
    return outcome;
  }

  Status Save(CheckpointWriter& checkpoint) override {
    const size_t n = graph_.vertices();
    std::vector<double> values(n);
    PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(graph_.Fingerprint()));
    PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(state_));
    for (const double* from : {rank_, next_}) {
      PILLION_RETURN_IF_ERROR(
          device_->CopyToHost(values.data(), from, n * sizeof(double), device_->step_stream()));
      PILLION_RETURN_IF_ERROR(device_->Synchronize(device_->step_stream()));
      PILLION_RETURN_IF_ERROR(checkpoint.Write(values.data(), n * sizeof(double)));
    }
    return Status::Ok();
  }

  Result<std::string> Finish() override {
    const size_t n = graph_.vertices();
    std::vector<double> ranks(n);
    PILLION_RETURN_IF_ERROR(
        device_->CopyToHost(ranks.data(), rank_, n * sizeof(double), device_->step_stream()));
    PILLION_RETURN_IF_ERROR(device_->Synchronize(device_->step_stream()));
    std::vector<uint32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    size_t top = std::min(kTop, n);
    std::partial_sort(
        order.begin(), order.begin() + static_cast<ptrdiff_t>(top), order.end(),
        [&](uint32_t a, uint32_t b) { return ranks[a] != ranks[b] ? ranks[a] > ranks[b] : a < b; });
    nlohmann::json best = nlohmann::json::array();
    for (size_t i = 0; i < top; ++i)
      best.push_back({{"name", graph_.Name(order[i])}, {"rank", ranks[order[i]]}});
    char checksum[17];
    std::snprintf(checksum, sizeof checksum, "%016" PRIx64,
                  Checksum64(ranks.data(), n * sizeof(double)));
    return nlohmann::json({{"vertices", n},
                           {"edges", graph_.sources.size()},
                           {"iterations", state_.iteration},
                           {"converged", state_.last_delta <= tolerance_},
                           {"delta", state_.last_delta},
                           {"checksum", checksum},
                           {"top", best}})
        .dump();
  }

  void Unload() override {
    for (void* memory : allocated_) device_->Free(memory);
    allocated_.clear();
  }

 private:
  // Where the work stands; stored as it is.
  struct State {
    int64_t iteration = 0;  // done
    uint32_t vertex = 0;    // the next one of this iteration …
    uint32_t padding = 0;
    uint64_t edge = 0;  // … whose edges before this one are in `sum`
    double sum = 0;
    double dangling = 0;       // rank of vertices without outgoing edges, of the last iteration
    double next_dangling = 0;  // the same of this one so far
    double delta = 0;          // change of this iteration so far
    double last_delta = 1;     // of the last one
  };

  uint64_t DeviceBytes() const {
    constexpr uint64_t kAlignment = 256;
    uint64_t n = graph_.vertices();
    return (n + 1) * sizeof(uint64_t) + graph_.sources.size() * sizeof(uint32_t) +
           3 * n * sizeof(double) + 5 * kAlignment;
  }

  template <typename T>
  Status ToDevice(const std::vector<T>& values, T** on_device) {
    size_t bytes = values.size() * sizeof(T);
    PILLION_ASSIGN_OR_RETURN(void* memory, device_->Allocate(std::max<size_t>(bytes, 1)));
    allocated_.push_back(memory);
    *on_device = static_cast<T*>(memory);
    PILLION_RETURN_IF_ERROR(
        device_->CopyToDevice(memory, values.data(), bytes, device_->step_stream()));
    return device_->Synchronize(device_->step_stream());
  }

  Status Restore(CheckpointReader& checkpoint) {
    const size_t n = graph_.vertices();
    uint64_t fingerprint = 0;
    PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&fingerprint));
    if (fingerprint != graph_.Fingerprint()) {
      return FailedPrecondition(
          "the graph has changed since the checkpoint: submit the task again");
    }
    PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&state_));
    if (state_.vertex > n ||
        (state_.vertex < n && state_.edge > graph_.first_source[state_.vertex + 1])) {
      return Corruption("checkpoint: a position outside of the graph");
    }
    std::vector<double> values(n);
    for (double* to : {rank_, next_}) {
      PILLION_RETURN_IF_ERROR(checkpoint.Read(values.data(), n * sizeof(double)));
      PILLION_RETURN_IF_ERROR(
          device_->CopyToDevice(to, values.data(), n * sizeof(double), device_->step_stream()));
      PILLION_RETURN_IF_ERROR(device_->Synchronize(device_->step_stream()));
    }
    return Status::Ok();
  }

  bool Done() const {
    return state_.iteration >= iterations_ ||
           (state_.iteration > 0 && state_.last_delta <= tolerance_);
  }

  // One item: some vertices of the iteration, or a part of a large one. Returns how many were
  // completed.
  uint64_t Advance() {
    const uint32_t n = graph_.vertices();
    const double inverse_n = 1.0 / n;
    uint64_t edges_left = kEdgesPerItem;
    uint64_t completed = 0;
    while (state_.vertex < n && edges_left > 0 && completed < kVerticesPerItem) {
      uint64_t begin = std::max(state_.edge, first_source_[state_.vertex]);
      uint64_t end = first_source_[state_.vertex + 1];
      uint64_t stop = std::min(end, begin + edges_left);
      double sum = state_.sum;
      for (uint64_t edge = begin; edge < stop; ++edge)
        sum += rank_[sources_[edge]] * weight_[sources_[edge]];
      edges_left -= stop - begin;
      state_.edge = stop;
      state_.sum = sum;
      if (stop < end) break;
      double rank = (1 - damping_) * inverse_n + damping_ * (sum + state_.dangling * inverse_n);
      next_[state_.vertex] = rank;
      state_.delta += std::fabs(rank - rank_[state_.vertex]);
      if (weight_[state_.vertex] == 0) state_.next_dangling += rank;
      ++state_.vertex;
      state_.sum = 0;
      ++completed;
    }
    if (state_.vertex == n) EndIteration();
    return completed;
  }

  void EndIteration() {
    std::swap(rank_, next_);
    ++state_.iteration;
    state_.vertex = 0;
    state_.edge = 0;
    state_.dangling = state_.next_dangling;
    state_.next_dangling = 0;
    state_.last_delta = state_.delta;
    state_.delta = 0;
  }

  StepPacer pacer_;
  int64_t iterations_ = 0;
  double damping_ = 0, tolerance_ = 0;
  Graph graph_;
  State state_;

  Device* device_ = nullptr;
  std::vector<void*> allocated_;
  uint64_t* first_source_ = nullptr;
  uint32_t* sources_ = nullptr;
  double* weight_ = nullptr;  // 1 / out degree; 0 for none
  double* rank_ = nullptr;
  double* next_ = nullptr;
};

PILLION_SIDE_TASK("graph.pagerank", PageRank, Devices::kCpu);

}  // namespace
}  // namespace pillion::sidetasks
