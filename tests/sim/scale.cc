#include "tests/sim/scale.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "head/reactor.h"
#include "head/reactor_impl.h"
#include "tests/sim/world.h"

namespace pillion::sim {
namespace {

constexpr uint64_t kClient = 1, kFirstWorker = 1000;
constexpr int64_t kTurnNs = kMs;  // the head's turns, in virtual time; a message takes as long

struct ScaleWorker {
  uint32_t held = 0;
  uint64_t done = 0;
  int64_t asked_ns = -1;  // when it last had room and said so
  int64_t next_heartbeat_ns = 0;
  std::vector<wire::Finish> finishes;
};

uint64_t RssBytes() {
  std::ifstream in("/proc/self/statm");
  uint64_t pages = 0;
  in >> pages >> pages;
  return pages * 4096;
}

double Quantile(std::vector<double>* values, double q) {
  if (values->empty()) return 0;
  size_t at = std::min(values->size() - 1, static_cast<size_t>(q * static_cast<double>(values->size())));
  std::nth_element(values->begin(), values->begin() + static_cast<long>(at), values->end());
  return (*values)[at];
}

class Scale {
 public:
  explicit Scale(const ScaleOptions& options)
      : options_(options), random_(options.tasks), workers_(options.workers), reactor_(Make()) {
    Status status = reactor_->FinishLoad(Now());
    PILLION_CHECK(status.ok(), "an empty store loads");
    Turn();
  }

  ScaleResult Run() {
    uint64_t before = RssBytes();
    Submit();
    result_.queued_rss_bytes = RssBytes() - before;
    MeasureRestart();
    keep_ = false;
    disk_.clear();
    for (uint32_t w = 0; w < options_.workers; ++w) Join(w);
    double cpu_before = cpu_s_;
    int64_t start_ns = now_ns_;
    while (result_.finished < options_.tasks && result_.error.empty()) Advance();
    result_.virtual_s = static_cast<double>(now_ns_ - start_ns) / kSecond;
    uint64_t slots = uint64_t{options_.workers} * options_.slots;
    result_.ideal_s = static_cast<double>(options_.tasks) * options_.task_ms / 1000.0 / static_cast<double>(slots);
    result_.head_cpu_s = cpu_s_;
    result_.head_cpu_us_per_task = (cpu_s_ - cpu_before) * 1e6 / options_.tasks;
    result_.dispatch_ms_p50 = Quantile(&dispatch_ms_, 0.5);
    result_.dispatch_ms_p99 = Quantile(&dispatch_ms_, 0.99);
    result_.turn_ms_p99 = Quantile(&turn_ms_, 0.99);
    result_.turn_ms_max = turn_ms_.empty() ? 0 : *std::max_element(turn_ms_.begin(), turn_ms_.end());
    uint64_t most = 0;
    for (const ScaleWorker& worker : workers_) most = std::max(most, worker.done);
    result_.balance = static_cast<double>(most) * options_.workers / options_.tasks;
    return result_;
  }

 private:
  std::unique_ptr<head::Reactor> Make() {
    head::ReactorOptions options;
    options.finished_tasks_retained = UINT64_MAX;
    return std::make_unique<head::Reactor>(options, &effects_);
  }
  head::Now Now() const { return {now_ns_, 1}; }

  void Deliver(uint64_t peer, wire::Role role, wire::Body body) {
    int64_t begin = MonotonicNowNs();
    reactor_->OnMessage({peer, role, "scale"}, {++request_, std::move(body)}, Now());
    cpu_s_ += static_cast<double>(MonotonicNowNs() - begin) / kSecond;
  }

  void Turn() {
    int64_t begin = MonotonicNowNs();
    if (now_ns_ >= reactor_->NextTimerNs()) reactor_->OnTick(Now());
    reactor_->EndTurn(Now());
    double seconds = static_cast<double>(MonotonicNowNs() - begin) / kSecond;
    cpu_s_ += seconds;
    turn_ms_.push_back(seconds * 1000);
    result_.records += effects_.records.size();
    for (head::Record& record : effects_.records) {
      result_.record_bytes += record.key.size() + record.value.size();
      if (keep_) disk_[{static_cast<uint8_t>(record.kind), record.key}] = std::move(record.value);
    }
    for (head::Outgoing& out : effects_.after_commit) {
      if (auto* grants = std::get_if<wire::Grants>(&out.message.body)) Take(out.peer, *grants);
    }
    for (head::Outgoing& out : effects_.now) {
      if (auto* error = std::get_if<wire::ErrorReply>(&out.message.body)) result_.error = error->status.ToString();
    }
    effects_.Clear();
    reactor_->OnCommitted(Now());
  }

  void Submit() {
    Deliver(kClient, wire::Role::kClient, wire::Hello{});
    double before = cpu_s_;
    for (uint32_t first = 0; first < options_.tasks; first += limits::kTasksPerChunk) {
      wire::SubmitChunk chunk;
      chunk.job = {1, 1};
      chunk.chunk = first / limits::kTasksPerChunk;
      chunk.last = first + limits::kTasksPerChunk >= options_.tasks;
      uint32_t end = std::min(options_.tasks, first + limits::kTasksPerChunk);
      for (uint32_t i = first; i < end; ++i) {
        wire::TaskSpec spec;
        spec.index = i;
        spec.kind = wire::TaskKind::kCall;
        spec.program = "work";
        spec.arguments = std::to_string(i);
        chunk.tasks.push_back(std::move(spec));
      }
      Deliver(kClient, wire::Role::kClient, std::move(chunk));
      Turn();
    }
    result_.submit_tasks_per_s = options_.tasks / (cpu_s_ - before);
  }

