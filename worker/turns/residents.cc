#include "worker/turns/residents.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/futex.h"

namespace pillion::turns {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr uint32_t kTurnIdMask = (1u << 30) - 1;

bool IsPossible(const TurnFacts& turn) {
  return turn.first_start_ns > 0 && turn.first_start_ns <= turn.last_start_ns && turn.last_start_ns <= turn.last_end_ns &&
         turn.step_time_ns >= turn.last_end_ns - turn.last_start_ns &&
         turn.step_time_ns <= turn.last_end_ns - turn.first_start_ns;
}

}  // namespace

void SoloTime::Observe(bool free, double unit_ns) {
  if (unit_ns <= 0 || (any_free_ && !free)) return;
  if (free && !any_free_) {
    any_free_ = true;
    window_.clear();
    next_ = 0;
  }
  if (window_.size() < kWindow) {
    window_.push_back(unit_ns);
  } else {
    window_[next_++ % kWindow] = unit_ns;
  }
  if (any_free_) {
    double sum = 0;
    for (double value : window_) sum += value;
    unit_ns_ = sum / static_cast<double>(window_.size());
    return;
  }
  std::vector<double> sorted = window_;
  auto rank = sorted.begin() + static_cast<long>(sorted.size() / 5);
  std::nth_element(sorted.begin(), rank, sorted.end());
  unit_ns_ = *rank;
}

Resident::Resident(ResidentId id, std::shared_ptr<host::ControlPage> page, ResidentOptions options)
    : id_(id), page_(std::move(page)), options_(std::move(options)) {}

bool Resident::ready() const { return layout().ready.load(kAcquire) != 0; }
bool Resident::elastic() const { return layout().elastic.load(kRelaxed) != 0; }
bool Resident::in_turn() const {
  return host::TurnStateOf(layout().turn.load(kAcquire)) == host::TurnState::kTaken;
}
int64_t Resident::step_start_ns() const { return layout().step_start_ns.load(kAcquire); }

int64_t Resident::step_need_ns() const {
  int64_t measured_ns = layout().step_estimate_ns.load(kRelaxed);
  return measured_ns > 0 ? measured_ns : options_.step_hint_ns;
}

void Resident::Wake() {
  layout().control.fetch_add(1, kRelease);
  FutexWakeAll(&layout().control);
}

bool Resident::Arm(const TurnOrder& order) {
  host::ControlLayout& page = layout();
  host::TurnState state = host::TurnStateOf(page.turn.load(kAcquire));
  if (state == host::TurnState::kTaken || state == host::TurnState::kArmed) return false;
  turn_id_ = (turn_id_ + 1) & kTurnIdMask;
  kind_ = order.kind;
  page.armed.kind.store(static_cast<uint32_t>(order.kind), kRelaxed);
  page.armed.edge.store(order.edge, kRelaxed);
  page.armed.slot.store(order.slot, kRelaxed);
  page.armed.iteration.store(order.iteration, kRelaxed);
  page.armed.trainer_generation.store(order.trainer_generation, kRelaxed);
  page.armed.budget_ns.store(order.budget_ns, kRelaxed);
  page.armed.deadline_ns.store(order.deadline_ns, kRelaxed);
  page.armed.afresh.store(order.afresh ? 1 : 0, kRelaxed);
  page.armed.expected_open_ns.store(order.expected_open_ns, kRelaxed);
  page.turn.store(host::TurnWord(turn_id_, host::TurnState::kArmed), kRelease);
  Wake();
  return true;
}

bool Resident::Disarm() {
  uint32_t word = host::TurnWord(turn_id_, host::TurnState::kArmed);
  return layout().turn.compare_exchange_strong(word, host::TurnWord(turn_id_, host::TurnState::kNone));
}

