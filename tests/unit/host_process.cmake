# A program library as a user writes one: it links nothing of Pillion's and finds everything in pillion-host.
add_library(pillion_test_programs MODULE host_process/test_programs.cc)
target_link_libraries(pillion_test_programs PRIVATE pillion_flags)
pillion_test(host_process_test SOURCES host_process/host_process_test.cc host_process/host_under_test.cc
  LINK pillion_host_protocol pillion_turns pillion_checkpoints pillion_side_task_api
  DEPENDS pillion-host pillion_test_programs)