  void MeasureRestart() {
    head::Effects effects;
    int64_t begin = MonotonicNowNs();
    head::Reactor again(head::ReactorOptions(), &effects);
    for (const auto& [key, value] : disk_) {
      Status status = again.Load(static_cast<head::RecordKind>(key.first), key.second, value);
      PILLION_CHECK(status.ok(), status.ToString().c_str());
    }
    Status status = again.FinishLoad(Now());
    PILLION_CHECK(status.ok(), status.ToString().c_str());
    result_.restart_s = static_cast<double>(MonotonicNowNs() - begin) / kSecond;
    PILLION_CHECK(again.impl().queue().total(wire::TaskState::kQueued) == options_.tasks, "all tasks are back");
  }

  void Join(uint32_t w) {
    wire::WorkerHello hello;
    hello.worker = {2, w + 1};
    hello.name = "host" + std::to_string(w) + "/cpu0";
    hello.programs = {"work"};
    Deliver(kFirstWorker + w, wire::Role::kWorker, std::move(hello));
    Pull(w);
    workers_[w].next_heartbeat_ns = now_ns_ + random_.Between(0, 2000) * kMs;
    heartbeats_.emplace(workers_[w].next_heartbeat_ns, w);
  }

  void Pull(uint32_t w) {
    ScaleWorker& worker = workers_[w];
    wire::Pull pull;
    pull.held = worker.held;
    pull.want = pull.call_slots = options_.slots - worker.held;
    if (worker.asked_ns < 0) worker.asked_ns = now_ns_;
    Deliver(kFirstWorker + w, wire::Role::kWorker, pull);
  }

  void Take(uint64_t peer, const wire::Grants& grants) {
    uint32_t w = static_cast<uint32_t>(peer - kFirstWorker);
    ScaleWorker& worker = workers_[w];
    if (worker.asked_ns >= 0) dispatch_ms_.push_back(static_cast<double>(now_ns_ + kTurnNs - worker.asked_ns) / kMs);
    worker.asked_ns = -1;
    for (const wire::Grant& grant : grants.grants) {
      ++worker.held;
      wire::Finish finish;
      finish.task = grant.task;
      finish.epoch = grant.epoch;
      finish.result = "result";
      int64_t runs_ms = random_.Between(options_.task_ms / 2, options_.task_ms * 3 / 2);
      running_.emplace(now_ns_ + kTurnNs + runs_ms * kMs, std::make_pair(w, std::move(finish)));
    }
    if (worker.held > options_.slots) result_.error = "a worker got more than it asked for";
  }

  // One turn of virtual time.
  void Advance() {
    now_ns_ += kTurnNs;
    std::vector<uint32_t> reporting;
    while (!running_.empty() && running_.begin()->first <= now_ns_) {
      auto& [w, finish] = running_.begin()->second;
      if (workers_[w].finishes.empty()) reporting.push_back(w);
      workers_[w].finishes.push_back(std::move(finish));
      running_.erase(running_.begin());
    }
    for (uint32_t w : reporting) {
      ScaleWorker& worker = workers_[w];
      worker.held -= static_cast<uint32_t>(worker.finishes.size());
      worker.done += worker.finishes.size();
      result_.finished += worker.finishes.size();
      Deliver(kFirstWorker + w, wire::Role::kWorker, wire::FinishBatch{std::move(worker.finishes)});
      worker.finishes.clear();
      Pull(w);
    }
    while (!heartbeats_.empty() && heartbeats_.begin()->first <= now_ns_) {
      uint32_t w = heartbeats_.begin()->second;
      heartbeats_.erase(heartbeats_.begin());
      heartbeats_.emplace(now_ns_ + 2 * kSecond, w);
      // What it holds is listed in the real protocol; an empty list here would count against the leases.
      wire::Progress alive;
      Deliver(kFirstWorker + w, wire::Role::kWorker, alive);
    }
    Turn();
    if (now_ns_ > 3600 * 24 * kSecond) result_.error = "not everything ended within a virtual day";
  }

  const ScaleOptions options_;
  Random random_;
  std::vector<ScaleWorker> workers_;
  head::Effects effects_;
  std::unique_ptr<head::Reactor> reactor_;
  std::map<std::pair<uint8_t, std::string>, std::string> disk_;
  bool keep_ = true;
  std::multimap<int64_t, std::pair<uint32_t, wire::Finish>> running_;
  std::multimap<int64_t, uint32_t> heartbeats_;
  int64_t now_ns_ = kSecond;
  uint64_t request_ = 0;
  double cpu_s_ = 0;
  std::vector<double> dispatch_ms_, turn_ms_;
  ScaleResult result_;
};

}  // namespace

ScaleResult RunScale(const ScaleOptions& options) { return Scale(options).Run(); }

}  // namespace pillion::sim
