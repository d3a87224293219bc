pillion_test(base_test SOURCES base/base_test.cc base/layout_test.cc LINK pillion_base)
