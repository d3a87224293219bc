/* The trainer's side of Pillion: a C ABI without dependencies, loadable from Python.
 *
 * A trainer opens the board of its device once, says where each iteration starts, and marks its bubbles. Marking
 * costs about a microsecond, never blocks and never fails the trainer: without a worker, or with a NULL board,
 * every call does nothing. One thread per board.
 *
 *   pillion_board_options options = PILLION_BOARD_OPTIONS_INIT;
 *   options.device = "cpu0"; options.run_id = 42; options.rank = 0; options.ranks = 2;
 *   pillion_board* board = pillion_board_open(&options);
 *   for each iteration:
 *     pillion_iteration(board, stream, slots);         slots: bubbles that this iteration will mark
 *     ... pillion_bubble_begin(board, stream); wait for input; pillion_bubble_end(board, stream); ...
 *
 * A slot is the k-th marked interval of an iteration; mark it always, even when its length turns out to be 0, so
 * that slot numbers never shift. While a bubble is open the trainer's device context must have nothing runnable:
 * wait on the host before launching, or park the stream on a stream memory operation.
 */
#ifndef PILLION_TRAINER_H_
#define PILLION_TRAINER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PILLION_TRAINER_ABI_VERSION 1

typedef struct pillion_board pillion_board;

typedef struct pillion_board_options {
  uint32_t struct_size; /* sizeof(pillion_board_options) */
  int32_t rank;         /* of this pipeline stage's device */
  const char* device;   /* "cpu0", "cuda1", or a GPU's UUID */
  uint64_t run_id;      /* the same on all ranks of a run; decides which iterations are quiet */
  int32_t ranks;
  uint32_t reserved;
} pillion_board_options;
#define PILLION_BOARD_OPTIONS_INIT {sizeof(pillion_board_options), 0, 0, 0, 1, 0}

/* NULL when the board cannot be used: no such device, another live trainer holds it, no shared memory.
 * pillion_board_error() then says why (a static thread-local text). The trainer goes on without a board. */
pillion_board* pillion_board_open(const pillion_board_options* options);
const char* pillion_board_error(void);
void pillion_board_close(pillion_board* board);

/* `stream` is the CUstream that the device work is enqueued on (NULL on cpu devices, and for the legacy default
 * stream): edges take effect in stream order, so the host may run ahead. */
void pillion_iteration(pillion_board* board, void* stream, uint32_t slots);
void pillion_bubble_begin(pillion_board* board, void* stream);
void pillion_bubble_end(pillion_board* board, void* stream);

/* Seeds the forecast from a plan: expected length of each slot of an iteration, µs. */
void pillion_expect(pillion_board* board, const uint32_t* lengths_us, uint32_t slots);
/* Device memory that the trainer will still allocate beyond what it holds now. */
void pillion_claim_memory(pillion_board* board, uint64_t bytes);

/* 1 when the iteration that was started last is one in which no side task runs (the always-on A/B). */
int pillion_iteration_is_quiet(const pillion_board* board);
uint32_t pillion_trainer_abi_version(void);

#ifdef __cplusplus
}
#endif

#endif /* PILLION_TRAINER_H_ */
