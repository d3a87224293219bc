pillion_test(demo_test SOURCES demo/figures_test.cc demo/workload_test.cc LINK pillion_demo_parts pillion_board)
