#include "worker/turns/bubble_thread.h"

#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/futex.h"
#include "base/log.h"

namespace pillion::turns {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;

// How often a trainer's life is looked at when nothing else wakes the thread, and at most.
constexpr int64_t kTrainerCheckNs = 100 * kNanosPerMilli;
// Handing over a tail costs about this much: a step that fits without it does not fit.
constexpr int64_t kHandOverNs = 30 * kNanosPerMicro;
// A step that began without a trainer may be long; it gets this many graces when one comes.
constexpr int64_t kFreeGraces = 50;

bool IsPast(uint32_t edge, uint32_t than) { return static_cast<int32_t>(edge - than) > 0; }

}  // namespace

Result<std::unique_ptr<TurnEngine>> TurnEngine::Start(const EngineOptions& options, std::unique_ptr<board::Board> board,
                                                      OverrunCallback overran) {
  PILLION_RETURN_IF_ERROR(board->TryLock(board::kLockWorker));
  PILLION_ASSIGN_OR_RETURN(auto doorbell, host::DoorbellPage::Create("pillion-doorbell"));
  return std::unique_ptr<TurnEngine>(
      new BubbleThread(options, std::move(board), std::move(doorbell), std::move(overran)));
}

BubbleThread::BubbleThread(const EngineOptions& options, std::unique_ptr<board::Board> board,
                           std::shared_ptr<host::DoorbellPage> doorbell, OverrunCallback overran)
    : options_(options),
      board_(std::move(board)),
      layout_(board_->layout()),
      doorbell_(std::move(doorbell)),
      overran_(std::move(overran)),
      forecaster_([&] {
        scheduler::ForecastOptions forecast;
        forecast.overhead_budget = options.overhead_budget;
        return forecast;
      }()),
      ledger_(options.timeline_events) {
  layout_->quiet_one_in.store(options_.quiet_one_in, kRelaxed);
  layout_->worker_generation.fetch_add(1, kRelease);
  thread_ = std::thread([this] { Loop(); });
}

BubbleThread::~BubbleThread() {
  leaving_.store(true);
  Kick();
  thread_.join();
  for (auto& resident : residents_) (void)resident->Disarm();
}

void BubbleThread::Kick() {
  (*doorbell_)->doorbell.fetch_add(1, kRelease);
  FutexWakeAll(&(*doorbell_)->doorbell);
}

void BubbleThread::Loop() {
  pthread_setname_np(pthread_self(), "bubbles");
  if (options_.core >= 0) {
    if (Status pinned = PinThisThread(options_.core); !pinned.ok()) {
      log::Warning("bubble thread is not pinned", {{"error", pinned.ToString()}});
    }
  }
  while (!leaving_.load()) {
    // Taken before looking around: whatever changes from here on ends the wait at once.
    uint32_t bell_seen = (*doorbell_)->doorbell.load(kAcquire);
    uint32_t edge_seen = layout_->edge.load(kAcquire);
    std::optional<std::pair<ResidentId, int64_t>> overrun;
    int64_t wake_ns = 0;
    bool watch_edge = false;
    {
      std::lock_guard lock(mutex_);
      wake_ns = LookAround(MonotonicNowNs());
      watch_edge = !armed_ || armed_->check_ns == 0;
      std::swap(overrun, overrun_to_report_);
    }
    if (overrun && overran_) overran_(overrun->first, overrun->second);
    if (watch_edge) {
      FutexWaitEither(&(*doorbell_)->doorbell, bell_seen, &layout_->edge, edge_seen, wake_ns);
    } else {
      FutexWait(&(*doorbell_)->doorbell, bell_seen, wake_ns);
    }
  }
}

// Returns when to look again at the latest.
int64_t BubbleThread::LookAround(int64_t now_ns) {
  WatchTrainer(now_ns);
  CollectTurn();
  if (armed_) WatchTurn(now_ns);
  if (!armed_) Decide(now_ns);
  Settle();
  int64_t wake_ns = now_ns + kTrainerCheckNs;
  if (armed_ && armed_->check_ns != 0) wake_ns = std::min(wake_ns, armed_->check_ns);
  return wake_ns;
}

