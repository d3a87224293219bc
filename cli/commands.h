// The commands of `pillion`. Each function declares some and, when one of them was chosen, sets what to run.
#ifndef PILLION_CLI_COMMANDS_H_
#define PILLION_CLI_COMMANDS_H_

#include <functional>
#include <string>
#include <vector>

#include "cli/context.h"

namespace CLI {
class App;
}

namespace pillion::cli {

// The chosen command; returns the exit code.
using Run = std::function<int()>;

void AddSubmitCommands(CLI::App* app, const Context* context, Run* run);   // submit, wait
void AddAskCommands(CLI::App* app, const Context* context, Run* run);      // status, list, get, explain
void AddSteerCommands(CLI::App* app, const Context* context, Run* run);    // cancel, migrate, drain, announce
void AddLocalCommands(CLI::App* app, const Context* context, Run* run);    // keygen, version, completion

// Verbs that are programs of their own beside this one: {verb, program, arguments that come first, help}.
struct ForeignVerb {
  const char* verb;
  const char* program;
  bool pass_verb;  // as the program's first argument
  const char* help;
};
const std::vector<ForeignVerb>& ForeignVerbs();
// Replaces this process; returns (with an exit code) only when that fails.
int ExecForeign(const ForeignVerb& verb, int argc, char** argv);

}  // namespace pillion::cli

#endif  // PILLION_CLI_COMMANDS_H_
