#include "worker/host/turn_loop.h"

#include <algorithm>
#include <ctime>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/futex.h"
#include "base/limits.h"

namespace pillion::host {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

constexpr int64_t kSilenceNs = 2 * kNanosPerSecond;
// An elastic step is not worth its start below this.
constexpr int64_t kElasticLeastNs = 200 * kNanosPerMicro;

// Edge words only grow (modulo 2^32).
bool IsPast(uint32_t edge, uint32_t than) { return static_cast<int32_t>(edge - than) > 0; }

}  // namespace

struct TurnLoop::ActiveTurn {
  uint32_t id = 0;
  TurnKind kind = TurnKind::kBubble;
  uint32_t edge = 0;
  uint32_t generation = 0;
  int64_t deadline_ns = 0;
  // The record, so far.
  uint32_t steps = 0;
  uint64_t items = 0;
  int64_t first_start_ns = 0, last_start_ns = 0, last_end_ns = 0, step_time_ns = 0;
};

TurnLoop::TurnLoop(ControlLayout* control, DoorbellLayout* doorbell, const board::Layout* board, TurnClient* client)
    : control_(control), doorbell_(doorbell), board_(board), client_(client) {}

void TurnLoop::SetReady(bool ready) {
  control_->ready.store(ready ? 1 : 0, kRelease);
  RingDoorbell();
}

void TurnLoop::SetElastic(bool elastic) {
  elastic_ = elastic;
  control_->elastic.store(elastic ? 1 : 0, kRelease);
}

void TurnLoop::RingDoorbell() {
  doorbell_->doorbell.fetch_add(1, kRelease);
  FutexWakeAll(&doorbell_->doorbell);
}

bool TurnLoop::stop_requested() const {
  if (control_->stop.load(kRelaxed) != 0) return true;
  if (board_ == nullptr) return false;
  uint32_t edge = turn_edge_.load(kRelaxed);
  if (edge != 0) return board_->edge.load(kRelaxed) != edge;
  uint32_t generation = free_generation_.load(kRelaxed);
  return generation != kNotFree && board_->trainer_generation.load(kRelaxed) != generation;
}

void TurnLoop::Run() {
  (void)SetSchedulingClass(SchedulingClass::kNormal);
  quiet_since_ns_ = MonotonicNowNs();
  commands_seen_ = control_->commands.load(kAcquire);
  if (!HandleCommands()) return;  // what was posted before Run
  while (true) {
    uint32_t control_seen = control_->control.load(kAcquire);
    uint32_t commands = control_->commands.load(kAcquire);
    if (commands != commands_seen_ || MonotonicNowNs() - quiet_since_ns_ > kSilenceNs) {
      commands_seen_ = commands;
      if (!HandleCommands()) return;
      continue;
    }
    TakeTurnOrSleep(control_seen);
  }
}

bool TurnLoop::HandleCommands() {
  quiet_since_ns_ = MonotonicNowNs();
  IdleScope beside_the_trainer;
  return client_->HandleCommands();
}

void TurnLoop::TakeTurnOrSleep(uint32_t control_seen) {
  uint32_t word = control_->turn.load(kAcquire);
  bool may_run = control_->ready.load(kRelaxed) != 0 && control_->paused.load(kRelaxed) == 0 &&
                 control_->stop.load(kRelaxed) == 0;
  if (TurnStateOf(word) != TurnState::kArmed || !may_run) return Sleep(control_seen, nullptr, 0);
  const Turn& armed = control_->armed;
  if (static_cast<TurnKind>(armed.kind.load(kRelaxed)) == TurnKind::kBubble) {
    if (board_ == nullptr) return Sleep(control_seen, nullptr, 0);
    uint32_t edge = board_->edge.load(kAcquire);
    uint32_t awaited = armed.edge.load(kRelaxed);
    // The word may have been disarmed and armed anew between the loads: taking it below settles that.
    if (!IsPast(edge, awaited) && edge != awaited) return Sleep(control_seen, &board_->edge, edge);
  }
  RunTurn(word, board_ == nullptr ? 0 : board_->edge.load(kAcquire));
}

