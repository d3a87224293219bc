pillion_test(cli_test SOURCES cli/cli_test.cc cli/graph_file_test.cc
  LINK pillion_cli pillion_fake_head DEPENDS pillion)
