#include "pipeline/executor/program.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/checksum.h"

namespace pillion::executor {
namespace {

using pipeline::Action;
using pipeline::ActionType;
using pipeline::Plan;

std::string NameAt(const Program& program, ActionPlace place) {
  return pipeline::ActionName(program.instructions[place.rank][place.index].action) + " on rank " +
         std::to_string(place.rank);
}

Status RefuseUnsupported(const Plan& plan) {
  const std::string name = plan.name.empty() ? "the plan" : "the plan " + plan.name;
  if (plan.copies != 1) {
    return Unsupported(name + " keeps " + std::to_string(plan.copies) +
                       " copies of the weights; the executor runs plans with one copy");
  }
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].shard_devices.size() > 1) {
      return Unsupported(name + " splits stage " + std::to_string(s) +
                         " over several devices; the executor runs stages on one device each");
    }
  }
  return Status();
}

// Where every F, I (or B) and W of (stage, micro-batch) stands; a place with rank -1 does not
// exist.
class Places {
 public:
  explicit Places(const Program& program)
      : microbatches_(program.microbatches),
        forward_(static_cast<size_t>(program.stages) * program.microbatches, ActionPlace{-1, -1}),
        backward_(forward_),
        weight_(forward_) {}

  ActionPlace& forward(int32_t stage, int32_t microbatch) {
    return forward_[Key(stage, microbatch)];
  }
  ActionPlace& backward(int32_t stage, int32_t microbatch) {
    return backward_[Key(stage, microbatch)];
  }
  ActionPlace& weight(int32_t stage, int32_t microbatch) { return weight_[Key(stage, microbatch)]; }

 private:
  size_t Key(int32_t stage, int32_t microbatch) const {
    return static_cast<size_t>(stage) * microbatches_ + microbatch;
  }
  const int32_t microbatches_;
  std::vector<ActionPlace> forward_, backward_, weight_;
};

Status FindPlaces(const Program& program, Places* places) {
  for (int32_t rank = 0; rank < program.ranks; ++rank) {
    const auto& instructions = program.instructions[rank];
    for (int32_t index = 0; index < static_cast<int32_t>(instructions.size()); ++index) {
      const Action& action = instructions[index].action;
      ActionPlace& place = action.type == ActionType::kForward
                               ? places->forward(action.stage, action.microbatch)
                           : action.type == ActionType::kWeightGradient
                               ? places->weight(action.stage, action.microbatch)
                               : places->backward(action.stage, action.microbatch);
      if (place.rank >= 0) {
        return InvalidArgument(pipeline::ActionName(action) + " on rank " + std::to_string(rank) +
                               " repeats " + NameAt(program, place));
      }
      place = {rank, index};
    }
  }
  for (int32_t s = 0; s < program.stages; ++s) {
    for (int32_t m = 0; m < program.microbatches; ++m) {
      const std::string what = "stage " + std::to_string(s) + ", micro-batch " + std::to_string(m);
      if (places->forward(s, m).rank < 0) return InvalidArgument(what + " has no F");
      ActionPlace backward = places->backward(s, m);
      if (backward.rank < 0) return InvalidArgument(what + " has neither I nor B");
      bool split = program.instructions[backward.rank][backward.index].action.type ==
                   ActionType::kInputGradient;
      if (split != (places->weight(s, m).rank >= 0)) {
        return InvalidArgument(what + (split ? " has I but no W" : " has both B and W"));
      }
    }
  }
  return Status();
}

// The action on another place that `action` reads from, or rank -1.
ActionPlace InputOf(const Program& program, Places* places, const Action& action) {
  if (action.type == ActionType::kForward && action.stage > 0) {
    return places->forward(action.stage - 1, action.microbatch);
  }
  bool backward = action.type == ActionType::kInputGradient || action.type == ActionType::kBackward;
  if (backward && action.stage + 1 < program.stages)
    return places->backward(action.stage + 1, action.microbatch);
  return {-1, -1};
}

