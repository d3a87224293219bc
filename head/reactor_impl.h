// The parts of the reactor. Its functions are in reactor.cc (turns, records, recovery), reactor_clients.cc,
// reactor_workers.cc and reactor_grants.cc.
#ifndef PILLION_HEAD_REACTOR_IMPL_H_
#define PILLION_HEAD_REACTOR_IMPL_H_

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "head/classes.h"
#include "head/queue.h"
#include "head/reactor.h"
#include "scheduler/placement.h"
#include "scheduler/policy.h"

namespace pillion::head {

inline uint64_t Pack(TaskRef ref) { return uint64_t{ref.job} << 32 | ref.index; }
inline TaskRef Unpack(uint64_t packed) { return {static_cast<uint32_t>(packed >> 32), static_cast<uint32_t>(packed)}; }

// A worker that has said hello, or that a stored lease names.
struct Worker {
  WorkerId id;
  wire::WorkerInfo info;          // name, device, capacity and figures as reported; the rest is filled when asked
  scheduler::Offer offer;
  Peer peer = 0;                  // 0: not connected
  bool said_hello = false;        // since the head started
  bool draining = false;
  bool lists_leases = false;      // it says what it holds, so a lease that its heartbeats leave out is not there
  int64_t silent_since_ns = 0;    // last heard
  int64_t lost_at_ns = 0;         // when silence becomes loss
  uint32_t room = 0;              // steps and command tasks it could take now
  uint32_t call_room = 0;         // call tasks
  std::set<uint64_t> leases;      // Pack(TaskRef)
  uint32_t call_leases = 0;
  uint32_t reserved = 0;          // rooms kept for tasks that are on their way here; not in `room`

  bool connected() const { return peer != 0; }
  bool Grantable() const { return connected() && !draining; }
};

struct Session {
  bool said_hello = false;
  wire::Role role = wire::Role::kClient;
  std::string user;
  WorkerId worker;                // workers
  uint32_t watches = 0;
};

struct Watch {
  Peer peer = 0;
  uint64_t request_id = 0;
  JobId job;
  uint64_t known_version = 0;
};

class Reactor::Impl {
 public:
  Impl(ReactorOptions options, Effects* effects);

  Status Load(RecordKind kind, std::string_view key, std::string_view value);
  Status FinishLoad(Now now);
  void OnMessage(const Sender& sender, wire::Message message, Now now);
  void OnPeerLost(Peer peer, Now now);
  void OnTick(Now now);
  int64_t NextTimerNs() const;
  void EndTurn(Now now);
  void OnCommitted(Now now);
  void OnStoreError(const Status& status, Now now);

  const Queue& queue() const { return queue_; }
  const std::unordered_map<WorkerId, std::unique_ptr<Worker>>& workers() const { return workers_; }
  uint64_t incarnation() const { return incarnation_; }
  ServerFigures figures;

 private:
  struct Request {  // whom to answer
    const Sender& sender;
    Session* session;
    uint64_t id;
    Now now;
  };
  // Answers after everything so far is durable; for what gives or shows state.
  void Reply(const Request& request, wire::Body body);
  // Answers at once; for errors and what promises nothing.
  void ReplyNow(const Request& request, wire::Body body);
  void ReplyError(const Request& request, Status status);
  void ReplyStatus(const Request& request, const Status& status, wire::Body body);

  // reactor_clients.cc
  void OnHello(const Request& request, const wire::Hello& hello);
  void OnSubmit(const Request& request, const wire::SubmitChunk& chunk);
  void OnWaitJob(const Request& request, const wire::WaitJob& wait);
  void OnGetTask(const Request& request, const wire::GetTask& get);
  void OnCancel(const Request& request, const wire::CancelTasks& cancel);
  void OnListJobs(const Request& request, const wire::ListJobs& list);
  void OnListTasks(const Request& request, const wire::ListTasks& list);
  void OnListWorkers(const Request& request);
  void OnGetStatus(const Request& request);
  void OnExplain(const Request& request, const wire::ExplainTask& explain);
  void OnMigrate(const Request& request, const wire::MigrateTask& migrate);
  void OnDrain(const Request& request, const wire::DrainWorker& drain);
  void OnAnnounce(const Request& request, const wire::Announce& announce);
  void AnswerWatches(uint32_t slot);
  void ExpireWatches(int64_t now_ns);
  wire::JobInfo InfoOf(const Job& job) const;
  wire::TaskInfo InfoOf(const Job& job, uint32_t index, bool with_result) const;
  std::string WhyWaiting(const Job& job, uint32_t index) const;
  Status Admission(const Template& t);

