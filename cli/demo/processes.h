// The programs that the demo runs, and an end that leaves none of them behind.
#ifndef PILLION_CLI_DEMO_PROCESSES_H_
#define PILLION_CLI_DEMO_PROCESSES_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace pillion::demo {

// Set by SIGINT, SIGTERM and SIGHUP from InstallSignalHandlers on; every wait of the demo looks at it.
void InstallSignalHandlers();
bool Interrupted();
// Sleeps up to `ms`, less when interrupted. kCancelled when it was.
Status Pause(int64_t ms);

struct ProgramOptions {
  std::string program;                 // its name, in the directory of this binary
  std::string label;                   // for errors and file names: "worker cpu0"
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;  // beside our own
  std::string output, log;             // files for stdout and stderr
  bool idle = false;                   // what shares cores with a trainer and computes nothing of weight
};

// A running program in a process group of its own but in our session, because an idle thread is idle only within one.
// The kernel kills it when the demo dies. Not thread-safe; the thread that starts it must outlive it.
class Program {
 public:
  static Result<std::unique_ptr<Program>> Start(ProgramOptions options);
  ~Program();  // kills its group
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const std::string& label() const { return options_.label; }
  const std::string& output() const { return options_.output; }
  bool Running();
  // Ok while it runs or after exit code 0; else how it ended, with the last line of its log.
  Status Check();
  // Ok while it runs: for those that should not end by themselves.
  Status MustRun();
  void Signal(int signal);
  // Until it has ended, at most `timeout_ms`: then it is killed and the error says so.
  Status WaitForEnd(int64_t timeout_ms);

 private:
  Program(ProgramOptions options, pid_t pid) : options_(std::move(options)), pid_(pid) {}
  std::string LastLogLine() const;

  const ProgramOptions options_;
  const pid_t pid_;
  std::optional<int> status_;
};

// The directory of this binary and a program in it.
std::string BesideUs(const std::string& program);

// Orphans of the demo's programs become our children, where KillMarked finds them.
void BecomeSubreaper();
// Kills everything that carries NAME=VALUE in its environment, except this process; false when some were still there
// after `wait_ms`.
bool KillMarked(const std::string& name, const std::string& value, int64_t wait_ms);

}  // namespace pillion::demo

#endif  // PILLION_CLI_DEMO_PROCESSES_H_