void TurnLoop::Sleep(uint32_t control_seen, const std::atomic<uint32_t>* edge, uint32_t edge_seen) {
  int64_t until_ns = quiet_since_ns_ + kSilenceNs + 1;
  if (edge != nullptr) {
    FutexWaitEither(&control_->control, control_seen, edge, edge_seen, until_ns);
  } else {
    FutexWait(&control_->control, control_seen, until_ns);
  }
}

void TurnLoop::RunTurn(uint32_t word, uint32_t edge) {
  const Turn& armed = control_->armed;
  if (!control_->turn.compare_exchange_strong(word, TurnWord(TurnIdOf(word), TurnState::kTaken))) return;
  ActiveTurn turn;
  turn.id = TurnIdOf(word);
  turn.kind = static_cast<TurnKind>(armed.kind.load(kRelaxed));
  turn.edge = armed.edge.load(kRelaxed);
  turn.generation = armed.trainer_generation.load(kRelaxed);
  turn.deadline_ns = armed.deadline_ns.load(kRelaxed);
  if (armed.afresh.load(kRelaxed) != 0) estimate_ = StepEstimate();
  if (turn.kind == TurnKind::kBubble) {
    if (edge != turn.edge) return EndTurn(turn, TurnEnd::kMissed);
    if (!IsForeseen(turn)) return EndTurn(turn, TurnEnd::kMismatch);
    int64_t open_ns = board_->ring[board::SequenceOf(edge) % limits::kBoardRing].open_ns.load(kRelaxed);
    turn.deadline_ns = (open_ns != 0 ? open_ns : MonotonicNowNs()) + armed.budget_ns.load(kRelaxed);
  }
  if (turn.kind == TurnKind::kFree) {
    free_generation_.store(turn.generation, kRelaxed);
  } else {
    turn_edge_.store(turn.edge, kRelaxed);
  }
  TurnEnd end = RunSteps(turn);
  turn_edge_.store(0, kRelaxed);
  free_generation_.store(kNotFree, kRelaxed);
  EndTurn(turn, end);
  quiet_since_ns_ = MonotonicNowNs();
  IdleScope beside_the_trainer;
  client_->AfterTurn();
}

// A schedule that changed shows another slot or iteration than the worker armed for: it may be a quiet one.
bool TurnLoop::IsForeseen(const ActiveTurn& turn) const {
  const board::RingEntry& entry = board_->ring[board::SequenceOf(turn.edge) % limits::kBoardRing];
  return entry.sequence.load(kAcquire) == board::SequenceOf(turn.edge) &&
         entry.slot.load(kRelaxed) == control_->armed.slot.load(kRelaxed) &&
         entry.iteration.load(kRelaxed) == control_->armed.iteration.load(kRelaxed);
}

bool TurnLoop::IsOver(const ActiveTurn& turn) const {
  if (board_ == nullptr) return false;
  if (turn.kind == TurnKind::kFree) return board_->trainer_generation.load(kRelaxed) != turn.generation;
  return board_->edge.load(kAcquire) != turn.edge;
}

