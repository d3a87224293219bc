#include "worker/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "base/log.h"

namespace pillion::worker {
namespace {

struct ProcessEntry {
  pid_t pid = 0, parent = 0, group = 0;
  char state = '?';
};

// /proc/<pid>/stat: "pid (name) state ppid pgrp …"; the name may hold anything.
std::optional<ProcessEntry> ReadEntry(const std::string& pid_text) {
  ProcessEntry entry;
  auto [end, error] = std::from_chars(pid_text.data(), pid_text.data() + pid_text.size(), entry.pid);
  if (error != std::errc() || *end != 0) return std::nullopt;
  auto text = ReadFile("/proc/" + pid_text + "/stat", 4096);
  if (!text.ok()) return std::nullopt;
  size_t name_end = text->rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  if (std::sscanf(text->c_str() + name_end + 1, " %c %d %d", &entry.state, &entry.parent, &entry.group) != 3) {
    return std::nullopt;
  }
  return entry;
}

std::vector<ProcessEntry> ReadProcesses() {
  std::vector<ProcessEntry> entries;
  auto names = ListDirectory("/proc");
  if (!names.ok()) return entries;
  for (const std::string& name : *names) {
    if (name[0] < '0' || name[0] > '9') continue;
    if (auto entry = ReadEntry(name)) entries.push_back(*entry);
  }
  return entries;
}

// The living of a tree: `root`, its descendants, its group and whoever descends from one of `known`.
std::set<pid_t> LivingTree(pid_t root, std::set<pid_t>* known) {
  std::vector<ProcessEntry> entries = ReadProcesses();
  known->insert(root);
  for (bool grew = true; grew;) {
    grew = false;
    for (const ProcessEntry& entry : entries) {
      if (entry.group != root && known->count(entry.parent) == 0) continue;
      grew = known->insert(entry.pid).second || grew;
    }
  }
  std::set<pid_t> living;
  for (const ProcessEntry& entry : entries) {
    if (known->count(entry.pid) > 0 && entry.state != 'Z' && entry.state != 'X') living.insert(entry.pid);
  }
  return living;
}

// In the child, between fork and exec: system calls only.
[[noreturn]] void BecomeHost(char* const* arguments, pid_t worker, const int* inherited, size_t count) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != worker) _exit(127);  // it died before the line above
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  for (size_t i = 0; i < count; ++i) fcntl(inherited[i], F_SETFD, 0);
  execv(arguments[0], arguments);
  _exit(127);
}

}  // namespace

Status BecomeSubreaper() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return ErrnoStatus("become the subreaper of task hosts");
  return Status::Ok();
}

bool KillTree(pid_t root, int64_t wait_ms) {
  const int64_t end_ns = MonotonicNowNs() + wait_ms * kNanosPerMilli;
  std::set<pid_t> known;
  while (true) {
    std::set<pid_t> living = LivingTree(root, &known);
    for (pid_t pid : living) kill(pid, SIGKILL);
    for (pid_t pid : known) {
      if (pid != root) waitpid(pid, nullptr, WNOHANG);  // orphans that came to us; the root is its owner's to reap
    }
    if (living.empty()) return true;
    if (MonotonicNowNs() >= end_ns) return false;
    poll(nullptr, 0, 1);
  }
}

Result<std::unique_ptr<HostProcess>> HostProcess::Spawn(const HostOptions& options, Mode mode) {
  PILLION_ASSIGN_OR_RETURN(auto page, host::ControlPage::Create("pillion-control"));
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) return ErrnoStatus("make a socket pair");
  FileDescriptor ours(pair[0]), theirs(pair[1]);
  const int inherited[] = {theirs.get(), page->fd(), options.doorbell_fd};
  std::vector<std::string> arguments = {
      options.binary,  "--socket-fd",   std::to_string(inherited[0]), "--control-fd", std::to_string(inherited[1]),
      "--doorbell-fd", std::to_string(inherited[2]), "--board", options.board, "--device", options.device,
      "--mode",        mode == Mode::kCalls ? "calls" : "steps"};
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t worker = getpid();
  pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("fork a task host");
  if (pid == 0) BecomeHost(pointers.data(), worker, inherited, std::size(inherited));
  setpgid(pid, pid);  // whoever is first
  FileDescriptor pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    Status status = ErrnoStatus("open a pidfd of a task host");
    KillTree(pid, 1000);
    waitpid(pid, nullptr, 0);
    return status;
  }
  return std::unique_ptr<HostProcess>(new HostProcess(pid, std::move(pidfd), std::move(ours), std::move(page)));
}

HostProcess::~HostProcess() {
  if (status_) return;
  Kill();
  waitpid(pid_, nullptr, WNOHANG);
}

void HostProcess::Post(HostMessage message) {
  outbox_.push_back(std::move(message));
  Flush();
}

void HostProcess::Flush() {
  while (!outbox_.empty()) {
    Status status = socket_.Send(outbox_.front(), 0);
    if (status.code() == StatusCode::kResourceExhausted && EncodeHostMessage(outbox_.front()).ok()) return;  // full
    if (!status.ok()) log::Warning("message to a task host lost", {{"pid", pid_}, {"error", status.ToString()}});
    outbox_.pop_front();
  }
}

std::optional<int> HostProcess::TryReap() {
  if (status_) return status_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  status_ = status;
  KillTree(pid_, 2000);  // its group may outlive it
  return status_;
}

void HostProcess::Kill() {
  if (status_) return;
  if (!KillTree(pid_, 2000)) log::Error("processes of a task host survive SIGKILL", {{"pid", pid_}});
}

std::string DescribeExit(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    int signal = WTERMSIG(wait_status);
    return "killed by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  return "exited with code " + std::to_string(WEXITSTATUS(wait_status));
}

bool DiedByItself(int wait_status) {
  if (!WIFSIGNALED(wait_status)) return true;
  int signal = WTERMSIG(wait_status);
  return signal != SIGKILL && signal != SIGTERM && signal != SIGINT && signal != SIGHUP;
}

Result<std::vector<std::string>> ListHostPrograms(const std::string& binary, const std::string& device_kind) {
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) return ErrnoStatus("make a pipe");
  FileDescriptor from(pipes[0]), to(pipes[1]);
  pid_t pid = fork();
  if (pid < 0) return ErrnoStatus("fork");
  if (pid == 0) {
    dup2(pipes[1], STDOUT_FILENO);
    execl(binary.c_str(), binary.c_str(), "--list-programs", "--json", static_cast<char*>(nullptr));
    _exit(127);
  }
  to = FileDescriptor();
  std::string text;
  char buffer[4096];
  for (ssize_t size; (size = read(from.get(), buffer, sizeof buffer)) != 0;) {
    if (size > 0) text.append(buffer, static_cast<size_t>(size));
    if (size < 0 && errno != EINTR) break;
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return Unavailable("'" + binary + " --list-programs' " + DescribeExit(status) + ": is it installed there?");
  }
  nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
  if (!list.is_object() || !list.contains("programs") || !list["programs"].is_array()) {
    return Corruption("'" + binary + " --list-programs --json' printed no list of programs");
  }
  std::vector<std::string> programs;
  for (const auto& each : list["programs"]) {
    if (!each.is_object() || !each.value("name", nlohmann::json()).is_string()) continue;
    std::string devices = each.contains("devices") && each["devices"].is_string() ? each["devices"] : "";
    bool only_other = (devices == "cpu" && device_kind == "cuda") || (devices == "cuda" && device_kind == "cpu");
    if (!only_other) programs.push_back(each["name"]);
  }
  return programs;
}

}  // namespace pillion::worker
