// The head of the simulation: the real reactor on a simulated disk. One turn at a time, as the server does it.
#ifndef PILLION_TESTS_SIM_SIM_HEAD_H_
#define PILLION_TESTS_SIM_SIM_HEAD_H_

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "head/effects.h"
#include "head/reactor.h"
#include "tests/sim/checker.h"
#include "tests/sim/world.h"

namespace pillion::sim {

class SimHead final : public HeadNode {
 public:
  SimHead(World* world, Network* network, Disk* disk, Files* files, Checker* checker, PlantedBug bug)
      : world_(world), network_(network), disk_(disk), files_(files), checker_(checker), bug_(bug) {}

  void Start();
  // Everything that is not on disk is gone; a batch that is being written is there completely or not at all.
  void Crash();

  bool alive() const override { return reactor_ != nullptr; }
  void OnMessage(uint64_t peer, wire::Role role, wire::Message message) override;
  void OnPeerGone(uint64_t peer) override;

  const head::Reactor* reactor() const { return reactor_.get(); }

 private:
  struct Input {
    uint64_t peer = 0;
    wire::Role role = wire::Role::kClient;
    wire::Message message;
    bool gone = false;
  };
  using RequestKey = std::pair<uint64_t, uint64_t>;  // peer, request id

  void WakeUp();
  void Turn();
  void Write();
  void Finish();  // the batch is durable: what waited for it leaves
  void Apply(const std::vector<head::Record>& records);
  void SendAll(std::vector<head::Outgoing> messages);
  void CleanUp(const head::Cleanup& cleanup);
  void PlantBeforeTurn();
  void PlantIn(Input* input);
  bool PlantInReply(wire::Message* message, const wire::Message* request);
  head::Now Now() const { return {world_->now_ns, world_->wall_ns}; }
  std::unique_ptr<head::Reactor> Load(head::Effects* effects, bool planted);

  World* const world_;
  Network* const network_;
  Disk* const disk_;
  Files* const files_;
  Checker* const checker_;
  const PlantedBug bug_;

  head::Effects effects_;
  std::unique_ptr<head::Reactor> reactor_;
  uint64_t life_ = 0;              // events of an earlier life do nothing
  std::deque<Input> inbox_;
  bool writing_ = false;           // the loop waits for the disk
  bool broken_ = false;            // the last write failed
  bool woken_ = false;
  int64_t woken_for_ns_ = 0;
  head::Effects pending_;          // handed to the disk, in order, and not durable yet
  std::map<RequestKey, wire::Message> requests_;  // not answered yet
  std::map<RequestKey, int> answered_;
  std::map<std::pair<TaskId, Epoch>, int> finishes_;
  std::map<std::pair<uint8_t, std::string>, std::string> older_;  // planted: an earlier value of each record
  uint64_t planted_ = 0;
};

}  // namespace pillion::sim

#endif  // PILLION_TESTS_SIM_SIM_HEAD_H_
