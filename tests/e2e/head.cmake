add_library(pillion_head_process STATIC head_process.cc)
target_link_libraries(pillion_head_process PUBLIC pillion_flags pillion_wire)
target_include_directories(pillion_head_process PUBLIC ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(pillion_head_process PRIVATE PILLION_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
pillion_test(head_e2e_test
  SOURCES head_server_test.cc head_crash_test.cc
  LINK pillion_head_process pillion_head_effects
  LABEL e2e TIMEOUT 300 DEPENDS pillion-head)
