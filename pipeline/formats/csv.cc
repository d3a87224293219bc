#include "pipeline/formats/csv.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/limits.h"

namespace pillion::pipeline {
namespace {

constexpr std::string_view kBlockEnd = ")OVERLAP_F_B";

// BW exists in the old dialect only and stands for kBackward; `is_old_backward` remembers it.
struct Token {
  Action action;
  bool is_old_backward = false;
};

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

bool ParseNumber(std::string_view text, int32_t below, int32_t* value) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value < below;
}

// STAGE TYPE [MB], all of the text.
Status ParseAction(std::string_view text, Token* token) {
  const std::string name = "'" + std::string(text.substr(0, 64)) + "'";
  const size_t type_begin = std::min(text.find_first_not_of("0123456789"), text.size());
  const size_t type_end = std::min(
      text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", type_begin), text.size());
  const std::string_view type = text.substr(type_begin, type_end - type_begin);
  const std::string_view microbatch = text.substr(type_end);
  if (!ParseNumber(text.substr(0, type_begin), limits::kPlanStages, &token->action.stage)) {
    return InvalidArgument(name + " does not begin with a stage from 0 to " +
                           std::to_string(limits::kPlanStages - 1));
  }
  bool known = type == "BW";
  token->is_old_backward = known;
  if (known) token->action.type = ActionType::kBackward;
  for (int t = 0; !known && t < static_cast<int>(ActionType::kIdle); ++t) {
    if (type != ActionTypeName(static_cast<ActionType>(t))) continue;
    token->action.type = static_cast<ActionType>(t);
    known = true;
  }
  if (!known) {
    return InvalidArgument(name + " has no known action; F, I, W, B, SEND_F, RECV_F, SEND_B, "
                           "RECV_B, UNSHARD, RESHARD and REDUCE_GRAD are known");
  }
  if (!IsCompute(token->action.type) && !IsTransfer(token->action.type)) {
    if (microbatch.empty()) return Status();
    return InvalidArgument(name + ": " + std::string(type) + " takes no micro-batch");
  }
  if (!ParseNumber(microbatch, limits::kPlanMicrobatches, &token->action.microbatch)) {
    return InvalidArgument(name + " does not end with a micro-batch from 0 to " +
                           std::to_string(limits::kPlanMicrobatches - 1));
  }
  return Status();
}

Status ParseTokens(std::string_view cell, std::vector<Token>* tokens) {
  cell = Trim(cell);
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"') {
    cell = Trim(cell.substr(1, cell.size() - 2));
  }
  if (cell.empty()) {
    tokens->push_back(Token());
    return Status();
  }
  if (cell.front() != '(') {
    Token token;
    PILLION_RETURN_IF_ERROR(ParseAction(cell, &token));
    tokens->push_back(token);
    return Status();
  }
  const std::string name = "'" + std::string(cell.substr(0, 64)) + "'";
  if (cell.size() <= kBlockEnd.size() || cell.substr(cell.size() - kBlockEnd.size()) != kBlockEnd) {
    return InvalidArgument(name + " is no overlap block: (action;action)OVERLAP_F_B");
  }
  std::string_view members = cell.substr(1, cell.size() - kBlockEnd.size() - 1);
  size_t count = 0;
  for (bool more = true; more; ++count) {
    const size_t end = members.find(';');
    more = end != std::string_view::npos;
    Token token;
    PILLION_RETURN_IF_ERROR(ParseAction(Trim(members.substr(0, end)), &token)
                                .WithContext("in block " + name));
    if (!IsCompute(token.action.type)) {
      return InvalidArgument(name + " overlaps something else than F, I, W and B");
    }
    token.action.joins_previous = count > 0;
    tokens->push_back(token);
    if (more) members.remove_prefix(end + 1);
  }
  if (count < 2) return InvalidArgument(name + " has one action; a block needs two or more");
  return Status();
}

class TableReader {
 public:
  Result<CsvSchedule> Read(std::string_view text) {
    if (text.size() > limits::kPlanFileBytes) {
      return ResourceExhausted("the table has " + std::to_string(text.size()) + " bytes; at most " +
                               std::to_string(limits::kPlanFileBytes) + " are read");
    }
    while (!text.empty()) {
      const size_t end = text.find('\n');
      PILLION_RETURN_IF_ERROR(ReadRow(text.substr(0, end)));
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    }
    PILLION_RETURN_IF_ERROR(Place());
    CsvSchedule schedule;
    schedule.dialect = IsOld() ? CsvDialect::kOld : CsvDialect::kCurrent;
    for (const auto& row : rows_) {
      auto& order = plan_.order.emplace_back();
      for (const Token& token : row) {
        order.push_back(token.action);
        const bool is_input_gradient = schedule.dialect == CsvDialect::kOld &&
                                       token.action.type == ActionType::kBackward &&
                                       !token.is_old_backward;
        if (is_input_gradient) order.back().type = ActionType::kInputGradient;
      }
    }
    schedule.plan = std::move(plan_);
    PILLION_RETURN_IF_ERROR(ValidateShape(schedule.plan));
    return schedule;
  }

 private:
  Status ReadRow(std::string_view line) {
    const size_t row = rows_.size();
    rows_.emplace_back();
    if (Trim(line).empty()) return Status();  // a device without work
    size_t column = 0;
    for (bool more = true; more; ++column) {
      const size_t end = line.find(',');
      more = end != std::string_view::npos;
      const size_t before = rows_[row].size();
      const std::string where =
          "row " + std::to_string(row + 1) + ", column " + std::to_string(column + 1);
      PILLION_RETURN_IF_ERROR(ParseTokens(line.substr(0, end), &rows_[row]).WithContext(where));
      for (size_t i = before; i < rows_[row].size(); ++i) {
        PILLION_RETURN_IF_ERROR(Meet(rows_[row][i].action, row).WithContext(where));
      }
      if (more) line.remove_prefix(end + 1);
    }
    return Status();
  }

