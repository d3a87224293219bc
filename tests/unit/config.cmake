pillion_test(config_test SOURCES api/settings_test.cc LINK pillion_config)
