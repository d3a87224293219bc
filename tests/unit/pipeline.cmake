pillion_test(pipeline_test
  SOURCES pipeline/schedules_test.cc pipeline/simulate_test.cc pipeline/check_test.cc pipeline/formats_test.cc
  LINK pillion_pipeline)
