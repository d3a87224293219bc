#include "worker/turns/books.h"

#include <algorithm>

namespace pillion::turns {
namespace {

// Between two looks at the clock a turn may end this much before its last step would no longer have fitted: the
// estimate that the host used had not reached the plan, and handing the tail over costs time as well.
constexpr int64_t kTailSlackNs = 150'000;

double Overlap(int64_t from_ns, int64_t to_ns, int64_t low_ns, int64_t high_ns) {
  return static_cast<double>(std::max<int64_t>(0, std::min(to_ns, high_ns) - std::max(from_ns, low_ns)));
}

bool BecameUnavailable(host::TurnEnd end) {
  return end == host::TurnEnd::kStopped || end == host::TurnEnd::kCommand || end == host::TurnEnd::kResting;
}

// The whole of a bubble in which no step ran.
void AccountIdle(const BubbleFacts& bubble, double length_ns, Losses* losses) {
  if (!bubble.turns.empty()) {
    host::TurnEnd end = bubble.turns.back().end;
    if (BecameUnavailable(end)) {
      losses->no_task_ns += length_ns;
    } else if (end == host::TurnEnd::kFull) {
      losses->shorter_than_step_ns += length_ns;
    } else if (end == host::TurnEnd::kMismatch) {
      losses->forecast_miss_ns += length_ns;
    } else {
      losses->switching_ns += length_ns;  // the host did not come to run in time
    }
    return;
  }
  switch (bubble.plan.cause) {
    case Cause::kNoTask: losses->no_task_ns += length_ns; break;
    case Cause::kMemory: losses->memory_ns += length_ns; break;
    case Cause::kShorterThanStep: {
      // What the forecast says is too short for a step; what the bubble was longer than that it did not foresee.
      double foreseen = std::min(length_ns, static_cast<double>(bubble.plan.predicted_ns));
      losses->shorter_than_step_ns += foreseen;
      losses->forecast_miss_ns += length_ns - foreseen;
      break;
    }
    case Cause::kNotForeseen: losses->forecast_miss_ns += length_ns; break;
    case Cause::kNone: break;  // a turn was planned and nothing came of it: unexplained
  }
}

// From the end of the last step to the closing edge.
void AccountRest(const BubbleFacts& bubble, int64_t rest_from_ns, host::TurnEnd end, Losses* losses) {
  const Plan& plan = bubble.plan;
  int64_t foreseen_ns = bubble.open_ns + plan.predicted_ns;
  int64_t usable_ns = std::max(bubble.open_ns, foreseen_ns - plan.guard_ns);
  double tail = Overlap(rest_from_ns, bubble.close_ns, bubble.open_ns, usable_ns);
  if (BecameUnavailable(end)) {
    losses->no_task_ns += tail;
  } else {
    losses->tail_ns += std::min(tail, static_cast<double>(plan.shortest_step_ns + kTailSlackNs));
  }
  losses->guard_ns += Overlap(rest_from_ns, bubble.close_ns, usable_ns, foreseen_ns);
  losses->forecast_miss_ns += Overlap(rest_from_ns, bubble.close_ns, foreseen_ns, bubble.close_ns);
}

int64_t Intrusion(const BubbleFacts& bubble, const TurnFacts& last, bool touched) {
  if (last.last_end_ns > bubble.close_ns) return last.last_end_ns - bubble.close_ns;
  if (!touched || bubble.plan.median_ns == 0) return 0;
  // The edge itself waited for the step: measure against the usual length.
  int64_t beyond_ns = last.last_end_ns - (bubble.open_ns + bubble.plan.median_ns);
  return std::clamp<int64_t>(beyond_ns, 0, last.last_end_ns - last.last_start_ns);
}

// Steps of one turn: harvest, useful work, time between steps, and a last step that outlasted the bubble.
void AccountTurn(const BubbleFacts& bubble, const TurnFacts& turn, BubbleResult* result) {
  bool overran = turn.last_end_ns > bubble.close_ns;
  auto harvest = static_cast<double>(turn.step_time_ns);
  auto units = static_cast<double>(turn.units);
  if (overran) {
    harvest -= static_cast<double>(turn.last_end_ns - turn.last_start_ns);
    units *= static_cast<double>(turn.steps - 1) / turn.steps;
    result->losses.forecast_miss_ns += Overlap(turn.last_start_ns, turn.last_end_ns, bubble.open_ns, bubble.close_ns);
    ++result->overruns;
  }
  result->harvest_ns += harvest;
  result->harvest_by_turn_ns.back() = harvest;
  result->useful_by_turn_ns.back() = units * turn.solo_unit_ns;
  result->useful_ns += units * turn.solo_unit_ns;
  result->losses.switching_ns +=
      static_cast<double>(turn.last_end_ns - turn.first_start_ns - turn.step_time_ns);
}

}  // namespace

double Total(const Losses& losses) {
  return losses.no_task_ns + losses.memory_ns + losses.shorter_than_step_ns + losses.guard_ns + losses.tail_ns +
         losses.switching_ns + losses.forecast_miss_ns;
}

void Add(const Losses& more, Losses* to) {
  to->no_task_ns += more.no_task_ns;
  to->memory_ns += more.memory_ns;
  to->shorter_than_step_ns += more.shorter_than_step_ns;
  to->guard_ns += more.guard_ns;
  to->tail_ns += more.tail_ns;
  to->switching_ns += more.switching_ns;
  to->forecast_miss_ns += more.forecast_miss_ns;
}

double BubbleResult::unexplained_ns() const { return length_ns - harvest_ns - Total(losses); }

BubbleResult Account(const BubbleFacts& bubble) {
  BubbleResult result;
  result.length_ns = static_cast<double>(std::max<int64_t>(0, bubble.close_ns - bubble.open_ns));
  result.eligible = bubble.plan.any_eligible && result.length_ns >= static_cast<double>(bubble.plan.shortest_step_ns);
  int64_t at_ns = bubble.open_ns;  // end of the last step so far
  const TurnFacts* last = nullptr;
  for (const TurnFacts& turn : bubble.turns) {
    result.harvest_by_turn_ns.push_back(0);
    result.useful_by_turn_ns.push_back(0);
    if (turn.steps == 0) continue;
    double gap = Overlap(at_ns, turn.first_start_ns, bubble.open_ns, bubble.close_ns);
    // A bubble that was not foreseen is entered late, by a turn that begins at once.
    bool late = last == nullptr && turn.kind == host::TurnKind::kNow;
    (late ? result.losses.forecast_miss_ns : result.losses.switching_ns) += gap;
    if (last == nullptr && !late) result.edge_to_step_ns = gap;
    AccountTurn(bubble, turn, &result);
    at_ns = turn.last_end_ns;
    last = &turn;
  }
  if (last == nullptr) {
    AccountIdle(bubble, result.length_ns, &result.losses);
    return result;
  }
  AccountRest(bubble, at_ns, bubble.turns.back().end, &result.losses);
  result.touched = at_ns > bubble.close_ns - kTouchNs;
  result.intrusion_ns = static_cast<double>(Intrusion(bubble, *last, result.touched));
  return result;
}

}  // namespace pillion::turns
