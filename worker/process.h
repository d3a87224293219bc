// Task hosts as processes: start, death, and an end that leaves nothing of their trees behind.
//
// One thread, which must live as long as the process: PDEATHSIG follows the thread that forked.
#ifndef PILLION_WORKER_PROCESS_H_
#define PILLION_WORKER_PROCESS_H_

#include <sys/types.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "worker/host/control_page.h"
#include "worker/host/host_protocol.h"

namespace pillion::worker {

struct HostOptions {
  std::string binary;  // path of pillion-host
  std::string board;   // device uuid
  std::string device;
  int doorbell_fd = -1;
};

// Orphans of task hosts become children of the calling process, so that KillTree and ReapStrays find them.
Status BecomeSubreaper();

// Sends SIGKILL to `root` with all its descendants and everything in its process group, again until /proc shows none
// alive. False when some were still there after `wait_ms` (uninterruptible in the kernel).
bool KillTree(pid_t root, int64_t wait_ms);

class HostProcess {
 public:
  enum class Mode { kSteps, kCalls };
  // A new process group in this session (an idle thread is idle only within one), killed when this process dies.
  static Result<std::unique_ptr<HostProcess>> Spawn(const HostOptions& options, Mode mode);
  ~HostProcess();  // kills the tree
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable when it has died
  int socket_fd() const { return socket_.fd(); }
  const std::shared_ptr<host::ControlPage>& page() const { return page_; }

  // Queues a message and sends what the host takes now.
  void Post(HostMessage message);
  void Flush();
  bool has_unsent() const { return !outbox_.empty(); }
  Result<HostMessage> Receive() { return socket_.Receive(); }

  // How it ended, as waitpid says; nothing while it lives. Kills what is left of its tree.
  std::optional<int> TryReap();
  void Kill();

 private:
  HostProcess(pid_t pid, FileDescriptor pidfd, FileDescriptor socket, std::shared_ptr<host::ControlPage> page)
      : pid_(pid), pidfd_(std::move(pidfd)), socket_file_(std::move(socket)), socket_(socket_file_.get()),
        page_(std::move(page)) {}

  const pid_t pid_;
  FileDescriptor pidfd_;
  FileDescriptor socket_file_;
  HostSocket socket_;
  std::shared_ptr<host::ControlPage> page_;
  std::deque<HostMessage> outbox_;
  std::optional<int> status_;
};

// "killed by signal 11 (Segmentation fault)", "exited with code 3".
std::string DescribeExit(int wait_status);
// Whether the end was the program's own doing: a crash or an exit, not somebody's SIGKILL, SIGTERM or SIGINT.
bool DiedByItself(int wait_status);

// Names of the programs for devices of this kind that the host binary carries.
Result<std::vector<std::string>> ListHostPrograms(const std::string& binary, const std::string& device_kind);

}  // namespace pillion::worker

#endif  // PILLION_WORKER_PROCESS_H_
