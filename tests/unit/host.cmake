pillion_test(host_test SOURCES host/host_test.cc LINK pillion_turns pillion_host_protocol DEPENDS pillion-host SERIAL)
