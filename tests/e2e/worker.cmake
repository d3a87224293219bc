add_library(pillion_worker_test_programs MODULE worker_programs.cc)
target_link_libraries(pillion_worker_test_programs PRIVATE pillion_flags)
pillion_test(worker_e2e_test
  SOURCES worker_fixture.cc worker_test.cc worker_kill_test.cc worker_calls_test.cc
  LINK pillion_head_process pillion_client nlohmann_json::nlohmann_json
  LABEL e2e TIMEOUT 180 SERIAL
  DEPENDS pillion-head pillion-worker pillion-host pillion-metronome pillion_worker_test_programs)
