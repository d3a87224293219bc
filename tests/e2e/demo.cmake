pillion_test(demo_e2e_test
  SOURCES demo_test.cc
  LINK pillion_demo_parts pillion_head_process nlohmann_json::nlohmann_json
  LABEL e2e TIMEOUT 300 SERIAL
  DEPENDS pillion pillion-demo)
