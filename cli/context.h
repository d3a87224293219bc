// What every command of `pillion` shares: global options, the way to the head, and how results and errors are told.
// Results go to stdout, messages to stderr; with --json one value goes to stdout, {"error":{…}} when it failed.
#ifndef PILLION_CLI_CONTEXT_H_
#define PILLION_CLI_CONTEXT_H_

#include <nlohmann/json.hpp>
#include <string>

#include "api/wire/messages.h"
#include "base/status.h"
#include "pillion/client.h"

namespace pillion::cli {

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2, kUnreachable = 3, kRefused = 4, kTimedOut = 5, kInterrupted = 130 };

struct Context {
  bool json = false;
  double timeout_s = 5;
  std::string runtime_directory;  // empty: the default
  std::string key_file;           // empty: the role's in the runtime directory

  Result<Client> Connect(wire::Role role = wire::Role::kClient) const;
};

// Prints the error and returns the exit code for it. `reached`: a connection to the head exists, so kUnavailable is
// the head's answer and not the head's absence.
int Fail(const Context& context, const Status& status, bool reached);
// An error in what the user gave: exit code 2.
int FailUsage(const Context& context, const Status& status);
void PrintJson(const nlohmann::json& value);

// Colour of a state's name on a terminal; plain text otherwise and with NO_COLOR.
std::string Coloured(wire::TaskState state);
bool StderrIsTerminal();

// "1.5 s", "3 min", "2.0 h".
std::string ForPeople(double seconds);

// JSON forms, without "schema".
nlohmann::json ToJson(const wire::JobInfo& job);
nlohmann::json ToJson(const wire::TaskInfo& task);
nlohmann::json ToJson(const wire::WorkerInfo& worker);
// A task's result: the JSON of steps programs, the value of calls, or a text.
nlohmann::json ResultToJson(const wire::TaskInfo& task, const std::string& bytes);

// "<job>.<index>", or "<job>" for its first task.
Result<TaskId> ParseTask(const std::string& text);

}  // namespace pillion::cli

#endif  // PILLION_CLI_CONTEXT_H_
