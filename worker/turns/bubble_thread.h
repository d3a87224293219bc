// The bubble thread of one device: TurnEngine's implementation. See turn_engine.h for the contract.
//
// The thread sleeps on the doorbell while a turn is armed or runs, and on doorbell and edge word together while none
// is. So on a busy device it runs once per bubble, in the tail that the turn's end leaves: it takes the record,
// arms a shorter task for the rest or the next bubble, then settles the bubble before in the idle class, so that
// the trainer, should it come back just then, does not wait for it.
#ifndef PILLION_WORKER_TURNS_BUBBLE_THREAD_H_
#define PILLION_WORKER_TURNS_BUBBLE_THREAD_H_

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "scheduler/forecast.h"
#include "worker/turns/ledger.h"
#include "worker/turns/residents.h"
#include "worker/turns/turn_engine.h"

namespace pillion::turns {

class BubbleThread final : public TurnEngine {
 public:
  BubbleThread(const EngineOptions& options, std::unique_ptr<board::Board> board,
               std::shared_ptr<host::DoorbellPage> doorbell, OverrunCallback overran);
  ~BubbleThread() override;

  std::shared_ptr<host::DoorbellPage> doorbell() override { return doorbell_; }
  Result<ResidentId> AddResident(std::shared_ptr<host::ControlPage> page, ResidentOptions options) override;
  void RemoveResident(ResidentId id) override;
  bool Pause(ResidentId id, int64_t wait_ns) override;
  void Resume(ResidentId id) override;
  void RequestStop(ResidentId id) override;
  void SetValue(ResidentId id, double value) override;
  void SetFreeMemory(uint64_t bytes) override;
  void PostCommand(ResidentId id) override;
  Capacity GetCapacity() const override;
  DeviceFigures GetFigures() const override;
  Result<ResidentFigures> GetResidentFigures(ResidentId id) const override;
  std::vector<TimelineEvent> GetTimeline() const override;
  void ResetFigures() override;

 private:
  // The turn that is armed or runs.
  struct Armed {
    ResidentId resident = 0;
    host::TurnKind kind = host::TurnKind::kBubble;
    uint32_t edge = 0;              // of its bubble
    int64_t check_ns = 0;           // look after it then
    int64_t over_since_ns = 0;      // since when its running step outlasts it; 0: it does not
    bool stop_sent = false;
  };
  // What is kept about a bubble from its planning until it is settled.
  struct Note {
    uint32_t sequence = 0;
    Plan plan;
    std::vector<TurnFacts> turns;
  };
  struct Place {
    uint64_t iteration = 0;
    uint32_t slot = 0;
  };

  void Loop();
  void Wait(uint32_t bell_seen, uint32_t edge_seen);
  void Kick();  // makes the thread look again

  // All below: by the bubble thread, under mutex_.
  int64_t LookAround(int64_t now_ns);
  void WatchTrainer(int64_t now_ns);
  void MeetTrainer();
  void TakeTrainersWishes();
  void CollectTurn();
  void BookTurn(const TurnFacts& turn);
  void WatchTurn(int64_t now_ns);
  void WatchOpenBubble(uint32_t edge, int64_t now_ns);
  void WatchOverrun(Resident* resident, int64_t now_ns);
  void GiveUpTurn(Resident* resident, int64_t over_ns);
  void DropArmed(host::TurnEnd end);
  void Decide(int64_t now_ns);
  void DecideFree(int64_t now_ns);
  void DecideTail(uint32_t edge, int64_t now_ns);
  void DecideNext(uint32_t edge, int64_t now_ns);
  bool ArmTurn(Resident* resident, const TurnOrder& order, int64_t check_ns);
  std::optional<Place> PlaceOf(uint32_t sequence) const;
  std::optional<Place> PlaceAfter(Place place) const;
  Plan MakePlan(uint32_t slot, const Choice& choice) const;
  Note& NoteOf(uint32_t sequence);
  bool IsQuiet(uint64_t iteration) const;
  int64_t LongestUsableNs() const;
  void Settle();
  void SettleBubble(uint32_t sequence);
  void BookBubble(const BubbleFacts& facts, const BubbleResult& result);
  void FinishIterations(uint64_t before);
  void SteerBySlowdown(bool quiet, int64_t duration_ns);
  Resident* FindResident(ResidentId id) const;

  // Constant after construction.
  const EngineOptions options_;
  const std::unique_ptr<board::Board> board_;
  board::Layout* const layout_;
  const std::shared_ptr<host::DoorbellPage> doorbell_;
  const OverrunCallback overran_;

  std::atomic<bool> leaving_{false};

  // Guarded by mutex_.
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Resident>> residents_;
  ResidentId next_resident_ = 1;
  uint64_t free_memory_bytes_ = UINT64_MAX;
  std::optional<Armed> armed_;
  std::optional<std::pair<ResidentId, int64_t>> overrun_to_report_;
  uint64_t served_ = 0;
  scheduler::Forecaster forecaster_;
  Ledger ledger_;
  SlowdownMeter recent_slowdown_{32};  // for the controller; forgets when it has acted
  size_t recent_blocks_ = 0;
  std::array<Note, limits::kBoardRing> notes_;
  bool trainer_attached_ = false;
  bool any_trainer_yet_ = false;
  uint32_t trainer_generation_ = 0;
  uint32_t expected_generation_ = 0;
  int64_t trainer_checked_ns_ = 0;
  uint32_t next_sequence_ = 1;      // first bubble that is not settled
  uint64_t next_iteration_ = 0;     // first iteration that is not finished
  int64_t intrusion_ns_ = 0;        // of the iteration being settled
  int64_t last_close_ns_ = 0;
  double period_ns_ = 0;
  std::vector<int64_t> gap_ns_;     // per slot: from the closing edge before it to its opening edge

  std::thread thread_;
};

}  // namespace pillion::turns

#endif  // PILLION_WORKER_TURNS_BUBBLE_THREAD_H_
