// What one turn of the head's loop wants done, collected by the reactor and carried out by the server (or by the
// simulation, or checked by a test). The order is the whole point:
//
//   1. send `now`            what takes things away (revokes, errors, stale verdicts, answers that promise nothing)
//   2. write `records`       one synced batch, in order
//   3. send `after_commit`   what gives: acknowledgements, grants, results
//   4. carry out `cleanups`  deletions of checkpoint files that nothing durable refers to any more
//
// 3 and 4 happen only after 2 is durable; within each list the order is kept. When 2 fails the server keeps the turn,
// tells the reactor (OnStoreError), reopens the store and does 2 again: every record is a whole value, so
// writing it twice is harmless. A turn without records still goes through 3 and 4 after all earlier turns have.
#ifndef PILLION_HEAD_EFFECTS_H_
#define PILLION_HEAD_EFFECTS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "api/wire/messages.h"
#include "base/ids.h"

namespace pillion::head {

// A connection, as the server numbers them; never 0, never reused. A peer that reconnects is another peer.
using Peer = uint64_t;

// What a record is about. The numbers are in stored keys and only grow. Keys sort by job within a kind.
enum class RecordKind : uint8_t {
  kHead = 1,     // one record: incarnation
  kJob = 2,      // job id → options, count of tasks, cancelled
  kNested = 3,   // job id, parent, batch → tasks that a running task added
  kSpecs = 4,    // job id, first index → the specs of some consecutive tasks
  kTask = 5,     // job id, index → the state of a task that has left its first state
  kProfile = 6,  // program, device kind → step time and memory
};

struct Record {
  RecordKind kind = RecordKind::kHead;
  bool is_delete = false;
  std::string key;
  std::string value;  // empty when is_delete
};

struct Outgoing {
  Peer peer = 0;
  wire::Message message;
};

// Deletes checkpoint files: of `task` all but those in `keep`; or, with `whole_job`, of every task of task.job.
struct Cleanup {
  TaskId task;
  bool whole_job = false;
  std::vector<wire::CheckpointRef> keep;
};

class Effects {
 public:
  void SendNow(Peer peer, wire::Message message) { now.push_back({peer, std::move(message)}); }
  void SendAfterCommit(Peer peer, wire::Message message) { after_commit.push_back({peer, std::move(message)}); }
  void Put(RecordKind kind, std::string key, std::string value) {
    records.push_back({kind, false, std::move(key), std::move(value)});
  }
  void Delete(RecordKind kind, std::string key) { records.push_back({kind, true, std::move(key), {}}); }
  void CleanUp(Cleanup cleanup) { cleanups.push_back(std::move(cleanup)); }
  // Closes the connection after `now` has been sent: the peer broke the conversation or was replaced.
  void Disconnect(Peer peer) { disconnects.push_back(peer); }

  bool empty() const {
    return now.empty() && records.empty() && after_commit.empty() && cleanups.empty() && disconnects.empty();
  }
  void Clear() {
    now.clear();
    records.clear();
    after_commit.clear();
    cleanups.clear();
    disconnects.clear();
  }

  std::vector<Outgoing> now;
  std::vector<Record> records;
  std::vector<Outgoing> after_commit;
  std::vector<Cleanup> cleanups;
  std::vector<Peer> disconnects;
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_EFFECTS_H_
