// pillion: the command for submitters and operators.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstring>

#include "cli/commands.h"

namespace {

// CLI11's own texts, in the form that every error of ours has.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error, const pillion::cli::Context& context) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help
  const std::string message = std::string(error.what()) + " (pillion --help)";
  return FailUsage(context, pillion::InvalidArgument(message));
}

bool Mentions(int argc, char** argv, const char* word) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], word) == 0) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace pillion::cli;  // NOLINT: this is its main
  signal(SIGPIPE, SIG_IGN);
  if (argc > 1) {
    for (const ForeignVerb& verb : ForeignVerbs()) {
      if (std::strcmp(argv[1], verb.verb) == 0) return ExecForeign(verb, argc, argv);
    }
  }
  Context context;
  context.json = Mentions(argc, argv, "--json");  // known before parsing, so that its errors are JSON too
  Run run;
  CLI::App app("Pillion: side tasks for the bubbles of pipeline-parallel training", "pillion");
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", context.json, "print one JSON value");
  app.add_option("--timeout", context.timeout_s, "seconds to wait for the head's answer")
      ->check(CLI::Range(0.001, 1e6))
      ->capture_default_str();
  app.add_option("--runtime-dir", context.runtime_directory, "where the head published its endpoint and keys")
      ->envname("PILLION_RUNTIME_DIR");
  app.add_option("--key", context.key_file, "key file to use instead of the one in the runtime directory");
  app.footer(
      "Examples:\n"
      "  pillion submit pagerank max_steps=50 --wait\n"
      "  pillion list tasks\n"
      "  pillion explain 0123456789abcdef0123456789abcdef.0\n"
      "Exit codes: 0 done, 1 the operation failed, 2 usage or configuration, 3 head unreachable, 4 refused,\n"
      "5 timed out, 130 interrupted.");
  AddSubmitCommands(&app, &context, &run);
  AddAskCommands(&app, &context, &run);
  AddSteerCommands(&app, &context, &run);
  AddLocalCommands(&app, &context, &run);
  for (const ForeignVerb& verb : ForeignVerbs()) app.add_subcommand(verb.verb, verb.help)->prefix_command();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error, context);
  }
  return run ? run() : static_cast<int>(kUsage);
}
