// BubbleThread, second part: what closed bubbles teach and cost, and the calls of other threads.
#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/futex.h"
#include "worker/turns/bubble_thread.h"

namespace pillion::turns {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;

// Past so many unsettled bubbles the board's ring may be overwritten while it is read.
constexpr uint32_t kMostBehind = limits::kBoardRing * 3 / 4;
// The controller believes the A/B from so many quiet blocks on.
constexpr size_t kBlocksToBelieve = 8;

}  // namespace

// Settles every bubble that is closed and whose turns have ended.
void BubbleThread::Settle() {
  if (!trainer_attached_) return;
  uint32_t edge = layout_->edge.load(kAcquire);
  uint32_t behind = board::SequenceOf(edge) - next_sequence_ + 1;
  if (behind == 0 || behind > 1u << 30 || (behind == 1 && board::IsOpen(edge))) return;
  IdleScope beside_the_trainer;
  if (behind > kMostBehind) {
    ledger_.AddMissed(behind - 1);
    next_sequence_ = board::SequenceOf(edge);
  }
  while (true) {
    bool closed = board::IsOpen(edge) ? next_sequence_ != board::SequenceOf(edge)
                               : next_sequence_ != board::NextSequence(board::SequenceOf(edge));
    if (!closed) return;
    bool running = armed_ && armed_->kind != host::TurnKind::kFree &&
                   board::SequenceOf(armed_->edge) == next_sequence_;
    if (running) return;
    SettleBubble(next_sequence_);
    next_sequence_ = board::NextSequence(next_sequence_);
  }
}

void BubbleThread::SettleBubble(uint32_t sequence) {
  const board::RingEntry& entry = layout_->ring[sequence % limits::kBoardRing];
  std::optional<Place> place = PlaceOf(sequence);
  if (!place) {
    ledger_.AddMissed(1);
    return;
  }
  FinishIterations(place->iteration);
  Note& note = NoteOf(sequence);
  BubbleFacts facts;
  facts.open_ns = entry.open_ns.load(kRelaxed);
  facts.close_ns = entry.close_ns.load(kAcquire);
  facts.quiet = IsQuiet(place->iteration);
  facts.plan = note.plan;
  facts.turns = std::move(note.turns);
  note.turns.clear();
  if (facts.close_ns == 0 || facts.open_ns == 0) return;
  bool planned = facts.plan.predicted_ns != 0 || facts.plan.cause != Cause::kNone;
  if (!planned) {
    // The thread did not come to look at it in time.
    facts.plan = MakePlan(place->slot, Choose(residents_, 0, free_memory_bytes_, false, 0, 0));
    if (facts.plan.cause == Cause::kShorterThanStep) facts.plan.cause = Cause::kNotForeseen;
  }
  BubbleResult result = Account(facts);
  forecaster_.Observe(place->slot, facts.close_ns - facts.open_ns, result.touched);
  if (place->slot < gap_ns_.size() && last_close_ns_ != 0) gap_ns_[place->slot] = facts.open_ns - last_close_ns_;
  last_close_ns_ = facts.close_ns;
  intrusion_ns_ += static_cast<int64_t>(result.intrusion_ns);
  if (!facts.quiet) BookBubble(facts, result);
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kBubble;
  event.start_ns = facts.open_ns;
  event.end_ns = facts.close_ns;
  event.iteration = place->iteration;
  event.slot = place->slot;
  ledger_.AddEvent(std::move(event));
}

void BubbleThread::BookBubble(const BubbleFacts& facts, const BubbleResult& result) {
  uint32_t steps = 0;
  for (size_t i = 0; i < facts.turns.size(); ++i) {
    const TurnFacts& turn = facts.turns[i];
    steps += turn.steps;
    Resident* resident = FindResident(turn.resident);
    if (resident == nullptr) continue;
    resident->harvest_ns += result.harvest_by_turn_ns[i];
    resident->useful_ns += result.useful_by_turn_ns[i];
    resident->overruns += turn.last_end_ns > facts.close_ns;
  }
  ledger_.AddBubble(result, steps);
}

// Finishes the iterations before `before`, all of whose bubbles are settled.
void BubbleThread::FinishIterations(uint64_t before) {
  if (before > next_iteration_ + board::kIterationRing / 2) next_iteration_ = before;  // too old to be read
  for (; next_iteration_ < before; ++next_iteration_) {
    const auto& begin = layout_->iterations[next_iteration_ % board::kIterationRing];
    const auto& end = layout_->iterations[(next_iteration_ + 1) % board::kIterationRing];
    int64_t start_ns = begin.start_ns.load(kRelaxed), end_ns = end.start_ns.load(kRelaxed);
    bool valid = begin.iteration.load(kAcquire) == next_iteration_ &&
                 end.iteration.load(kAcquire) == next_iteration_ + 1 && start_ns != 0 && end_ns > start_ns;
    int64_t intrusion_ns = std::exchange(intrusion_ns_, 0);
    if (!valid) continue;
    bool quiet = IsQuiet(next_iteration_);
    int64_t duration_ns = end_ns - start_ns;
    period_ns_ = period_ns_ == 0 ? static_cast<double>(duration_ns)
                                 : period_ns_ + (static_cast<double>(duration_ns) - period_ns_) / 16;
    if (!quiet) forecaster_.ObserveIteration(duration_ns, intrusion_ns);
    ledger_.AddIteration(quiet, duration_ns);
    SteerBySlowdown(quiet, duration_ns);
    TimelineEvent event;
    event.kind = quiet ? TimelineEvent::Kind::kQuietIteration : TimelineEvent::Kind::kIteration;
    event.start_ns = start_ns;
    event.end_ns = end_ns;
    event.iteration = next_iteration_;
    ledger_.AddEvent(std::move(event));
  }
}