  // Keeps counts and the stage's row.
  Status Meet(const Action& action, size_t row) {
    if (action.type == ActionType::kIdle) return Status();
    plan_.microbatches = std::max(plan_.microbatches, action.microbatch + 1);
    const size_t stage = static_cast<size_t>(action.stage);
    if (row_of_stage_.size() <= stage) row_of_stage_.resize(stage + 1, -1);
    if (row_of_stage_[stage] < 0) row_of_stage_[stage] = static_cast<int32_t>(row);
    if (row_of_stage_[stage] == static_cast<int32_t>(row)) return Status();
    return InvalidArgument("'" + ActionName(action) + "': stage " + std::to_string(action.stage) +
                           " is in row " + std::to_string(row_of_stage_[stage] + 1) + " already");
  }

  Status Place() {
    plan_.devices = static_cast<int32_t>(rows_.size());
    if (row_of_stage_.empty()) return InvalidArgument("the table has no actions");
    for (size_t s = 0; s < row_of_stage_.size(); ++s) {
      if (row_of_stage_[s] < 0) {
        return InvalidArgument("stage " + std::to_string(s) + " is in no row, but stage " +
                               std::to_string(row_of_stage_.size() - 1) + " is");
      }
      Stage stage;
      stage.first_layer = static_cast<int32_t>(s);
      stage.end_layer = stage.first_layer + 1;
      stage.device = row_of_stage_[s];
      plan_.stages.push_back(stage);
    }
    return Status();
  }

  bool IsOld() const {
    std::unordered_map<uint64_t, uint8_t> met;  // bit 0: B, bit 1: W
    for (const auto& row : rows_) {
      for (const Token& token : row) {
        if (token.is_old_backward) return true;
        const uint8_t bit = token.action.type == ActionType::kBackward         ? 1
                            : token.action.type == ActionType::kWeightGradient ? 2
                                                                               : 0;
        if (bit == 0) continue;
        const uint64_t key = (static_cast<uint64_t>(token.action.stage) << 32) |
                             static_cast<uint32_t>(token.action.microbatch);
        if ((met[key] |= bit) == 3) return true;
      }
    }
    return false;
  }

  std::vector<std::vector<Token>> rows_;
  std::vector<int32_t> row_of_stage_;
  Plan plan_;
};

std::string FormatAction(const Action& action, CsvDialect dialect) {
  if (action.type == ActionType::kIdle) return "";
  if (dialect == CsvDialect::kCurrent) return ActionName(action);
  if (action.type == ActionType::kBackward) {
    return std::to_string(action.stage) + "BW" + std::to_string(action.microbatch);
  }
  Action old = action;
  if (old.type == ActionType::kInputGradient) old.type = ActionType::kBackward;
  return ActionName(old);
}

std::vector<std::string> CellsOf(const std::vector<Action>& order, CsvDialect dialect) {
  std::vector<std::string> cells;
  for (size_t i = 0; i < order.size();) {
    size_t end = i + 1;
    while (end < order.size() && order[end].joins_previous) ++end;
    std::string cell = FormatAction(order[i], dialect);
    for (size_t j = i + 1; j < end; ++j) cell += ";" + FormatAction(order[j], dialect);
    if (end - i > 1) cell = "(" + cell + std::string(kBlockEnd);
    cells.push_back(std::move(cell));
    i = end;
  }
  return cells;
}

}  // namespace

Result<CsvSchedule> ParseScheduleCsv(std::string_view text) { return TableReader().Read(text); }

Result<std::string> FormatScheduleCsv(const Plan& plan, CsvDialect dialect) {
  PILLION_RETURN_IF_ERROR(ValidateShape(plan));
  if (plan.copies != 1) return Unsupported("a schedule table cannot say two copies of the weights");
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    if (plan.stages[s].shard_devices.size() > 1) {
      return Unsupported("a schedule table cannot split stage " + std::to_string(s) +
                         " over devices");
    }
  }
  std::string text;
  for (const auto& order : plan.order) {
    bool first = true;
    for (const std::string& cell : CellsOf(order, dialect)) {
      if (!first) text += ',';
      text += cell;
      first = false;
    }
    text += '\n';
  }
  return text;
}

Plan MergeAdjacentBackwards(const Plan& plan) {
  Plan merged = plan;
  for (auto& order : merged.order) {
    std::vector<Action> kept;
    for (size_t i = 0; i < order.size(); ++i) {
      const bool in_block = order[i].joins_previous ||
                            (i + 1 < order.size() && order[i + 1].joins_previous);
      const bool completes = !in_block && order[i].type == ActionType::kWeightGradient &&
                             !kept.empty() && kept.back().type == ActionType::kInputGradient &&
                             !kept.back().joins_previous &&
                             kept.back().stage == order[i].stage &&
                             kept.back().microbatch == order[i].microbatch;
      if (completes) {
        kept.back().type = ActionType::kBackward;
      } else {
        kept.push_back(order[i]);
      }
    }
    order = std::move(kept);
  }
  return merged;
}

std::vector<std::string> FormatCells(const std::vector<Action>& order) {
  return CellsOf(order, CsvDialect::kCurrent);
}

Status ParseCell(std::string_view cell, std::vector<Action>* order) {
  std::vector<Token> tokens;
  PILLION_RETURN_IF_ERROR(ParseTokens(cell, &tokens));
  for (const Token& token : tokens) {
    if (token.is_old_backward) {
      return InvalidArgument("'" + std::string(cell) + "': BW is B here");
    }
    order->push_back(token.action);
  }
  return Status();
}

}  // namespace pillion::pipeline
