#include "tests/sim/world.h"

#include <algorithm>

namespace pillion::sim {

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15ull + b + 0x632BE59BD9B4E019ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

uint64_t Random::Next() {
  state_ += 0x9E3779B97F4A7C15ull;
  return Mix(state_, 7);
}

bool World::Step() {
  if (queue_.empty()) return false;
  // The action may push events: take it out first.
  std::function<void()> action = std::move(const_cast<Event&>(queue_.top()).action);
  wall_ns += queue_.top().time_ns - now_ns;
  now_ns = queue_.top().time_ns;
  queue_.pop();
  ++events;
  action();
  return true;
}

uint64_t Network::Connect(Node* node, wire::Role role) {
  if (!(*head_)->alive()) return 0;
  uint64_t id = next_++;
  connections_[id].node = node;
  connections_[id].role = role;
  return id;
}

// When a message arrives: never when it is lost, twice when it is duplicated.
std::vector<int64_t> Network::Arrivals(int64_t* last_ns) {
  const Scenario& s = world_->scenario;
  std::vector<int64_t> times;
  if (world_->Fault(s.drop)) return times;
  int64_t arrival = world_->now_ns + world_->random.Between(50'000, 2 * kMs);
  if (world_->Fault(s.reorder)) {
    arrival += world_->random.Between(0, 3'000) * kMs;  // may be overtaken
  } else {
    arrival = std::max(arrival, *last_ns + 1);
    *last_ns = arrival;
  }
  times.push_back(arrival);
  if (world_->Fault(s.duplicate)) times.push_back(arrival + world_->random.Between(0, 5'000) * kMs);
  return times;
}

void Network::ToHead(uint64_t connection, wire::Message message) {
  auto found = connections_.find(connection);
  if (found == connections_.end() || world_->now_ns < found->second.head_mute_until_ns) return;
  for (int64_t time : Arrivals(&found->second.to_head_last_ns)) {
    world_->At(time, [this, connection, message] {
      auto open = connections_.find(connection);
      if (open == connections_.end() || !open->second.head_open || !(*head_)->alive()) return;
      (*head_)->OnMessage(connection, open->second.role, message);
    });
  }
}

void Network::ToNode(uint64_t connection, wire::Message message) {
  auto found = connections_.find(connection);
  if (found == connections_.end() || world_->now_ns < found->second.node_mute_until_ns) return;
  for (int64_t time : Arrivals(&found->second.to_node_last_ns)) {
    world_->At(time, [this, connection, message] {
      auto open = connections_.find(connection);
      if (open == connections_.end() || open->second.node == nullptr) return;
      open->second.node->OnMessage(message);
    });
  }
}

void Network::CloseByNode(uint64_t connection) {
  auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  found->second.node = nullptr;
  world_->After(NoticeDelay(), [this, connection] {
    auto open = connections_.find(connection);
    if (open == connections_.end()) return;
    bool tell = open->second.head_open && (*head_)->alive();
    connections_.erase(open);
    if (tell) (*head_)->OnPeerGone(connection);
  });
}

void Network::CloseByHead(uint64_t connection) {
  auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  found->second.head_open = false;
  world_->After(NoticeDelay(), [this, connection] {
    auto open = connections_.find(connection);
    if (open == connections_.end()) return;
    Node* node = open->second.node;
    connections_.erase(open);
    if (node != nullptr) node->OnDisconnected();
  });
}

void Network::CloseAllByHead() {
  std::vector<uint64_t> all;
  for (const auto& [id, connection] : connections_) all.push_back(id);
  for (uint64_t id : all) CloseByHead(id);
}

void Network::CutSome() {
  if (connections_.empty()) return;
  auto victim = connections_.begin();
  std::advance(victim, static_cast<long>(world_->random.Below(connections_.size())));
  uint64_t id = victim->first;
  victim->second.head_mute_until_ns = victim->second.node_mute_until_ns = INT64_MAX;
  Node* node = victim->second.node;
  world_->After(NoticeDelay(), [this, id] {
    auto open = connections_.find(id);
    if (open == connections_.end() || !open->second.head_open) return;
    open->second.head_open = false;
    if (open->second.node == nullptr) connections_.erase(open);
    if ((*head_)->alive()) (*head_)->OnPeerGone(id);
  });
  world_->After(NoticeDelay(), [this, id, node] {
    auto open = connections_.find(id);
    if (open == connections_.end() || open->second.node != node || node == nullptr) return;
    open->second.node = nullptr;
    if (!open->second.head_open) connections_.erase(open);
    node->OnDisconnected();
  });
}

void Network::CutOneWaySome() {
  if (connections_.empty()) return;
  auto victim = connections_.begin();
  std::advance(victim, static_cast<long>(world_->random.Below(connections_.size())));
  int64_t until = world_->now_ns + world_->random.Between(1, 25'000) * kMs;
  (world_->random.Chance(0.5) ? victim->second.head_mute_until_ns : victim->second.node_mute_until_ns) = until;
}

std::string FilePath(const TaskId& task, Epoch epoch, Step step) {
  return task.ToString() + "/" + std::to_string(epoch) + "-" + std::to_string(step);
}

}  // namespace pillion::sim
