pillion_fuzzer(wire_fuzz wire_fuzz.cc wire pillion_wire_codec)
