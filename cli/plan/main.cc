// pillion-plan: the planner on the command line.
#include <CLI/CLI.hpp>
#include <string_view>

#include "cli/plan/commands.h"

int main(int argc, char** argv) {
  bool json = false;
  // Known before parsing, so that its errors are JSON too.
  for (int i = 1; i < argc; ++i) json = json || std::string_view(argv[i]) == "--json";
  pillion::plan::Run run;
  CLI::App app("Pillion's pipeline planner", "pillion-plan");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", json, "print one JSON value");
  app.footer("Examples:\n"
             "  pillion-plan tune --profile layers.json --devices 4 --microbatches 8 --json\n"
             "  pillion-plan check schedule.csv\n"
             "Exit codes: 0 done, 1 the plan fails (hangs, lacks work, exceeds a cap), 2 wrong input.");
  pillion::plan::AddTuneCommand(&app, &json, &run);
  pillion::plan::AddReplayCommands(&app, &json, &run);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return pillion::plan::FailUsage(
        json, pillion::InvalidArgument(std::string(error.what()) + " (pillion-plan --help)"));
  }
  return run ? run() : 2;
}
