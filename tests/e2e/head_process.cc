#include "head_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <thread>

#include "api/wire/codec.h"
#include "base/clock.h"
#include "base/file.h"

namespace pillion::testing {

TestDirectory::TestDirectory() {
  char name[] = "/tmp/pillion-e2e-XXXXXX";
  path_ = mkdtemp(name);
}

TestDirectory::~TestDirectory() {
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

HeadProcess::HeadProcess(std::vector<std::string> arguments,
                         std::map<std::string, std::string> environment) {
  static int counter = 0;
  output_path_ =
      "/tmp/pillion-e2e-" + std::to_string(getpid()) + "-" + std::to_string(counter++) + ".log";
  std::string program = std::string(PILLION_BIN_DIR) + "/pillion-head";
  pid_ = fork();
  if (pid_ != 0) return;
  int output = open(output_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  for (const char* name : {"PILLION_CRASH_AT", "PILLION_CONFIG", "NOTIFY_SOCKET"}) unsetenv(name);
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv = {program.data()};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(program.c_str(), argv.data());
  _exit(127);
}

HeadProcess::~HeadProcess() {
  if (Running()) {
    kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
  }
  unlink(output_path_.c_str());
}

bool HeadProcess::Running() {
  if (status_) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return true;
  status_ = status;
  return false;
}

void HeadProcess::Signal(int signal) {
  if (Running()) kill(pid_, signal);
}

Exit HeadProcess::Wait() {
  const int64_t end_ns = MonotonicNowNs() + kPatienceMs * kNanosPerMilli;
  while (Running() && MonotonicNowNs() < end_ns)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  Exit exit;
  if (Running()) {
    kill(pid_, SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
    status_ = status;
    exit.output = "(killed: it did not end)\n" + Output();
    return exit;
  }
  if (WIFEXITED(*status_)) exit.code = WEXITSTATUS(*status_);
  if (WIFSIGNALED(*status_)) exit.signal = WTERMSIG(*status_);
  exit.output = Output();
  return exit;
}

bool HeadProcess::WaitUntilServing(const std::string& runtime_directory) {
  const int64_t end_ns = MonotonicNowNs() + kPatienceMs * kNanosPerMilli;
  while (Running() && MonotonicNowNs() < end_ns) {
    Result<wire::Endpoint> endpoint = wire::ReadEndpoint(runtime_directory, "head");
    // A killed predecessor leaves its file.
    if (endpoint.ok() && Output().find("address=" + endpoint->address) != std::string::npos)
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

std::string HeadProcess::Output() const {
  Result<std::string> text = ReadFile(output_path_);
  return text.ok() ? *text : "";
}

TestPeer::TestPeer(const std::string& runtime_directory, wire::Role role)
    : TestPeer(runtime_directory, role, wire::Hello{role, "test", "test"}) {}

TestPeer::TestPeer(const std::string& runtime_directory, wire::Role role, wire::Body first)
    : hello(std::move(first)) {
  wire::PeerOptions options;
  options.find_server = wire::EndpointFromFile(runtime_directory, "head");
  options.keys = *wire::LoadKeys(runtime_directory, role);
  options.retry_first_ms = 5;
  options.retry_most_ms = 50;
  socket_ = std::make_unique<wire::PeerSocket>(std::move(options));
}

int64_t TestPeer::DeadlineNs(int64_t patience_ms) {
  return MonotonicNowNs() + patience_ms * kNanosPerMilli;
}

bool TestPeer::Pump(int64_t end_ns) {
  bool any = false;
  while (std::optional<wire::PeerEvent> event = socket_->Receive(MonotonicNowNs())) {
    any = true;
    if (event->kind == wire::PeerEvent::Kind::kConnected) {
      ++connections;
      Result<std::string> bytes = wire::Encode({next_request_++, hello});
      if (bytes.ok()) (void)socket_->Send(*bytes);
    }
    if (event->kind != wire::PeerEvent::Kind::kMessage) continue;
    Result<wire::Message> message = wire::Decode(event->payload);
    if (!message.ok()) continue;
    if (auto* answer = std::get_if<wire::Welcome>(&message->body)) {
      welcome = std::move(*answer);
    } else {
      unasked.push_back(std::move(*message));
    }
  }
  if (any) return true;
  int64_t left_ms = (end_ns - MonotonicNowNs()) / kNanosPerMilli;
  if (left_ms <= 0) return false;
  socket_->Wait(std::min<int64_t>(left_ms, 50));
  return true;
}

void TestPeer::Receive(int64_t patience_ms) { Pump(DeadlineNs(patience_ms)); }

std::optional<wire::Body> TestPeer::Ask(wire::Body request, int64_t patience_ms) {
  const int64_t end_ns = DeadlineNs(patience_ms);
  uint64_t id = next_request_++;
  Result<std::string> bytes = wire::Encode({id, std::move(request)});
  if (!bytes.ok()) return std::nullopt;
  uint64_t sent_on = 0;  // connection on which it was sent last
  while (true) {
    if (socket_->connected() && sent_on != connections && socket_->Send(*bytes).ok())
      sent_on = connections;
    for (auto at = unasked.begin(); at != unasked.end(); ++at) {
      if (at->request_id != id) continue;
      wire::Body body = std::move(at->body);
      unasked.erase(at);
      return body;
    }
    if (!Pump(end_ns)) return std::nullopt;
  }
}

Status TestPeer::Tell(wire::Body message) {
  PILLION_ASSIGN_OR_RETURN(std::string bytes, wire::Encode({0, std::move(message)}));
  return socket_->Send(bytes);
}

wire::SubmitChunk MakeJob(uint32_t tasks, const JobId& id) {
  wire::SubmitChunk chunk;
  chunk.job = id;
  chunk.options.name = "test";
  for (uint32_t i = 0; i < tasks; ++i) {
    wire::TaskSpec spec;
    spec.index = i;
    spec.program = "test.program";
    spec.arguments = "{}";
    chunk.tasks.push_back(std::move(spec));
  }
  return chunk;
}

}  // namespace pillion::testing