// ---- the trainer -----------------------------------------------------------------------------------------

void BubbleThread::WatchTrainer(int64_t now_ns) {
  uint32_t generation = layout_->trainer_generation.load(kAcquire);
  bool another = generation != trainer_generation_;
  if (!another && now_ns - trainer_checked_ns_ < kTrainerCheckNs && trainer_checked_ns_ != 0) {
    if (trainer_attached_) TakeTrainersWishes();
    return;
  }
  trainer_checked_ns_ = now_ns;
  bool attached = board_->IsLocked(board::kLockTrainer);
  trainer_generation_ = generation;
  if (attached && (another || !trainer_attached_)) MeetTrainer();
  trainer_attached_ = attached;
  if (attached) TakeTrainersWishes();
}

void BubbleThread::MeetTrainer() {
  if (any_trainer_yet_) ledger_.AddTrainerRestart();
  any_trainer_yet_ = true;
  forecaster_.Forget();
  recent_slowdown_.Forget();
  recent_blocks_ = 0;
  expected_generation_ = 0;
  gap_ns_.clear();
  period_ns_ = 0;
  last_close_ns_ = 0;
  intrusion_ns_ = 0;
  // A bubble or an iteration that is under way is not counted: its beginning may be older than this worker.
  uint32_t edge = layout_->edge.load(kAcquire);
  next_sequence_ = board::NextSequence(board::SequenceOf(edge));
  uint64_t iteration = layout_->iteration.load(kAcquire);
  next_iteration_ = iteration == board::kNoIteration ? 0 : iteration + 1;
}

void BubbleThread::TakeTrainersWishes() {
  uint32_t slots = layout_->slots_per_iteration.load(kRelaxed);
  uint32_t expected = layout_->expected_generation.load(kAcquire);
  if (expected != expected_generation_) {
    expected_generation_ = expected;
    uint32_t count = std::min(layout_->expected_slots.load(kRelaxed), limits::kSlotsPerIteration);
    std::vector<uint32_t> lengths_us(count);
    for (uint32_t i = 0; i < count; ++i) lengths_us[i] = layout_->expected_us[i].load(kRelaxed);
    if (count > 0) forecaster_.Seed(lengths_us);
  }
  if (slots == 0 || slots > limits::kSlotsPerIteration) return;
  forecaster_.SetSlots(slots);
  if (gap_ns_.size() != slots) gap_ns_.assign(slots, 0);
}

bool BubbleThread::IsQuiet(uint64_t iteration) const {
  return board::IsQuiet(layout_->run_id.load(kRelaxed), iteration, options_.quiet_one_in);
}

// ---- the turn that is armed or runs ----------------------------------------------------------------------

void BubbleThread::CollectTurn() {
  if (!armed_) return;
  Resident* resident = FindResident(armed_->resident);
  if (resident == nullptr) return;
  std::optional<TurnFacts> turn = resident->Collect();
  if (!turn) return;
  if (armed_->stop_sent && !resident->barred) resident->SetStop(false);
  bool came = turn->end != host::TurnEnd::kMissed;
  resident->missed_in_row = came ? 0 : resident->missed_in_row + 1;
  if (turn->steps > 0 && turn->end == host::TurnEnd::kFull) resident->retry_after_ns = kFirstRetryNs;
  if (turn->steps == 0) resident->no_tail_edge = armed_->edge;
  BookTurn(*turn);
  armed_.reset();
}

// Of the armed turn, which has ended.
void BubbleThread::BookTurn(const TurnFacts& turn) {
  Resident* resident = FindResident(turn.resident);
  bool disturbed = turn.end == host::TurnEnd::kOverran || turn.end == host::TurnEnd::kStopped;
  if (resident != nullptr && turn.units > 0 && !disturbed) {
    resident->solo.Observe(turn.kind == host::TurnKind::kFree,
                           static_cast<double>(turn.step_time_ns) / static_cast<double>(turn.units));
  }
  if (turn.kind == host::TurnKind::kFree) {
    ledger_.AddFreeTurn(turn);
    if (resident != nullptr) resident->free_ns += static_cast<double>(turn.step_time_ns);
  } else {
    NoteOf(board::SequenceOf(armed_->edge)).turns.push_back(turn);
  }
  if (turn.steps == 0 || resident == nullptr) return;
  TimelineEvent event;
  event.kind = TimelineEvent::Kind::kTurn;
  event.start_ns = turn.first_start_ns;
  event.end_ns = turn.last_end_ns;
  event.steps = turn.steps;
  event.resident = turn.resident;
  event.name = resident->options().name;
  ledger_.AddEvent(std::move(event));
}

