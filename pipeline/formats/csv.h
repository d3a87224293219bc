// PyTorch's pipeline schedule CSV (torch.distributed.pipelining), in and out. One row per device,
// no header, one action, overlap block or empty (idle) cell per column:
//
//   0F0,1F0,,(0F7;1B3)OVERLAP_F_B,2SEND_F1,4UNSHARD
//
// The old dialect (2024) writes the input gradient as B and the full backward as BW.
#ifndef PILLION_PIPELINE_FORMATS_CSV_H_
#define PILLION_PIPELINE_FORMATS_CSV_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "pipeline/plan.h"

namespace pillion::pipeline {

enum class CsvDialect : uint8_t { kCurrent, kOld };

struct CsvSchedule {
  // One layer per stage (the table knows none), one copy of the weights, placement from the rows.
  Plan plan;
  CsvDialect dialect = CsvDialect::kCurrent;  // as found
};

// The dialect is old when BW occurs, or B and W of the same stage and micro-batch. Errors name row
// and column (counted from 1) and the token. Whether the schedule completes is Check's answer.
Result<CsvSchedule> ParseScheduleCsv(std::string_view text);

// Exactly what ParseScheduleCsv read, up to spaces, quoting and line ends. kUnsupported for what
// the format cannot say: two copies of the weights, split stages.
Result<std::string> FormatScheduleCsv(const Plan& plan, CsvDialect dialect = CsvDialect::kCurrent);

// Makes B of every W that directly follows its I, which runtimes execute faster than the two. The
// stage before then waits for W too: replay before taking it.
Plan MergeAdjacentBackwards(const Plan& plan);

// The cells of one device's order in the current dialect, and back: one cell appends one action, or
// several for a block. Used by the JSON plan too.
std::vector<std::string> FormatCells(const std::vector<Action>& order);
Status ParseCell(std::string_view cell, std::vector<Action>* order);

}  // namespace pillion::pipeline

#endif  // PILLION_PIPELINE_FORMATS_CSV_H_
