// Virtual time, chance, the network and the disks of one simulated cluster. Everything that happens is an event of
// the one queue; the same seed gives the same run.
#ifndef PILLION_TESTS_SIM_WORLD_H_
#define PILLION_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <string>
#include <vector>

#include "api/wire/messages.h"
#include "tests/sim/scenario.h"

namespace pillion::sim {

inline constexpr int64_t kMs = 1'000'000;
inline constexpr int64_t kSecond = 1'000 * kMs;

uint64_t Mix(uint64_t a, uint64_t b);  // a well-stirring hash of two words

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  uint64_t Below(uint64_t limit) { return limit == 0 ? 0 : Next() % limit; }
  int64_t Between(int64_t low, int64_t high) { return low + static_cast<int64_t>(Below(high - low + 1)); }
  bool Chance(double p) { return static_cast<double>(Next() >> 11) * 0x1.0p-53 < p; }

 private:
  uint64_t state_;
};

class World {
 public:
  World(const Scenario& scenario, uint64_t seed) : scenario(scenario), random(Mix(seed, 0x51)), faults_end_ns(scenario.fault_ms * kMs) {}

  void At(int64_t time_ns, std::function<void()> action) {
    queue_.push({time_ns < now_ns ? now_ns : time_ns, next_++, std::move(action)});
  }
  void After(int64_t delay_ns, std::function<void()> action) { At(now_ns + delay_ns, std::move(action)); }
  // Runs the next event; false when there is none.
  bool Step();
  bool Faulty() const { return now_ns < faults_end_ns; }
  // True with probability p, in the fault stage only.
  bool Fault(double p) { return Faulty() && random.Chance(p); }

  const Scenario scenario;
  Random random;
  int64_t now_ns = 0;
  int64_t wall_ns = 0;
  const int64_t faults_end_ns;
  uint64_t events = 0;
  bool stopped = false;  // a violation was found

 private:
  struct Event {
    int64_t time_ns;
    uint64_t sequence;
    std::function<void()> action;
    bool operator<(const Event& other) const {  // the earliest on top
      return time_ns != other.time_ns ? time_ns > other.time_ns : sequence > other.sequence;
    }
  };
  std::priority_queue<Event> queue_;
  uint64_t next_ = 0;
};

// A process at the other end of the head's socket.
class Node {
 public:
  virtual ~Node() = default;
  virtual void OnMessage(wire::Message message) = 0;
  virtual void OnDisconnected() = 0;
};

class HeadNode {
 public:
  virtual ~HeadNode() = default;
  virtual bool alive() const = 0;
  virtual void OnMessage(uint64_t peer, wire::Role role, wire::Message message) = 0;
  virtual void OnPeerGone(uint64_t peer) = 0;
};

class Network {
 public:
  Network(World* world, HeadNode** head) : world_(world), head_(head) {}

  // A new connection, or 0 while the head is down. The node's earlier one, if any, is forgotten on its side.
  uint64_t Connect(Node* node, wire::Role role);
  void ToHead(uint64_t connection, wire::Message message);
  void ToNode(uint64_t connection, wire::Message message);
  // The node goes away: the head notices some time later.
  void CloseByNode(uint64_t connection);
  // The head closes, or dies: the node notices some time later.
  void CloseByHead(uint64_t connection);
  void CloseAllByHead();
  // Faults.
  void CutSome();
  void CutOneWaySome();

 private:
  struct Connection {
    Node* node = nullptr;           // null: gone on that side
    bool head_open = true;
    wire::Role role = wire::Role::kClient;
    int64_t head_mute_until_ns = 0;  // what the node sends is lost until then
    int64_t node_mute_until_ns = 0;
    int64_t to_head_last_ns = 0, to_node_last_ns = 0;  // arrival of the newest message: order is kept
  };
  std::vector<int64_t> Arrivals(int64_t* last_ns);
  int64_t NoticeDelay() { return world_->random.Between(1, world_->Faulty() ? 8'000 : 500) * kMs; }

  World* const world_;
  HeadNode** const head_;
  std::map<uint64_t, Connection> connections_;
  uint64_t next_ = 1;
};

// Checkpoint files of the cluster (one shared directory): durable when written.
struct CheckpointFile {
  TaskId task;
  Epoch epoch = 0;
  Step step = 0;
  uint64_t content = 0;
};
using Files = std::map<std::string, CheckpointFile>;
std::string FilePath(const TaskId& task, Epoch epoch, Step step);

}  // namespace pillion::sim

#endif  // PILLION_TESTS_SIM_WORLD_H_