// What has to precede `action` on its own rank, or rank -1.
ActionPlace OwnInputOf(Places* places, const Action& action) {
  if (action.type == ActionType::kForward) return {-1, -1};
  if (action.type == ActionType::kWeightGradient)
    return places->backward(action.stage, action.microbatch);
  return places->forward(action.stage, action.microbatch);
}

Status DescribeCircle(const Program& program, Places* places, const std::vector<int32_t>& next) {
  // Every rank that has work left waits; following what each waits for must come back to a rank
  // seen before.
  int32_t rank = 0;
  while (next[rank] == static_cast<int32_t>(program.instructions[rank].size())) ++rank;
  std::vector<int32_t> seen;
  std::string text;
  while (std::find(seen.begin(), seen.end(), rank) == seen.end()) {
    seen.push_back(rank);
    const Action& action = program.instructions[rank][next[rank]].action;
    ActionPlace own = OwnInputOf(places, action);
    ActionPlace needed =
        own.rank >= 0 && own.index >= next[rank] ? own : InputOf(program, places, action);
    text += (text.empty() ? "" : ", ") + NameAt(program, {rank, next[rank]}) + " waits for " +
            NameAt(program, needed);
    rank = needed.rank;
  }
  return FailedPrecondition("the plan cannot complete: " + text);
}

// Runs the orders without time: one topological order of everything, or the reason why there is
// none.
Status FindGlobalOrder(Places* places, Program* program) {
  std::vector<int32_t> next(program->ranks, 0);
  auto done = [&](ActionPlace place) { return place.rank < 0 || place.index < next[place.rank]; };
  size_t total = 0;
  for (const auto& instructions : program->instructions) total += instructions.size();
  // A rank is looked at again when the rank that it waits for has moved.
  std::vector<std::vector<int32_t>> waiters(program->ranks);
  std::vector<int32_t> ready;
  for (int32_t rank = program->ranks - 1; rank >= 0; --rank) ready.push_back(rank);
  while (!ready.empty()) {
    const int32_t rank = ready.back();
    ready.pop_back();
    const auto& instructions = program->instructions[rank];
    bool moved = false;
    while (next[rank] < static_cast<int32_t>(instructions.size())) {
      const Action& action = instructions[next[rank]].action;
      if (!done(OwnInputOf(places, action))) break;
      ActionPlace input = InputOf(*program, places, action);
      if (!done(input)) {
        waiters[input.rank].push_back(rank);
        break;
      }
      program->global_order.push_back({rank, next[rank]++});
      moved = true;
    }
    if (moved) {
      ready.insert(ready.end(), waiters[rank].begin(), waiters[rank].end());
      waiters[rank].clear();
    }
  }
  if (program->global_order.size() < total) return DescribeCircle(*program, places, next);
  return Status();
}

void MakeMessages(Places* places, Program* program) {
  for (ActionPlace place : program->global_order) {
    Instruction& instruction = program->instructions[place.rank][place.index];
    ActionPlace source = InputOf(*program, places, instruction.action);
    if (source.rank < 0) continue;
    Instruction& writer = program->instructions[source.rank][source.index];
    Message message;
    message.from_stage = writer.action.stage;
    message.to_stage = instruction.action.stage;
    message.microbatch = instruction.action.microbatch;
    message.from_rank = source.rank;
    message.from_index = source.index;
    message.to_rank = place.rank;
    message.to_index = place.index;
    instruction.input = writer.output = static_cast<int32_t>(program->messages.size());
    program->messages.push_back(message);
  }
}

// Which actions of two consecutive iterations the plan orders before which, by vector clocks:
// Seen(iteration, place) [r] is the number of actions of rank r (counted over both iterations) that
// are done when the action starts.
class HappensBefore {
 public:
  explicit HappensBefore(const Program& program) : program_(program), offsets_(program.ranks) {
    size_t total = 0;
    for (int32_t rank = 0; rank < program.ranks; ++rank) {
      offsets_[rank] = total;
      total += program.instructions[rank].size();
    }
    iteration_size_ = total * program.ranks;
    seen_.assign(2 * iteration_size_, 0);
    for (int32_t iteration = 0; iteration < 2; ++iteration) {
      for (ActionPlace place : program.global_order) Visit(iteration, place);
    }
  }

