pillion_test(store_test
  SOURCES store/checkpoint_store_test.cc store/record_store_test.cc store/store_damage_test.cc store/store_kill_test.cc
    store/full_disk_test.cc
  LINK pillion_store)
