# A head for tests that need one without a store and workers.
pillion_library(pillion_fake_head SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/api/fake_head.cc LINK pillion_client)
pillion_test(client_test SOURCES api/client_test.cc api/serialize_test.cc LINK pillion_fake_head)