std::optional<TurnFacts> Resident::Collect() const {
  const host::ControlLayout& page = layout();
  if (page.turn.load(kAcquire) != host::TurnWord(turn_id_, host::TurnState::kEnded)) return std::nullopt;
  const host::TurnRecord& record = page.records[turn_id_ % host::kRecordRing];
  TurnFacts turn;
  turn.resident = id_;
  turn.kind = kind_;
  turn.end = static_cast<host::TurnEnd>(
      std::min(record.end.load(kRelaxed), static_cast<uint32_t>(host::TurnEnd::kResting)));
  turn.solo_unit_ns = options_.solo_unit_ns > 0 ? options_.solo_unit_ns : solo.unit_ns();
  TurnFacts with_steps = turn;
  with_steps.steps = record.steps.load(kRelaxed);
  with_steps.units = elastic() ? record.items.load(kRelaxed) : with_steps.steps;
  with_steps.first_start_ns = record.first_start_ns.load(kRelaxed);
  with_steps.last_start_ns = record.last_start_ns.load(kRelaxed);
  with_steps.last_end_ns = record.last_end_ns.load(kRelaxed);
  with_steps.step_time_ns = record.step_time_ns.load(kRelaxed);
  return with_steps.steps > 0 && IsPossible(with_steps) ? with_steps : turn;
}

void Resident::SetPaused(bool value) {
  paused = value;
  layout().paused.store(value ? 1 : 0, kRelease);
  Wake();
}

void Resident::SetStop(bool value) {
  layout().stop.store(value ? 1 : 0, kRelease);
  Wake();
}

void Resident::PostCommand() {
  layout().commands.fetch_add(1, kRelease);
  Wake();
}

ResidentFigures Resident::Figures() const {
  ResidentFigures figures;
  figures.ready = ready();
  figures.in_turn = in_turn();
  figures.steps = layout().total_steps.load(kRelaxed);
  figures.items = layout().total_items.load(kRelaxed);
  figures.step_estimate_ns = static_cast<double>(step_need_ns());
  figures.solo_unit_ns = options_.solo_unit_ns > 0 ? options_.solo_unit_ns : solo.unit_ns();
  figures.harvest_ns = harvest_ns;
  figures.useful_ns = useful_ns;
  figures.free_ns = free_ns;
  figures.overruns = overruns;
  return figures;
}

Choice Choose(const std::vector<std::unique_ptr<Resident>>& residents, int64_t usable_ns, uint64_t free_memory_bytes,
              bool may_try, uint32_t not_in_edge, int64_t now_ns) {
  Choice choice;
  bool any_ready = false;
  auto is_retry = [&](const Resident& resident) {
    return may_try && usable_ns > 0 && resident.step_need_ns() > usable_ns &&
           now_ns - resident.last_turn_ns > resident.retry_after_ns;
  };
  auto rank = [&](const Resident& resident) {
    bool measured = resident.step_need_ns() != 0 && !is_retry(resident);
    return std::tuple(resident.missed_in_row > 0, measured, -resident.options().value, resident.last_served);
  };
  for (const auto& resident : residents) {
    if (!resident->ready() || resident->paused || resident->barred || resident->in_turn()) continue;
    any_ready = true;
    if (resident->options().memory_bytes > free_memory_bytes) continue;
    int64_t need_ns = resident->step_need_ns();
    choice.shortest_step_ns = choice.any_eligible ? std::min(choice.shortest_step_ns, need_ns) : need_ns;
    choice.any_eligible = true;
    if (not_in_edge != 0 && resident->no_tail_edge == not_in_edge) continue;
    if ((need_ns > usable_ns && !is_retry(*resident)) || (need_ns == 0 && !may_try) || usable_ns <= 0) continue;
    if (choice.resident == nullptr || rank(*resident) < rank(*choice.resident)) choice.resident = resident.get();
  }
  if (choice.resident != nullptr) {
    choice.afresh = is_retry(*choice.resident);
    return choice;
  }
  if (!any_ready) {
    choice.cause = Cause::kNoTask;
  } else {
    choice.cause = choice.any_eligible ? Cause::kShorterThanStep : Cause::kMemory;
  }
  return choice;
}

}  // namespace pillion::turns
