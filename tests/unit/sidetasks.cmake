pillion_test(sidetasks_test
  SOURCES sidetasks/harness.cc sidetasks/checksum_test.cc sidetasks/pagerank_test.cc
    sidetasks/image_test.cc
  LINK pillion_sidetasks)