// The armed turn was taken back, or its host is gone.
void BubbleThread::DropArmed(host::TurnEnd end) {
  TurnFacts turn;
  turn.resident = armed_->resident;
  turn.kind = armed_->kind;
  turn.end = end;
  bool in_bubble = armed_->kind != host::TurnKind::kFree;
  uint32_t sequence = board::SequenceOf(armed_->edge);
  // A bubble that has not opened yet simply is planned anew.
  if (in_bubble && !IsPast(armed_->edge, layout_->edge.load(kAcquire))) NoteOf(sequence).turns.push_back(turn);
  armed_.reset();
}

void BubbleThread::WatchTurn(int64_t now_ns) {
  Resident* resident = FindResident(armed_->resident);
  if (resident == nullptr) return DropArmed(host::TurnEnd::kStopped);
  uint32_t edge = layout_->edge.load(kAcquire);
  bool free_with_trainer = armed_->kind == host::TurnKind::kFree && trainer_attached_;
  bool gone = armed_->kind != host::TurnKind::kFree && IsPast(edge, armed_->edge);
  bool orphaned = armed_->kind != host::TurnKind::kFree && !trainer_attached_;
  bool unwanted = resident->paused || !resident->ready();
  if ((gone || orphaned || free_with_trainer || unwanted) && resident->Disarm()) {
    if (gone && !unwanted) ++resident->missed_in_row;
    return DropArmed(unwanted ? host::TurnEnd::kStopped : host::TurnEnd::kMissed);
  }
  if (gone || free_with_trainer) return WatchOverrun(resident, now_ns);
  if (armed_->kind == host::TurnKind::kFree || orphaned) {
    armed_->check_ns = now_ns + kTrainerCheckNs;  // it ends by itself
    return;
  }
  if (edge == armed_->edge) return WatchOpenBubble(edge, now_ns);
  // Not open yet. When it should have been over by now, its opening is awaited instead of a time.
  if (now_ns >= armed_->check_ns) armed_->check_ns = 0;
}

void BubbleThread::WatchOpenBubble(uint32_t edge, int64_t now_ns) {
  const board::RingEntry& entry = layout_->ring[board::SequenceOf(edge) % limits::kBoardRing];
  const Plan& plan = NoteOf(board::SequenceOf(edge)).plan;
  int64_t due_ns = entry.open_ns.load(kRelaxed) + plan.predicted_ns + options_.stop_grace_ns;
  // Longer than foreseen: the closing edge wakes nobody, so look every now and then.
  armed_->check_ns = std::max(due_ns, now_ns + options_.stop_grace_ns);
}

// The bubble has closed, or a trainer came, while the host is in its turn.
void BubbleThread::WatchOverrun(Resident* resident, int64_t now_ns) {
  bool free_turn = armed_->kind == host::TurnKind::kFree;
  if (armed_->over_since_ns == 0) {
    const board::RingEntry& entry = layout_->ring[board::SequenceOf(armed_->edge) % limits::kBoardRing];
    bool stamped = !free_turn && entry.sequence.load(kAcquire) == board::SequenceOf(armed_->edge);
    int64_t close_ns = stamped ? entry.close_ns.load(kRelaxed) : 0;
    armed_->over_since_ns = close_ns != 0 ? close_ns : now_ns;
  }
  int64_t grace_ns = options_.stop_grace_ns * (free_turn ? kFreeGraces : 1);
  int64_t over_ns = now_ns - armed_->over_since_ns;
  if (over_ns >= grace_ns && !armed_->stop_sent) {
    armed_->stop_sent = true;
    resident->SetStop(true);
  }
  // An honest step that shares the device with the trainer takes up to twice its time.
  int64_t enforce_ns = 2 * grace_ns + std::max(options_.enforce_after_ns, 2 * resident->step_need_ns());
  if (over_ns >= enforce_ns) return GiveUpTurn(resident, over_ns);
  armed_->check_ns = armed_->over_since_ns + (armed_->stop_sent ? enforce_ns : grace_ns);
}

