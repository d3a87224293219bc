#include "cli/demo/processes.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/file.h"

namespace pillion::demo {
namespace {

volatile std::sig_atomic_t interrupted = 0;
void OnSignal(int) { interrupted = 1; }

constexpr int64_t kPollMs = 20;

// In the child, between fork and exec: system calls only.
[[noreturn]] void BecomeProgram(char* const* arguments, char* const* environment, pid_t parent, int output, int log,
                                bool idle) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGHUP, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  (void)SetSchedulingClass(idle ? SchedulingClass::kIdle : SchedulingClass::kNormal);
  const int input = open("/dev/null", O_RDONLY);
  if (input < 0 || dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) {
    _exit(127);
  }
  execve(arguments[0], arguments, environment);
  _exit(127);
}

std::vector<char*> Pointers(std::vector<std::string>* texts) {
  std::vector<char*> pointers;
  for (std::string& text : *texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

Result<FileDescriptor> OpenForOutput(const std::string& path) {
  FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!file.valid()) return ErrnoStatus("open " + path);
  return file;
}

}  // namespace

void InstallSignalHandlers() {
  struct sigaction action {};
  action.sa_handler = OnSignal;  // without SA_RESTART, so that a sleep ends
  for (int each : {SIGINT, SIGTERM, SIGHUP}) sigaction(each, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

bool Interrupted() { return interrupted != 0; }

Status Pause(int64_t ms) {
  if (!Interrupted()) poll(nullptr, 0, static_cast<int>(ms));
  return Interrupted() ? Cancelled("interrupted") : Status();
}

std::string BesideUs(const std::string& program) {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  const std::string self(path, size > 0 ? static_cast<size_t>(size) : 0);
  return self.substr(0, self.rfind('/') + 1) + program;
}

Result<std::unique_ptr<Program>> Program::Start(ProgramOptions options) {
  const std::string path = BesideUs(options.program);
  if (access(path.c_str(), X_OK) != 0) return ErrnoStatus("run " + path).WithContext(options.label);
  PILLION_ASSIGN_OR_RETURN(FileDescriptor output, OpenForOutput(options.output));
  PILLION_ASSIGN_OR_RETURN(FileDescriptor log, OpenForOutput(options.log));
  std::vector<std::string> arguments = {path};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string name(*each, std::strcspn(*each, "="));
    // Settings for a real cluster must not reach the demo's own.
    if (name.rfind("PILLION_", 0) != 0) environment.push_back(*each);
  }
  for (const auto& [name, value] : options.environment) environment.push_back(name + "=" + value);
  std::vector<char*> argument_pointers = Pointers(&arguments), environment_pointers = Pointers(&environment);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("fork for " + options.label);
  if (pid == 0) {
    BecomeProgram(argument_pointers.data(), environment_pointers.data(), parent, output.get(), log.get(), options.idle);
  }
  setpgid(pid, pid);  // also here: whoever of us is later would race with a signal to the group
  return std::unique_ptr<Program>(new Program(std::move(options), pid));
}

Program::~Program() {
  if (!Running()) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Program::Running() {
  if (status_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return !status_;
}

std::string Program::LastLogLine() const {
  auto text = ReadFile(options_.log);
  if (!text.ok()) return "";
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return text->substr(text->rfind('\n') + 1);
}

Status Program::Check() {
  if (Running() || *status_ == 0) return Status();
  std::string how = WIFSIGNALED(*status_)
                        ? "was ended by signal " + std::to_string(WTERMSIG(*status_)) + " (" +
                              strsignal(WTERMSIG(*status_)) + ")"
                        : "ended with exit code " + std::to_string(WEXITSTATUS(*status_));
  const std::string line = LastLogLine();
  return Unavailable(label() + " " + how + (line.empty() ? "" : ": " + line));
}

Status Program::MustRun() {
  if (Running()) return Status();
  PILLION_RETURN_IF_ERROR(Check());
  return Unavailable(label() + " ended before it was asked to");
}

void Program::Signal(int signal) {
  if (Running()) kill(pid_, signal);
}

Status Program::WaitForEnd(int64_t timeout_ms) {
  const int64_t end_ns = MonotonicNowNs() + timeout_ms * kNanosPerMilli;
  while (Running()) {
    if (MonotonicNowNs() >= end_ns) {
      kill(-pid_, SIGKILL);
      int status = 0;
      waitpid(pid_, &status, 0);
      status_ = status;
      return DeadlineExceeded(label() + " did not end within " + std::to_string(timeout_ms / 1000) + " s and was killed");
    }
    poll(nullptr, 0, kPollMs);
  }
  return Check();
}

void BecomeSubreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

bool KillMarked(const std::string& name, const std::string& value, int64_t wait_ms) {
  const std::string mark = '\0' + name + "=" + value + '\0';
  const int64_t end_ns = MonotonicNowNs() + wait_ms * kNanosPerMilli;
  while (true) {
    bool any = false;
    auto entries = ListDirectory("/proc");
    if (!entries.ok()) return false;
    for (const std::string& entry : *entries) {
      if (entry[0] < '0' || entry[0] > '9' || std::stoi(entry) == getpid()) continue;
      auto environment = ReadFile("/proc/" + entry + "/environ", 4 << 20);  // empty for those that have ended
      if (!environment.ok() || ('\0' + *environment).find(mark) == std::string::npos) continue;
      any = true;
      kill(std::stoi(entry), SIGKILL);
    }
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    if (!any) return true;
    if (MonotonicNowNs() >= end_ns) return false;
    poll(nullptr, 0, kPollMs);
  }
}

}  // namespace pillion::demo
