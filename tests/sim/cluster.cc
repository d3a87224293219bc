#include "tests/sim/cluster.h"

#include <memory>

#include "tests/sim/sim_client.h"
#include "tests/sim/sim_head.h"
#include "tests/sim/sim_worker.h"
#include "tests/sim/workload.h"

namespace pillion::sim {
namespace {

constexpr int64_t kEndNs = 1'200 * kSecond;  // of the stage that must converge

class Cluster {
 public:
  Cluster(const Scenario& scenario, uint64_t seed, PlantedBug bug)
      : world_(scenario, seed),
        network_(&world_, &head_node_),
        checker_(&world_, &disk_, &files_),
        head_(&world_, &network_, &disk_, &files_, &checker_, bug),
        head_node_(&head_),
        operator_(&world_, &network_) {
    uint64_t number = 1;
    int clients = 1 + static_cast<int>(world_.random.Below(scenario.clients));
    for (int c = 0; c < clients; ++c) {
      std::vector<const SimJob*> jobs;
      for (int j = 0; j < scenario.jobs_per_client; ++j) {
        jobs_.push_back(std::make_unique<SimJob>(MakeJob(number++, scenario.tasks_per_job, &world_.random)));
        jobs.push_back(jobs_.back().get());
        checker_.KnowJob(jobs_.back().get());
      }
      clients_.push_back(std::make_unique<SimClient>(&world_, &network_, jobs));
    }
    int workers = 1 + static_cast<int>(world_.random.Below(scenario.workers));
    for (int w = 0; w < workers; ++w) {
      workers_.push_back(std::make_unique<SimWorker>(&world_, &network_, &files_, &checker_, w));
    }
  }

  RunResult Run() {
    head_.Start();
    for (auto& worker : workers_) worker->Start();
    for (auto& client : clients_) client->Start();
    PlanFaults();
    while (!world_.stopped && !Ended() && world_.Step()) {
      if (world_.now_ns > world_.faults_end_ns + kEndNs) {
        checker_.OnStuck(Unfinished());
        break;
      }
    }
    RunResult result;
    result.events = world_.events;
    result.virtual_s = static_cast<double>(world_.now_ns) / kSecond;
    result.violations = checker_.violations();
    if (head_.alive()) Count(&result);
    return result;
  }

 private:
  bool Ended() const {
    if (world_.Faulty()) return false;
    for (const auto& client : clients_) {
      if (!client->done()) return false;
    }
    for (const auto& worker : workers_) {
      if (!worker->idle()) return false;
    }
    return true;
  }

  std::string Unfinished() const {
    std::string text = "not everything ended";
    if (!head_.alive()) return text + ": the head is down";
    const head::Queue& queue = head_.reactor()->impl().queue();
    for (const auto& [order, slot] : queue.by_order()) {
      const head::Job& job = *queue.job(slot);
      for (uint32_t i = 0; i < job.tasks.size(); ++i) {
        if (IsFinal(job.tasks[i].state)) continue;
        text += "; " + TaskId{job.id, i}.ToString() + " is " + std::string(TaskStateName(job.tasks[i].state));
        if (job.tasks[i].run && job.tasks[i].run->lease) text += " at " + job.tasks[i].run->lease->worker_name;
      }
    }
    for (size_t i = 0; i < clients_.size(); ++i) {
      if (!clients_[i]->done()) text += "; client " + std::to_string(i) + " still waits";
    }
    for (const auto& worker : workers_) {
      if (!worker->idle()) text += "; " + worker->name() + " is not idle";
    }
    return text;
  }

  void Count(RunResult* result) const {
    const head::Queue& queue = head_.reactor()->impl().queue();
    for (const auto& [order, slot] : queue.by_order()) {
      result->nested += queue.job(slot)->nested.size();
      for (const head::Task& task : queue.job(slot)->tasks) {
        ++result->tasks;
        result->succeeded += task.state == wire::TaskState::kSucceeded;
        if (!task.run) continue;
        result->grants += task.run->epoch;
        result->moves += task.run->planned_moves;
        result->losses += task.run->worker_losses;
      }
    }
  }

  // Draws the times of one kind of fault over the fault stage.
  void Plan(double per_s, std::function<void()> fault) {
    if (per_s <= 0) return;
    double mean_ms = 1000 / per_s;
    for (int64_t at = 0;;) {
      at += static_cast<int64_t>(mean_ms * (0.1 + 1.8 * static_cast<double>(world_.random.Below(1000)) / 1000));
      if (at * kMs >= world_.faults_end_ns) return;
      world_.At(at * kMs, fault);
    }
  }

  SimWorker* AnyWorker() { return workers_[world_.random.Below(workers_.size())].get(); }

  void PlanFaults() {
    const Scenario& s = world_.scenario;
    Plan(s.cuts_per_s, [this] { network_.CutSome(); });
    Plan(s.one_way_cuts_per_s, [this] { network_.CutOneWaySome(); });
    Plan(s.head_crashes_per_s, [this] {
      head_.Crash();
      world_.After(world_.random.Between(10, 5'000) * kMs, [this] {
        if (!head_.alive()) head_.Start();
      });
    });
    Plan(s.worker_crashes_per_s, [this] { AnyWorker()->Crash(); });
    Plan(s.freezes_per_s, [this] { AnyWorker()->Freeze(world_.now_ns + world_.random.Between(1, 40'000) * kMs); });
    Plan(s.clock_jumps_per_s, [this] { world_.wall_ns += world_.random.Between(-100'000, 100'000) * kSecond; });
    Plan(s.moves_per_s, [this] { MoveSome(); });
    Plan(s.drains_per_s, [this] {
      std::string name = AnyWorker()->name();
      operator_.Send(wire::DrainWorker{name, true});
      world_.After(world_.random.Between(1'000, 10'000) * kMs, [this, name] { operator_.Send(wire::DrainWorker{name, false}); });
    });
    if (s.drains_per_s > 0) {  // what an operator forgot must not keep the rest from ending
      for (int again = 1; again <= 20; ++again) {
        for (const auto& worker : workers_) {
          std::string name = worker->name();
          world_.At(world_.faults_end_ns + again * kSecond, [this, name] { operator_.Send(wire::DrainWorker{name, false}); });
        }
      }
    }
  }

  void MoveSome() {
    if (!head_.alive()) return;
    const head::Queue& queue = head_.reactor()->impl().queue();
    std::vector<TaskId> leased;
    for (const auto& [order, slot] : queue.by_order()) {
      const head::Job& job = *queue.job(slot);
      for (uint32_t i = 0; i < job.tasks.size(); ++i) {
        if (job.tasks[i].state == wire::TaskState::kLeased) leased.push_back({job.id, i});
      }
    }
    if (leased.empty()) return;
    wire::MigrateTask migrate{leased[world_.random.Below(leased.size())], ""};
    if (world_.random.Chance(0.5)) migrate.to_worker = AnyWorker()->name();
    operator_.Send(migrate);
  }

  World world_;
  Network network_;
  Disk disk_;
  Files files_;
  Checker checker_;
  SimHead head_;
  HeadNode* head_node_;
  SimOperator operator_;
  std::vector<std::unique_ptr<SimJob>> jobs_;
  std::vector<std::unique_ptr<SimClient>> clients_;
  std::vector<std::unique_ptr<SimWorker>> workers_;
};

}  // namespace

RunResult Run(const Scenario& scenario, uint64_t seed, PlantedBug bug) {
  RunResult result = Cluster(scenario, seed, bug).Run();
  result.scenario = scenario.name;
  result.seed = seed;
  return result;
}

}  // namespace pillion::sim