// The host does not end its turn. In a step it is to be stopped; between steps it was only not given the processor.
void BubbleThread::GiveUpTurn(Resident* resident, int64_t over_ns) {
  if (resident->step_start_ns() != 0) {
    resident->barred = true;
    ++resident->overruns;
    overrun_to_report_ = {resident->id(), over_ns};
  } else if (armed_->stop_sent) {
    resident->SetStop(false);
  }
  DropArmed(host::TurnEnd::kOverran);
}

bool BubbleThread::ArmTurn(Resident* resident, const TurnOrder& order, int64_t check_ns) {
  if (!resident->Arm(order)) return false;
  resident->last_served = ++served_;
  resident->last_turn_ns = MonotonicNowNs();
  if (order.afresh) resident->retry_after_ns = std::min(2 * resident->retry_after_ns, kLastRetryNs);
  armed_ = Armed{resident->id(), order.kind, order.edge, check_ns};
  return true;
}

// ---- whose turn ------------------------------------------------------------------------------------------

void BubbleThread::Decide(int64_t now_ns) {
  if (!trainer_attached_) return DecideFree(now_ns);
  uint32_t edge = layout_->edge.load(kAcquire);
  if (board::IsOpen(edge)) DecideTail(edge, now_ns);
  if (!armed_) DecideNext(edge, now_ns);
}

void BubbleThread::DecideFree(int64_t now_ns) {
  if (!options_.run_without_trainer) return;
  Choice choice = Choose(residents_, INT64_MAX, free_memory_bytes_, true, 0, now_ns);
  if (choice.resident == nullptr) return;
  TurnOrder order;
  order.kind = host::TurnKind::kFree;
  order.trainer_generation = trainer_generation_;
  order.deadline_ns = now_ns + options_.free_slice_ns;
  (void)ArmTurn(choice.resident, order, order.deadline_ns + kTrainerCheckNs);
}

// The bubble is open and nobody has a turn in it: its beginning came unplanned, or the planned turn has ended.
void BubbleThread::DecideTail(uint32_t edge, int64_t now_ns) {
  uint32_t sequence = board::SequenceOf(edge);
  std::optional<Place> place = PlaceOf(sequence);
  if (!place || IsQuiet(place->iteration)) return;
  const board::RingEntry& entry = layout_->ring[sequence % limits::kBoardRing];
  scheduler::SlotPrediction prediction = forecaster_.Predict(place->slot);
  Note& note = NoteOf(sequence);
  bool planned = note.plan.cause != Cause::kNone || note.plan.predicted_ns != 0;
  if (planned) prediction = {note.plan.predicted_ns, note.plan.guard_ns};  // one bubble, one forecast
  int64_t end_ns = entry.open_ns.load(kRelaxed) + prediction.usable_ns();
  Choice choice = Choose(residents_, end_ns - now_ns - kHandOverNs, free_memory_bytes_, false, edge, now_ns);
  if (!planned) note.plan = MakePlan(place->slot, choice);
  // Somebody may have become ready since the plan was made.
  if (note.turns.empty() && choice.any_eligible && !note.plan.any_eligible) note.plan = MakePlan(place->slot, choice);
  if (choice.resident == nullptr) return;
  TurnOrder order;
  order.kind = host::TurnKind::kNow;
  order.edge = edge;
  order.deadline_ns = end_ns;
  order.trainer_generation = trainer_generation_;
  (void)ArmTurn(choice.resident, order, end_ns + prediction.guard_ns + options_.stop_grace_ns);
}