TurnEnd TurnLoop::RunSteps(ActiveTurn& turn) {
  int64_t now_ns = MonotonicNowNs();
  while (true) {
    // Seen right after a step, the edge fell during it; seen before the first, no step was in its way.
    if (IsOver(turn)) return turn.steps > 0 ? TurnEnd::kOverran : TurnEnd::kClosed;
    if (control_->stop.load(kRelaxed) != 0 || control_->paused.load(kRelaxed) != 0) return TurnEnd::kStopped;
    if (control_->commands.load(kRelaxed) != commands_seen_) return TurnEnd::kCommand;
    int64_t left_ns = turn.deadline_ns - now_ns;
    int64_t give_ns = elastic_ ? left_ns - std::max<int64_t>(estimate_.high_ns(), 0) : left_ns;
    int64_t need_ns = elastic_ ? kElasticLeastNs : std::max<int64_t>(estimate_.high_ns(), 1);
    // Without a trainer a slice that is shorter than a step still makes progress.
    bool first_free = turn.kind == TurnKind::kFree && turn.steps == 0;
    if (give_ns < need_ns && !first_free) return TurnEnd::kFull;
    if (!RunOneStep(turn, now_ns, std::max(give_ns, need_ns))) {
      control_->ready.store(0, kRelease);
      return IsOver(turn) ? TurnEnd::kOverran : TurnEnd::kResting;
    }
    now_ns = turn.last_end_ns;
  }
}

// Returns whether the task has a further step.
bool TurnLoop::RunOneStep(ActiveTurn& turn, int64_t now_ns, int64_t give_ns) {
  turn.last_start_ns = now_ns;
  if (turn.steps == 0) turn.first_start_ns = now_ns;
  control_->step_start_ns.store(now_ns, kRelease);
  StepReport report = client_->RunStep(give_ns);
  turn.last_end_ns = MonotonicNowNs();
  control_->step_start_ns.store(0, kRelease);
  int64_t duration_ns = turn.last_end_ns - turn.last_start_ns;
  turn.step_time_ns += duration_ns;
  turn.steps += 1;
  turn.items += report.items;
  control_->total_steps.fetch_add(1, kRelaxed);
  control_->total_items.fetch_add(report.items, kRelaxed);
  LearnStep(turn, elastic_ ? give_ns : 0);
  return report.more;
}

// `given_ns` is taken off: of an elastic step the estimate is by how much it outlasts what it was given.
void TurnLoop::LearnStep(const ActiveTurn& turn, int64_t given_ns) {
  int64_t duration_ns = turn.last_end_ns - turn.last_start_ns - given_ns;
  bool over = IsOver(turn);
  if (over && turn.kind != TurnKind::kFree) {
    // Beside the trainer a step gets about half of the device.
    const board::RingEntry& entry = board_->ring[board::SequenceOf(turn.edge) % limits::kBoardRing];
    int64_t close_ns = entry.close_ns.load(kAcquire);
    if (close_ns != 0) duration_ns -= std::max<int64_t>(0, turn.last_end_ns - std::max(close_ns, turn.last_start_ns)) / 2;
  }
  // A step that was disturbed or cut short teaches only that steps are longer than was thought.
  bool disturbed = over || control_->stop.load(kRelaxed) != 0;
  if (disturbed && duration_ns <= estimate_.high_ns()) return;
  estimate_.Observe(duration_ns);
  int64_t high_ns = estimate_.high_ns();
  control_->step_estimate_ns.store(elastic_ ? kElasticLeastNs + std::max<int64_t>(high_ns, 0) : high_ns, kRelaxed);
}

void TurnLoop::EndTurn(const ActiveTurn& turn, TurnEnd end) {
  TurnRecord& record = control_->records[turn.id % kRecordRing];
  record.end.store(static_cast<uint32_t>(end), kRelaxed);
  record.edge.store(turn.edge, kRelaxed);
  record.steps.store(turn.steps, kRelaxed);
  record.items.store(turn.items, kRelaxed);
  record.first_start_ns.store(turn.first_start_ns, kRelaxed);
  record.last_start_ns.store(turn.last_start_ns, kRelaxed);
  record.last_end_ns.store(turn.last_end_ns, kRelaxed);
  record.step_time_ns.store(turn.step_time_ns, kRelaxed);
  record.turn.store(turn.id, kRelease);
  control_->turn.store(TurnWord(turn.id, TurnState::kEnded), kRelease);
  RingDoorbell();
}

}  // namespace pillion::host
