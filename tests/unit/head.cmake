pillion_test(head_test
  SOURCES head/bytes_test.cc head/queue_test.cc head/reactor_test.cc head/recovery_test.cc
  LINK pillion_head_core)
