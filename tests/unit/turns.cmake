pillion_test(turns_test SOURCES turns/books_test.cc turns/slowdown_test.cc turns/residents_test.cc turns/engine_test.cc
  LINK pillion_turns pillion_trainer DEPENDS pillion_trainer SERIAL)
