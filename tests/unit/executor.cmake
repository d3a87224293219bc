pillion_test(executor_test
  SOURCES executor/chain.cc executor/program_test.cc executor/executor_test.cc executor/processes_test.cc
  LINK pillion_executor pillion_board)
