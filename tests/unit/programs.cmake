pillion_test(programs_test SOURCES programs/programs_test.cc LINK nlohmann_json::nlohmann_json
  DEPENDS pillion-metronome pillion-bench)
