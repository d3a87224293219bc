if(PILLION_HAVE_TORCH)
  pillion_test(trainer_test SOURCES torch/trainer_test.cc
    LINK pillion_board nlohmann_json::nlohmann_json DEPENDS pillion-trainer)
  pillion_test(train_cnn_test
    SOURCES torch/train_cnn_test.cc torch/train_cnn_host_test.cc sidetasks/harness.cc host_process/host_under_test.cc
    LINK pillion_sidetasks_torch pillion_side_task_api pillion_host_protocol pillion_turns pillion_checkpoints
    DEPENDS pillion-host libpillion_programs_torch)
endif()
