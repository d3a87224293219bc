// A head without network and disk: the tests say what arrives and look at what comes out.
#ifndef PILLION_TESTS_UNIT_HEAD_HEAD_FIXTURE_H_
#define PILLION_TESTS_UNIT_HEAD_HEAD_FIXTURE_H_

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "head/reactor.h"
#include "head/reactor_impl.h"

namespace pillion::head {

inline JobId Id(uint64_t number) { return JobId{0xAB, number}; }

inline wire::TaskSpec Steps(uint32_t index, std::vector<uint32_t> after = {}, const std::string& program = "count") {
  wire::TaskSpec spec;
  spec.index = index;
  spec.program = program;
  spec.arguments = "{}";
  for (uint32_t dependency : after) spec.dependencies.push_back({dependency, -1});
  return spec;
}

inline wire::TaskSpec Call(uint32_t index, std::vector<wire::Dependency> after = {}) {
  wire::TaskSpec spec;
  spec.index = index;
  spec.kind = wire::TaskKind::kCall;
  spec.program = "square";
  spec.dependencies = std::move(after);
  return spec;
}

class Head {
 public:
  explicit Head(ReactorOptions options = {}) : options(std::move(options)) { Start(); }

  // A fresh process on what is stored.
  void Start() {
    effects.Clear();
    reactor = std::make_unique<Reactor>(options, &effects);
    for (const auto& [key, value] : store) {
      Status status = reactor->Load(static_cast<RecordKind>(key.first), key.second, value);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    Status status = reactor->FinishLoad({now_ns, 1});
    ASSERT_TRUE(status.ok()) << status.ToString();
    Commit();
  }

  void Send(Peer peer, wire::Body body, wire::Role role = wire::Role::kClient) {
    reactor->OnMessage({peer, role, "tester"}, {++request_id, std::move(body)}, {now_ns, 1});
  }
  void Turn() {
    reactor->EndTurn({now_ns, 1});
    Commit();
  }
  void Advance(int64_t ms) {
    int64_t until = now_ns + ms * 1'000'000;
    while (now_ns < until) {
      now_ns = std::min(until, std::max(now_ns + 1'000'000, reactor->NextTimerNs()));
      reactor->OnTick({now_ns, 1});
      Turn();
    }
  }
  void Commit() {
    records += effects.records.size();
    for (Record& record : effects.records) {
      auto key = std::make_pair(static_cast<uint8_t>(record.kind), record.key);
      if (record.is_delete) {
        store.erase(key);
      } else {
        store[key] = record.value;
      }
    }
    for (Outgoing& out : effects.now) inbox[out.peer].push_back(std::move(out.message.body));
    for (Outgoing& out : effects.after_commit) inbox[out.peer].push_back(std::move(out.message.body));
    for (Cleanup& cleanup : effects.cleanups) cleanups.push_back(std::move(cleanup));
    for (Peer peer : effects.disconnects) disconnects.push_back(peer);
    effects.Clear();
    reactor->OnCommitted({now_ns, 1});
  }

  // The one message of this type that `peer` got since it was last asked for; fails when there is none.
  template <typename T>
  T Take(Peer peer) {
    std::vector<wire::Body>& messages = inbox[peer];
    for (size_t i = 0; i < messages.size(); ++i) {
      if (!std::holds_alternative<T>(messages[i])) continue;
      T message = std::get<T>(std::move(messages[i]));
      messages.erase(messages.begin() + static_cast<long>(i));
      return message;
    }
    ADD_FAILURE() << "no such message for peer " << peer << " among " << messages.size();
    return T();
  }
  template <typename T>
  bool Has(Peer peer) {
    for (const wire::Body& body : inbox[peer]) {
      if (std::holds_alternative<T>(body)) return true;
    }
    return false;
  }
  // Sends, ends the turn and takes the answer.
  template <typename T>
  T Ask(Peer peer, wire::Body body, wire::Role role = wire::Role::kClient) {
    Send(peer, std::move(body), role);
    Turn();
    return Take<T>(peer);
  }

  void Client(Peer peer, wire::Role role = wire::Role::kClient) {
    wire::Hello hello;
    hello.role = role;
    Ask<wire::Welcome>(peer, hello, role);
  }
  // A worker "host/cpu<number>" with id `number`, on connection `peer`.
  wire::Welcome AddWorker(Peer peer, uint64_t number, std::vector<wire::HeldLease> held = {}) {
    wire::WorkerHello hello;
    hello.worker = {0xCD, number};
    hello.name = "host/cpu" + std::to_string(number);
    hello.device.name = "cpu" + std::to_string(number);
    hello.programs = {"count", "square"};
    hello.held = std::move(held);
    return Ask<wire::Welcome>(peer, hello, wire::Role::kWorker);
  }
  void FromWorker(Peer peer, wire::Body body) { Send(peer, std::move(body), wire::Role::kWorker); }
  std::vector<wire::Grant> Pull(Peer peer, uint32_t want, uint32_t calls = 0) {
    wire::Pull pull;
    pull.want = want;
    pull.call_slots = calls;
    FromWorker(peer, pull);
    Turn();
    return TakeGrants(peer);
  }
  std::vector<wire::Grant> TakeGrants(Peer peer) {
    std::vector<wire::Grant> grants;
    while (Has<wire::Grants>(peer)) {
      for (wire::Grant& grant : Take<wire::Grants>(peer).grants) grants.push_back(std::move(grant));
    }
    return grants;
  }
  Status Submit(Peer peer, JobId job, std::vector<wire::TaskSpec> tasks) {
    wire::SubmitChunk chunk;
    chunk.job = job;
    chunk.tasks = std::move(tasks);
    return SubmitChunk(peer, chunk);
  }
  Status SubmitChunk(Peer peer, const wire::SubmitChunk& chunk) {
    Send(peer, chunk);
    Turn();
    if (Has<wire::ErrorReply>(peer)) return Take<wire::ErrorReply>(peer).status;
    Take<wire::SubmitReply>(peer);
    return Status();
  }
  Status Finish(Peer worker, const wire::Grant& grant, const std::string& result = "", Status outcome = {},
                Step step = 0) {
    wire::Finish finish;
    finish.task = grant.task;
    finish.epoch = grant.epoch;
    finish.step = step;
    finish.outcome = std::move(outcome);
    finish.result = result;
    return Ask<wire::Verdict>(worker, finish, wire::Role::kWorker).status;
  }
  Status CommitStep(Peer worker, const wire::Grant& grant, Step step, const std::string& bytes = "x") {
    wire::Commit commit;
    commit.task = grant.task;
    commit.checkpoint.epoch = grant.epoch;
    commit.checkpoint.step = step;
    commit.checkpoint.bytes = bytes;
    commit.checkpoint.length_bytes = bytes.size();
    commit.checkpoint.checksum = std::hash<std::string>()(bytes);
    return Ask<wire::Verdict>(worker, commit, wire::Role::kWorker).status;
  }
  Status Release(Peer worker, const wire::Grant& grant, wire::ReleaseCause cause) {
    wire::Release release;
    release.task = grant.task;
    release.epoch = grant.epoch;
    release.cause = cause;
    return Ask<wire::Verdict>(worker, release, wire::Role::kWorker).status;
  }
  wire::TaskInfo Info(Peer client, JobId job, uint32_t index) {
    return Ask<wire::TaskReply>(client, wire::GetTask{{job, index}}).task;
  }

  ReactorOptions options;
  Effects effects;
  std::unique_ptr<Reactor> reactor;
  std::map<std::pair<uint8_t, std::string>, std::string> store;
  std::map<Peer, std::vector<wire::Body>> inbox;
  std::vector<Cleanup> cleanups;
  std::vector<Peer> disconnects;
  int64_t now_ns = 1'000'000'000;
  uint64_t request_id = 0;
  uint64_t records = 0;
};

}  // namespace pillion::head

#endif  // PILLION_TESTS_UNIT_HEAD_HEAD_FIXTURE_H_
