if(PILLION_HAVE_TORCH)
  pillion_test(trainer_test SOURCES torch/trainer_test.cc
    LINK pillion_board nlohmann_json::nlohmann_json DEPENDS pillion-trainer)
  pillion_test(train_cnn_test SOURCES torch/train_cnn_test.cc sidetasks/harness.cc
    LINK pillion_sidetasks_torch pillion_side_task_api)
endif()