// Arms the first bubble to come in which somebody's step fits; quiet iterations end the search.
void BubbleThread::DecideNext(uint32_t edge, int64_t now_ns) {
  uint32_t sequence = board::SequenceOf(edge);
  std::optional<Place> place = PlaceOf(sequence);
  int64_t longest_ns = LongestUsableNs();
  uint32_t search = std::min(forecaster_.slots(), limits::kBoardRing / 4);
  for (uint32_t k = 0; place && k < search; ++k) {
    place = PlaceAfter(*place);
    sequence = board::NextSequence(sequence);
    if (!place || IsQuiet(place->iteration)) return;
    scheduler::SlotPrediction prediction = forecaster_.Predict(place->slot);
    bool longest = prediction.usable_ns() > 0 && prediction.usable_ns() >= longest_ns - longest_ns / 64;
    Choice choice = Choose(residents_, prediction.usable_ns(), free_memory_bytes_, longest, 0, now_ns);
    Note& note = NoteOf(sequence);
    note.plan = MakePlan(place->slot, choice);
    if (choice.resident == nullptr) continue;
    TurnOrder order;
    order.kind = host::TurnKind::kBubble;
    order.edge = board::EdgeWord(sequence, true);
    order.slot = place->slot;
    order.iteration = place->iteration;
    order.trainer_generation = trainer_generation_;
    order.budget_ns = prediction.usable_ns();
    order.afresh = choice.afresh;
    // With one bubble in between its own length comes on top; then the check is simply too early, and looks again.
    int64_t gap_ns = place->slot < gap_ns_.size() ? gap_ns_[place->slot] : 0;
    order.expected_open_ns = gap_ns > 0 && last_close_ns_ > 0 ? now_ns + gap_ns : 0;
    int64_t from_ns = order.expected_open_ns != 0 ? order.expected_open_ns : now_ns;
    (void)ArmTurn(choice.resident, order, from_ns + prediction.length_ns + options_.stop_grace_ns);
    return;
  }
}

std::optional<BubbleThread::Place> BubbleThread::PlaceOf(uint32_t sequence) const {
  const board::RingEntry& entry = layout_->ring[sequence % limits::kBoardRing];
  if (entry.sequence.load(kAcquire) != sequence || sequence == 0) return std::nullopt;
  return Place{entry.iteration.load(kRelaxed), entry.slot.load(kRelaxed)};
}

std::optional<BubbleThread::Place> BubbleThread::PlaceAfter(Place place) const {
  if (forecaster_.slots() == 0) return std::nullopt;
  if (place.slot + 1 < forecaster_.slots()) return Place{place.iteration, place.slot + 1};
  return Place{place.iteration + 1, 0};
}

int64_t BubbleThread::LongestUsableNs() const {
  int64_t longest_ns = 0;
  for (uint32_t slot = 0; slot < forecaster_.slots(); ++slot) {
    longest_ns = std::max(longest_ns, forecaster_.Predict(slot).usable_ns());
  }
  return longest_ns;
}

Plan BubbleThread::MakePlan(uint32_t slot, const Choice& choice) const {
  scheduler::SlotPrediction prediction = forecaster_.Predict(slot);
  Plan plan;
  plan.predicted_ns = prediction.length_ns;
  plan.guard_ns = prediction.guard_ns;
  plan.median_ns = forecaster_.Quantiles(slot).p50_ns;
  plan.shortest_step_ns = choice.shortest_step_ns;
  plan.any_eligible = choice.any_eligible;
  plan.cause = choice.cause;
  if (plan.cause == Cause::kShorterThanStep && prediction.length_ns == 0) plan.cause = Cause::kNotForeseen;
  return plan;
}

BubbleThread::Note& BubbleThread::NoteOf(uint32_t sequence) {
  Note& note = notes_[sequence % limits::kBoardRing];
  if (note.sequence != sequence) {
    note.sequence = sequence;
    note.plan = Plan();
    note.turns.clear();
  }
  return note;
}

Resident* BubbleThread::FindResident(ResidentId id) const {
  for (const auto& resident : residents_) {
    if (resident->id() == id) return resident.get();
  }
  return nullptr;
}

}  // namespace pillion::turns
