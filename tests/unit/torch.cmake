if(PILLION_HAVE_TORCH)
  pillion_test(trainer_test SOURCES torch/trainer_test.cc
    LINK pillion_board nlohmann_json::nlohmann_json DEPENDS pillion-trainer)
endif()
