/* The trainer's header is C: this file compiles it as such. */
#include "pillion/trainer.h"

uint32_t HeaderIsC(void);
uint32_t HeaderIsC(void) {
  pillion_board_options options = PILLION_BOARD_OPTIONS_INIT;
  return options.struct_size;
}