// Intrusion is what can be seen of the harm; the A/B sees all of it. When it says that the budget is left clearly,
// the forecast holds back more, and the A/B starts anew.
void BubbleThread::SteerBySlowdown(bool quiet, int64_t duration_ns) {
  recent_slowdown_.Observe(quiet, static_cast<double>(duration_ns));
  if (recent_slowdown_.blocks() < kBlocksToBelieve || recent_slowdown_.blocks() == recent_blocks_) return;
  recent_blocks_ = recent_slowdown_.blocks();
  if (recent_slowdown_.Estimate().low <= 2 * options_.overhead_budget) return;
  forecaster_.BackOff();
  recent_slowdown_.Forget();
  recent_blocks_ = 0;
}

// ---- calls of other threads ------------------------------------------------------------------------------

Result<ResidentId> BubbleThread::AddResident(std::shared_ptr<host::ControlPage> page, ResidentOptions options) {
  ResidentId id = 0;
  {
    std::lock_guard lock(mutex_);
    if (residents_.size() >= limits::kResidentsPerDevice) {
      return ResourceExhausted("a device holds at most " + std::to_string(limits::kResidentsPerDevice) +
                               " resident tasks (kResidentsPerDevice)");
    }
    id = next_resident_++;
    residents_.push_back(std::make_unique<Resident>(id, std::move(page), std::move(options)));
    residents_.back()->last_turn_ns = MonotonicNowNs();
  }
  Kick();
  return id;
}

void BubbleThread::RemoveResident(ResidentId id) {
  {
    std::lock_guard lock(mutex_);
    Resident* resident = FindResident(id);
    if (resident == nullptr) return;
    CollectTurn();
    resident->SetPaused(true);
    bool armed = armed_ && armed_->resident == id;
    if (armed) {
      (void)resident->Disarm();
      DropArmed(host::TurnEnd::kStopped);
    }
    std::erase_if(residents_, [id](const auto& each) { return each->id() == id; });
  }
  Kick();
}

bool BubbleThread::Pause(ResidentId id, int64_t wait_ns) {
  int64_t until_ns = MonotonicNowNs() + wait_ns;
  bool first = true;
  while (true) {
    uint32_t bell_seen = (*doorbell_)->doorbell.load(kAcquire);
    {
      std::lock_guard lock(mutex_);
      Resident* resident = FindResident(id);
      if (resident == nullptr) return true;
      if (first) {
        resident->SetPaused(true);
        if (armed_ && armed_->resident == id && resident->Disarm()) DropArmed(host::TurnEnd::kStopped);
      }
      if (!resident->in_turn()) break;
    }
    first = false;
    if (!FutexWait(&(*doorbell_)->doorbell, bell_seen, until_ns)) return false;
  }
  Kick();
  return true;
}

void BubbleThread::Resume(ResidentId id) {
  {
    std::lock_guard lock(mutex_);
    Resident* resident = FindResident(id);
    if (resident == nullptr) return;
    resident->SetStop(false);
    resident->SetPaused(false);
  }
  Kick();
}

void BubbleThread::RequestStop(ResidentId id) {
  std::lock_guard lock(mutex_);
  if (Resident* resident = FindResident(id)) resident->SetStop(true);
}

void BubbleThread::SetValue(ResidentId id, double value) {
  std::lock_guard lock(mutex_);
  if (Resident* resident = FindResident(id)) resident->set_value(value);
}

void BubbleThread::SetFreeMemory(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  free_memory_bytes_ = bytes;
}

void BubbleThread::PostCommand(ResidentId id) {
  std::lock_guard lock(mutex_);
  if (Resident* resident = FindResident(id)) resident->PostCommand();
}

Capacity BubbleThread::GetCapacity() const {
  std::lock_guard lock(mutex_);
  auto micros = [](int64_t ns) { return static_cast<uint32_t>(std::clamp<int64_t>(ns / 1000, 0, UINT32_MAX)); };
  Capacity capacity;
  capacity.trainer_attached = trainer_attached_;
  capacity.guard_us = micros(forecaster_.guard_ns());
  if (!trainer_attached_) return capacity;
  capacity.iteration_period_us = micros(static_cast<int64_t>(period_ns_));
  for (uint32_t slot = 0; slot < forecaster_.slots(); ++slot) {
    scheduler::SlotQuantiles quantiles = forecaster_.Quantiles(slot);
    capacity.slots.push_back({micros(quantiles.p10_ns), micros(quantiles.p50_ns), micros(quantiles.p90_ns)});
  }
  return capacity;
}

DeviceFigures BubbleThread::GetFigures() const {
  std::lock_guard lock(mutex_);
  DeviceFigures figures = ledger_.Figures();
  figures.guard_us = static_cast<double>(forecaster_.guard_ns()) / 1000;
  figures.quantile = forecaster_.quantile();
  return figures;
}

Result<ResidentFigures> BubbleThread::GetResidentFigures(ResidentId id) const {
  std::lock_guard lock(mutex_);
  const Resident* resident = FindResident(id);
  if (resident == nullptr) return NotFound("no resident " + std::to_string(id));
  return resident->Figures();
}

std::vector<TimelineEvent> BubbleThread::GetTimeline() const {
  std::lock_guard lock(mutex_);
  return ledger_.Timeline();
}

void BubbleThread::ResetFigures() {
  std::lock_guard lock(mutex_);
  ledger_.Reset();
}

}  // namespace pillion::turns
