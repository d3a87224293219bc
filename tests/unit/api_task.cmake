pillion_test(api_task_test SOURCES api_task/arguments_test.cc api_task/registry_test.cc
  LINK pillion_side_task_api)