  // Whether `before` (of iteration a) ends before `after` (of iteration b) starts, whatever the
  // timing.
  bool Ordered(int32_t a, ActionPlace before, int32_t b, ActionPlace after) const {
    return Row(b, after)[before.rank] > Index(a, before);
  }

 private:
  int32_t Index(int32_t iteration, ActionPlace place) const {
    return iteration * static_cast<int32_t>(program_.instructions[place.rank].size()) + place.index;
  }
  const int32_t* Row(int32_t iteration, ActionPlace place) const {
    return &seen_[iteration * iteration_size_ +
                  (offsets_[place.rank] + place.index) * program_.ranks];
  }
  void Visit(int32_t iteration, ActionPlace place) {
    int32_t* row = const_cast<int32_t*>(Row(iteration, place));
    auto join = [&](int32_t of_iteration, ActionPlace other) {
      const int32_t* from = Row(of_iteration, other);
      for (int32_t r = 0; r < program_.ranks; ++r) row[r] = std::max(row[r], from[r]);
      row[other.rank] = std::max(row[other.rank], Index(of_iteration, other) + 1);
    };
    const auto& instructions = program_.instructions[place.rank];
    if (place.index > 0) {
      join(iteration, {place.rank, place.index - 1});
    } else if (iteration > 0) {
      join(iteration - 1, {place.rank, static_cast<int32_t>(instructions.size()) - 1});
    }
    const int32_t input = instructions[place.index].input;
    if (input != kNoMessage)
      join(iteration, {program_.messages[input].from_rank, program_.messages[input].from_index});
  }

  const Program& program_;
  std::vector<size_t> offsets_;
  size_t iteration_size_ = 0;
  std::vector<int32_t> seen_;
};

ActionPlace WriterOf(const Message& message) { return {message.from_rank, message.from_index}; }
ActionPlace ReaderOf(const Message& message) { return {message.to_rank, message.to_index}; }

// Each message takes the first slot of its boundary whose last reader is ordered before its writer.
// Writers of one boundary stand on one rank, so a slot that is free stays free, and taking the
// first is as good as any.
void AssignSlots(const HappensBefore& order, const std::vector<size_t>& boundary_bytes,
                 Program* program) {
  struct Open {
    int32_t slot;
    int32_t last_message;
    int32_t first_message;
  };
  std::vector<std::vector<Open>> forward(program->stages), backward(program->stages);
  for (ActionPlace place : program->global_order) {
    const int32_t id = program->instructions[place.rank][place.index].output;
    if (id == kNoMessage) continue;
    Message& message = program->messages[id];
    auto& open = message.to_stage > message.from_stage ? forward[message.from_stage]
                                                       : backward[message.from_stage];
    auto free = std::find_if(open.begin(), open.end(), [&](const Open& candidate) {
      return order.Ordered(0, ReaderOf(program->messages[candidate.last_message]), 0, place);
    });
    if (free == open.end()) {
      Slot slot;
      slot.from_rank = message.from_rank;
      slot.to_rank = message.to_rank;
      slot.bytes = boundary_bytes[std::min(message.from_stage, message.to_stage)];
      open.push_back({static_cast<int32_t>(program->slots.size()), id, id});
      program->slots.push_back(slot);
      free = open.end() - 1;
    }
    free->last_message = id;
    message.slot = free->slot;
    message.use = program->slots[free->slot].uses++;
  }
  for (const auto& boundaries : {forward, backward}) {
    for (const auto& open : boundaries) {
      for (const Open& slot : open) {
        const ActionPlace reader = ReaderOf(program->messages[slot.last_message]);
        const ActionPlace writer = WriterOf(program->messages[slot.first_message]);
        if (reader.rank != writer.rank && !order.Ordered(0, reader, 1, writer)) {
          program->instructions[writer.rank][writer.index].marks_wait = true;
        }
      }
    }
  }
}

