pillion_test(wire_test
  SOURCES wire/codec_test.cc wire/keys_test.cc wire/transport_test.cc wire/hostile_peers_test.cc
  LINK pillion_wire pillion_dep_zmq)
