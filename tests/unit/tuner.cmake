pillion_test(tuner_test
  SOURCES tuner/decoder_test.cc tuner/bounds_test.cc tuner/tune_test.cc tuner/exact.cc
  LINK pillion_tuner)
