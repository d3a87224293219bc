// Starts the ranks of a run as processes and gathers what they print.
#ifndef PILLION_EXAMPLES_TRAINER_LAUNCH_H_
#define PILLION_EXAMPLES_TRAINER_LAUNCH_H_

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace pillion::trainer {

// Starts this program once per rank with `arguments` and "--rank R" behind them, and calls
// `on_line(rank, line)` for every line that a rank prints to stdout; stderr stays shared. Returns
// when all have ended: the first of them that failed names itself in the error. The processes die
// with this one; ranks that are left a grace time after the first failure are killed.
Status LaunchRanks(int32_t ranks, const std::vector<std::string>& arguments,
                   const std::function<void(int32_t, const std::string&)>& on_line);

}  // namespace pillion::trainer

#endif  // PILLION_EXAMPLES_TRAINER_LAUNCH_H_
