pillion_test(base_test SOURCES base/base_test.cc base/layout_test.cc base/service_notify_test.cc LINK pillion_base)
