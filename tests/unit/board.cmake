pillion_test(board_test SOURCES board/board_test.cc board/trainer_test.cc board/header_is_c.c
  LINK pillion_board pillion_trainer DEPENDS pillion_trainer)