  // reactor_workers.cc
  void OnWorkerHello(const Request& request, wire::WorkerHello hello);
  void OnHeartbeat(Worker* worker, const wire::Heartbeat& heartbeat, Now now);
  void OnPull(Worker* worker, const wire::Pull& pull);
  void OnProgress(Worker* worker, const wire::Progress& progress);
  wire::Verdict ApplyCommit(Worker* worker, wire::Commit commit);
  wire::Verdict ApplyFinish(Worker* worker, wire::Finish finish, Now now);
  wire::Verdict ApplyRelease(Worker* worker, wire::Release release, Now now);
  bool OnReport(const Request& request, Worker* worker, wire::Body body);
  Worker* WorkerOf(const Session& session);
  Worker* FindWorker(std::string_view name_or_device);
  Worker* AddWorker(const WorkerId& id);
  void SetCapacity(Worker* worker, const wire::Capacity& capacity);
  void Disconnected(Worker* worker);
  void SetRoom(Worker* worker, uint32_t room, uint32_t call_room);
  void RepeatRevokes(Worker* worker, Now now);
  void CheckListed(Worker* worker, const std::vector<TaskId>& listed, Now now);
  bool FindLease(Worker* worker, const TaskId& id, Epoch epoch, TaskRef* ref);
  void LoseWorker(Worker* worker, Now now);
  void Reattach(Worker* worker, const wire::WorkerHello& hello, wire::Welcome* welcome, Now now);
  void CheckSilence(Now now);
  void SetDraining(Worker* worker, bool drain, Now now);

  // reactor_grants.cc
  struct Candidates {
    std::vector<std::pair<double, WorkerId>> heap;
    bool built = false;
  };
  void Schedule(Now now);
  bool HasRoom(const Worker& worker, bool is_call) const {
    return worker.Grantable() && (is_call ? worker.call_room : worker.room) > 0;
  }
  double RateOn(const TaskClass& task_class, const Worker& worker) const;
  bool BestFirst(const TaskClass& task_class, Candidates* candidates);
  void GrantTo(Worker* worker, TaskRef ref, Now now);
  void FlushGrants();
  Result<wire::Grant> MakeGrant(TaskRef ref) const;
  void PushReady(const ReadyRange& range);
  void PushDelayed(int64_t now_ns);
  bool IsReady(const scheduler::ReadyTask& task) const;
  void OnLeaseEnded(const EndedLease& ended, Now now);
  Worker* BestTarget(TaskRef ref, const Worker& from, double* rate);
  void Reserve(Worker* target, TaskRef ref);
  void Move(TaskRef ref, Worker* target, Now now);
  void Rebalance(Now now);
  int32_t PriorityOf(const Job& job, const Template& t) const;

  // reactor.cc
  void Dispatch(const Sender& sender, wire::Message message, Now now);
  void Settle(Now now);  // carries transitions over to workers, ready queue and records
  void WriteRecords();
  void AnswerChanged();
  void Retire(Now now);
  void DeleteSlice();
  scheduler::OwnerId OwnerOf(const std::string& name);
  void AdoptJob(Job* job);

  const ReactorOptions options_;
  Effects* const effects_;
  uint64_t incarnation_ = 0;
  int64_t started_ns_ = 0;
  Status store_error_;

  ClassTable classes_;
  Queue queue_;
  scheduler::ReadyQueue ready_;
  std::multimap<int64_t, std::pair<ReadyRange, uint32_t>> delayed_;  // until when; with the task's ticket

  std::unordered_map<WorkerId, std::unique_ptr<Worker>> workers_;
  std::map<std::string, WorkerId> worker_names_;  // the newest of each name
  std::set<WorkerId> with_room_;
  std::set<std::string> drained_;                 // names that an operator drains
  std::unordered_map<Peer, Session> sessions_;
  std::unordered_map<std::string, scheduler::OwnerId> owners_;
  std::map<WorkerId, std::vector<wire::Grant>> grants_;  // of this turn

  std::unordered_map<JobId, std::vector<uint64_t>> watches_by_job_;
  std::unordered_map<uint64_t, Watch> watches_;
  std::set<std::pair<int64_t, uint64_t>> watch_deadlines_;
  uint64_t next_watch_ = 1;

  std::deque<JobId> finished_jobs_;     // in the order they finished
  std::deque<JobId> cleaned_jobs_;      // their checkpoint files are gone, their records follow
  uint64_t finished_tasks_ = 0;         // of finished_jobs_
  struct Deletion {
    JobId job;
    uint32_t tasks = 0, next = 0;
    std::vector<uint32_t> pages;
    std::vector<std::pair<uint32_t, uint32_t>> nested;
  };
  std::deque<Deletion> deletions_;
  std::vector<Record> leftovers_;       // found while loading: records of jobs that do not exist
  std::vector<uint32_t> check_watches_; // slots with new watches

  bool more_to_grant_ = false;          // the turn's share of grants was used up
  int64_t next_tick_ns_ = 0;
  int64_t next_rebalance_ns_ = 0;
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_REACTOR_IMPL_H_
