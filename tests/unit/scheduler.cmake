pillion_test(scheduler_test
  SOURCES scheduler/placement_test.cc scheduler/policy_test.cc
  LINK pillion_scheduler)
