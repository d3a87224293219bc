#include "examples/trainer/launch.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/clock.h"
#include "base/file.h"

namespace pillion::trainer {
namespace {

// The others find a dead peer within a fraction of a second, unless they hang themselves.
constexpr int64_t kGraceNs = 10 * kNanosPerSecond;

struct Rank {
  pid_t pid = -1;
  FileDescriptor output;
  std::string partial;  // a line that has not ended
};

Status Start(int32_t rank, std::vector<std::string> arguments, Rank* to) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus("pipe");
  to->output = FileDescriptor(ends[0]);
  FileDescriptor write_end(ends[1]);
  arguments.insert(arguments.end(), {"--rank", std::to_string(rank)});
  std::vector<char*> words;
  for (std::string& argument : arguments) words.push_back(argument.data());
  words.push_back(nullptr);
  const pid_t parent = getpid();
  to->pid = fork();
  if (to->pid < 0) return ErrnoStatus("fork");
  if (to->pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(write_end.get(), STDOUT_FILENO) < 0) _exit(126);
    execv("/proc/self/exe", words.data());
    _exit(127);
  }
  return Status();
}

// False at the end of the output.
bool ReadLines(int32_t rank, Rank* from,
               const std::function<void(int32_t, const std::string&)>& on_line) {
  char buffer[65536];
  const ssize_t bytes = read(from->output.get(), buffer, sizeof buffer);
  if (bytes < 0 && errno == EINTR) return true;
  if (bytes <= 0) return false;
  from->partial.append(buffer, static_cast<size_t>(bytes));
  for (size_t end; (end = from->partial.find('\n')) != std::string::npos;
       from->partial.erase(0, end + 1)) {
    on_line(rank, from->partial.substr(0, end));
  }
  return true;
}

Status HowItEnded(int32_t rank, int status) {
  const std::string name = "rank " + std::to_string(rank);
  if (WIFSIGNALED(status))
    return Unavailable(name + " was ended by signal " + std::to_string(WTERMSIG(status)));
  if (WEXITSTATUS(status) == 0) return Status();
  return Unavailable(name + " ended with exit code " + std::to_string(WEXITSTATUS(status)));
}

}  // namespace

Status LaunchRanks(int32_t ranks, const std::vector<std::string>& arguments,
                   const std::function<void(int32_t, const std::string&)>& on_line) {
  std::vector<Rank> running(ranks);
  Status first;
  for (int32_t rank = 0; rank < ranks && first.ok(); ++rank)
    first = Start(rank, arguments, &running[rank]);
  int64_t kill_at_ns = first.ok() ? INT64_MAX : 0;
  // A rank is done when its output ends; then its exit status is at hand.
  while (true) {
    std::vector<pollfd> polls;
    std::vector<int32_t> of;
    for (int32_t rank = 0; rank < ranks; ++rank) {
      if (running[rank].pid < 0) continue;
      polls.push_back({running[rank].output.get(), POLLIN, 0});
      of.push_back(rank);
    }
    if (polls.empty()) return first;
    const bool failing = kill_at_ns != INT64_MAX;
    if (poll(polls.data(), polls.size(), failing ? 100 : -1) < 0 && errno != EINTR)
      return ErrnoStatus("poll");
    for (size_t i = 0; i < polls.size(); ++i) {
      Rank& rank = running[of[i]];
      if (polls[i].revents == 0 || ReadLines(of[i], &rank, on_line)) continue;
      int status = 0;
      waitpid(rank.pid, &status, 0);
      rank.pid = -1;
      Status end = HowItEnded(of[i], status);
      // A signal says more than the messages of those that it left alone.
      if (!end.ok() && (first.ok() || WIFSIGNALED(status))) first = end;
      if (!end.ok() && !failing) kill_at_ns = MonotonicNowNs() + kGraceNs;
    }
    if (MonotonicNowNs() >= kill_at_ns) {
      for (const Rank& rank : running) {
        if (rank.pid > 0) kill(rank.pid, SIGKILL);
      }
    }
  }
}

}  // namespace pillion::trainer
