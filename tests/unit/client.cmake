pillion_test(client_test SOURCES api/serialize_test.cc LINK pillion_side_task_api)
