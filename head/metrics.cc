#include "head/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <array>
#include <exception>

namespace pillion::head {
namespace {

constexpr std::array<const char*, 7> kStates = {"waiting", "queued",    "leased", "succeeded",
                                                "failed",  "cancelled", "skipped"};

prometheus::Family<prometheus::Gauge>& GaugeFamily(prometheus::Registry* registry, const char* name,
                                                   const char* help) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(*registry);
}

prometheus::Gauge* Gauge(prometheus::Registry* registry, const char* name, const char* help) {
  return &GaugeFamily(registry, name, help).Add({});
}

prometheus::Counter* Counter(prometheus::Registry* registry, const char* name, const char* help) {
  return &prometheus::BuildCounter().Name(name).Help(help).Register(*registry).Add({});
}

// Brings a counter up to a total that somebody else counts.
void RaiseTo(prometheus::Counter* counter, uint64_t total) {
  double more = static_cast<double>(total) - counter->Value();
  if (more > 0) counter->Increment(more);
}

}  // namespace

class Metrics::Impl {
 public:
  Impl() {
    auto& tasks =
        GaugeFamily(registry_.get(), "pillion_head_tasks", "Tasks the head knows, by state.");
    for (size_t i = 0; i < kStates.size(); ++i) tasks_[i] = &tasks.Add({{"state", kStates[i]}});
    auto& writes = GaugeFamily(registry_.get(), "pillion_head_store_write_seconds",
                               "Time of a synced batch, of the last few thousand.");
    write_p50_ = &writes.Add({{"quantile", "0.5"}});
    write_p99_ = &writes.Add({{"quantile", "0.99"}});
  }

  Status Listen(const std::string& address) {
    try {
      exposer_ = std::make_unique<prometheus::Exposer>(address, 1);
      exposer_->RegisterCollectable(registry_);
      port_ = exposer_->GetListeningPorts().at(0);
    } catch (const std::exception& error) {
      return Unavailable("metrics cannot be served at " + address + " (" + error.what() +
                         "): is the port in use?");
    }
    return Status::Ok();
  }

  int port() const { return port_; }

  void CountTurn(uint64_t messages) {
    turns_->Increment();
    if (messages > 0) messages_->Increment(static_cast<double>(messages));
  }

  void Update(const wire::StatusReply& status, const store::StoreStatistics& store,
              uint32_t connections) {
    const std::array<uint64_t, 7> counts = {status.waiting,   status.queued, status.leased,
                                            status.succeeded, status.failed, status.cancelled,
                                            status.skipped};
    for (size_t i = 0; i < counts.size(); ++i) tasks_[i]->Set(static_cast<double>(counts[i]));
    jobs_->Set(static_cast<double>(status.jobs));
    workers_->Set(status.workers_connected);
    connections_->Set(connections);
    uptime_->Set(status.uptime_s);
    store_failing_->Set(status.store_error.empty() ? 0 : 1);
    store_bytes_->Set(static_cast<double>(store.disk_bytes));
    write_p50_->Set(store.write_ms_p50 * 1e-3);
    write_p99_->Set(store.write_ms_p99 * 1e-3);
    RaiseTo(batches_, store.batches);
    RaiseTo(records_, store.records);
    RaiseTo(written_bytes_, store.bytes_written);
    RaiseTo(store_failures_, store.failures);
    RaiseTo(hostile_, status.hostile_messages);
  }

 private:
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::array<prometheus::Gauge*, kStates.size()> tasks_{};
  prometheus::Gauge* jobs_ = Gauge(registry_.get(), "pillion_head_jobs", "Jobs the head knows.");
  prometheus::Gauge* workers_ =
      Gauge(registry_.get(), "pillion_head_workers_connected", "Workers connected now.");
  prometheus::Gauge* connections_ =
      Gauge(registry_.get(), "pillion_head_connections", "Open connections.");
  prometheus::Gauge* uptime_ =
      Gauge(registry_.get(), "pillion_head_uptime_seconds", "Time since the start.");
  prometheus::Gauge* store_failing_ =
      Gauge(registry_.get(), "pillion_head_store_failing", "1 while the store refuses writes.");
  prometheus::Gauge* store_bytes_ =
      Gauge(registry_.get(), "pillion_head_store_bytes", "Bytes of the records on disk.");
  prometheus::Gauge* write_p50_ = nullptr;
  prometheus::Gauge* write_p99_ = nullptr;
  prometheus::Counter* turns_ =
      Counter(registry_.get(), "pillion_head_turns_total", "Turns of the loop.");
  prometheus::Counter* messages_ =
      Counter(registry_.get(), "pillion_head_messages_total", "Messages received and decoded.");
  prometheus::Counter* batches_ =
      Counter(registry_.get(), "pillion_head_store_batches_total", "Synced batches written.");
  prometheus::Counter* records_ =
      Counter(registry_.get(), "pillion_head_store_records_total", "Records written or deleted.");
  prometheus::Counter* written_bytes_ =
      Counter(registry_.get(), "pillion_head_store_written_bytes_total",
              "Bytes of keys and values written.");
  prometheus::Counter* store_failures_ =
      Counter(registry_.get(), "pillion_head_store_failures_total", "Batches that failed.");
  prometheus::Counter* hostile_ = Counter(registry_.get(), "pillion_head_hostile_messages_total",
                                          "Connections and messages that were turned away.");
  std::unique_ptr<prometheus::Exposer> exposer_;  // last: stops before what it reads goes away
  int port_ = -1;
};

Metrics::Metrics(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Metrics::~Metrics() = default;

Result<std::unique_ptr<Metrics>> Metrics::Listen(const std::string& host, int port) {
  auto impl = std::make_unique<Impl>();
  PILLION_RETURN_IF_ERROR(impl->Listen(host + ":" + std::to_string(port)));
  return std::unique_ptr<Metrics>(new Metrics(std::move(impl)));
}

int Metrics::port() const { return impl_->port(); }
void Metrics::CountTurn(uint64_t messages) { impl_->CountTurn(messages); }
void Metrics::Update(const wire::StatusReply& status, const store::StoreStatistics& store,
                     uint32_t connections) {
  impl_->Update(status, store, connections);
}

}  // namespace pillion::head