void MarkWaits(const HappensBefore& order, Program* program) {
  for (const Message& message : program->messages) {
    if (message.from_rank == message.to_rank) continue;
    const auto& instructions = program->instructions[message.to_rank];
    // The action before the reader, in the second of two iterations.
    const bool first = message.to_index == 0;
    const int32_t last = static_cast<int32_t>(instructions.size()) - 1;
    const ActionPlace before{message.to_rank, first ? last : message.to_index - 1};
    if (!order.Ordered(1, WriterOf(message), first ? 0 : 1, before)) {
      program->instructions[message.to_rank][message.to_index].marks_wait = true;
    }
  }
}

}  // namespace

uint32_t Program::WaitsOf(int32_t rank) const {
  return static_cast<uint32_t>(std::count_if(instructions[rank].begin(), instructions[rank].end(),
                                             [](const Instruction& i) { return i.marks_wait; }));
}

uint64_t Program::Fingerprint() const {
  std::vector<int64_t> words = {ranks, stages, microbatches};
  for (const auto& list : instructions) {
    words.push_back(static_cast<int64_t>(list.size()));
    for (const Instruction& i : list) {
      words.insert(words.end(),
                   {static_cast<int64_t>(i.action.type), i.action.stage, i.action.microbatch});
    }
  }
  for (const Slot& slot : slots)
    words.insert(words.end(), {slot.from_rank, slot.to_rank, static_cast<int64_t>(slot.bytes)});
  return Checksum64(words.data(), words.size() * sizeof(int64_t));
}

Result<Program> Compile(const Plan& plan, const std::vector<size_t>& boundary_bytes) {
  PILLION_RETURN_IF_ERROR(pipeline::ValidateShape(plan));
  PILLION_RETURN_IF_ERROR(RefuseUnsupported(plan));
  if (boundary_bytes.size() + 1 != plan.stages.size()) {
    return InvalidArgument(std::to_string(boundary_bytes.size()) +
                           " boundary sizes were given for " + std::to_string(plan.stages.size()) +
                           " stages; one per stage but the last is needed");
  }
  Program program;
  program.ranks = plan.devices;
  program.stages = static_cast<int32_t>(plan.stages.size());
  program.microbatches = plan.microbatches;
  program.instructions.resize(plan.devices);
  for (int32_t rank = 0; rank < plan.devices; ++rank) {
    for (const Action& action : plan.order[rank]) {
      if (pipeline::IsCompute(action.type)) program.instructions[rank].push_back({action});
    }
  }
  Places places(program);
  PILLION_RETURN_IF_ERROR(FindPlaces(program, &places));
  PILLION_RETURN_IF_ERROR(FindGlobalOrder(&places, &program));
  MakeMessages(&places, &program);
  HappensBefore order(program);
  AssignSlots(order, boundary_bytes, &program);
  MarkWaits(order, &program);
  return program;
}

std::vector<uint32_t> SteadyWaitsUs(const Program& program, int32_t rank,
                                    const DurationUs& duration_us) {
  // The second iteration already has the rhythm's gaps at its start; the third is kept for slow
  // starters.
  constexpr int kIterations = 3;
  std::vector<double> free_at(program.ranks, 0);
  std::vector<double> arrival(program.messages.size(), 0);
  std::vector<uint32_t> waits;
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    waits.clear();
    for (ActionPlace place : program.global_order) {
      const Instruction& instruction = program.instructions[place.rank][place.index];
      double start = free_at[place.rank];
      if (instruction.input != kNoMessage) start = std::max(start, arrival[instruction.input]);
      if (place.rank == rank && instruction.marks_wait) {
        waits.push_back(static_cast<uint32_t>(std::llround(start - free_at[place.rank])));
      }
      free_at[place.rank] = start + duration_us(place.rank, instruction.action);
      if (instruction.output != kNoMessage) arrival[instruction.output] = free_at[place.rank];
    }
  }
  return waits;
}

}  // namespace pillion::executor
