pillion_binary(bench-tune
  SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/bench_tune.cc ${PROJECT_SOURCE_DIR}/tests/unit/tuner/exact.cc
  LINK pillion_tuner nlohmann_json::nlohmann_json)
