// A client of the simulation: submits its jobs, sometimes cancels, waits, and asks for every task in the end. Sends
// everything again until it is answered.
#ifndef PILLION_TESTS_SIM_SIM_CLIENT_H_
#define PILLION_TESTS_SIM_SIM_CLIENT_H_

#include <deque>
#include <map>
#include <vector>

#include "tests/sim/checker.h"
#include "tests/sim/workload.h"
#include "tests/sim/world.h"

namespace pillion::sim {

class SimClient final : public Node {
 public:
  SimClient(World* world, Network* network, std::vector<const SimJob*> jobs);

  void Start();
  void OnMessage(wire::Message message) override;
  void OnDisconnected() override;
  bool done() const;

 private:
  enum class Phase { kNotYet, kSubmitting, kWaiting, kAsking, kDone };
  struct Progress {
    const SimJob* job = nullptr;
    Phase phase = Phase::kNotYet;
    int64_t start_ns = 0;
    size_t chunk = 0;
    uint64_t version = 0;
    uint32_t next_task = 0;
    int64_t cancel_at_ns = INT64_MAX;
    bool cancelled = false;
    uint64_t request = 0;           // outstanding
    uint64_t cancel_request = 0;
    int64_t sent_ns = 0;
  };
  void Connect();
  void Tick();
  void Ask(Progress* progress);
  void OnReply(Progress* progress, const wire::Body& body);
  uint64_t Send(wire::Body body);

  World* const world_;
  Network* const network_;
  uint64_t connection_ = 0;
  bool welcome_ = false;
  uint64_t next_request_ = 1;
  std::vector<Progress> jobs_;
};

// An operator: moves running tasks and drains workers, without caring for the answers.
class SimOperator final : public Node {
 public:
  SimOperator(World* world, Network* network) : world_(world), network_(network) {}
  void Send(wire::Body body);
  void OnMessage(wire::Message message) override {}
  void OnDisconnected() override { connection_ = 0; }

 private:
  World* const world_;
  Network* const network_;
  uint64_t connection_ = 0;
  uint64_t next_request_ = 1;
};

}  // namespace pillion::sim

#endif  // PILLION_TESTS_SIM_SIM_CLIENT_H_
