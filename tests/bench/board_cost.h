// `pillion-bench board`: nanoseconds that each call of the trainer's C ABI costs, without anybody waiting on the
// edge and with one waiter on another core.
#ifndef PILLION_TESTS_BENCH_BOARD_COST_H_
#define PILLION_TESTS_BENCH_BOARD_COST_H_

namespace pillion::bench {

int RunBoardCost(bool json);  // an exit code

}  // namespace pillion::bench

#endif  // PILLION_TESTS_BENCH_BOARD_COST_H_
