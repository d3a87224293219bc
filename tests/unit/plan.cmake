pillion_test(plan_cli_test SOURCES plan/plan_cli_test.cc LINK nlohmann_json::nlohmann_json DEPENDS pillion-plan)
