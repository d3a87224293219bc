// Client: submits graphs and calls to the head, waits, fetches results, asks and steers. One thread per Client.
//
//   auto client = pillion::Client::Connect().value();
//   auto four = client.Call(Square, 2);
//   auto sixteen = client.Call(Square, four);
//   int value = client.Get(sixteen).value();       // submits what was called, waits, decodes
//
// Errors of every call: kUnavailable when the head cannot be reached within the timeout (the message names the
// endpoint), kDeadlineExceeded when it does not answer in time, otherwise what the head says. Every request may be
// repeated: a repeated Submit of one graph is one submission.
#ifndef PILLION_CLIENT_H_
#define PILLION_CLIENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/wire/keys.h"
#include "api/wire/messages.h"
#include "base/ids.h"
#include "base/status.h"
#include "pillion/graph.h"

namespace pillion {

struct ClientOptions {
  std::string runtime_directory;          // empty: DefaultRuntimeDirectory()
  std::optional<wire::Endpoint> endpoint;  // instead of <runtime_directory>/head.endpoint
  std::string key_file;                   // instead of <runtime_directory>/<role>.key
  wire::Role role = wire::Role::kClient;  // kOperator for Migrate and Drain
  int64_t timeout_ms = 5'000;             // for connecting, and for each request
  wire::JobOptions calls;                 // of the jobs that Call makes
  std::string library;                    // shared library that registers functions which this program has linked in
};

class Client {
 public:
  using Progress = std::function<void(const wire::JobInfo&)>;

  static Result<Client> Connect(ClientOptions options = {});
  Client(Client&&) noexcept;
  Client& operator=(Client&&) noexcept;
  ~Client();

  // ---- calls ----
  // Adds a call to the next job; nothing is sent before Flush, Get or Submit. A Ref among the arguments makes an
  // edge when it is of the same job; one of an earlier job is waited for and its value is passed.
  template <typename R, typename... Params, typename... Args>
  auto Call(R (*function)(Params...), const Args&... arguments) {
    return pending().CallWith(function, fetch(), library(), arguments...);
  }
  // Submits the calls made so far; kFailedPrecondition when there are none.
  Result<JobId> Flush();
  // The result: waits for it, at most `timeout_ms` (< 0: as long as it takes). A failed task's error is kTaskFailed
  // with its text. Status instead of Result<T> for functions that return nothing.
  template <typename T>
  auto Get(const Ref<T>& ref, int64_t timeout_ms = -1) {
    Result<std::string> encoded = ref.status().ok() ? GetEncoded(ref.task(), timeout_ms)
                                                    : Result<std::string>(ref.status());
    if constexpr (std::is_void_v<T>) {
      return encoded.status();
    } else {
      if (!encoded.ok()) return Result<T>(encoded.status());
      return DecodeValue<T>(*encoded);
    }
  }

  // ---- graphs ----
  // Returns after the whole graph is durable. kAlreadyExists: another graph has this id.
  Result<JobId> Submit(const Graph& graph);
  // Several jobs with up to `outstanding` of them on their way; one result each, in order.
  std::vector<Result<JobId>> SubmitAll(const std::vector<Graph>& graphs, size_t outstanding);
  // Until the job is finished, or kDeadlineExceeded after `timeout_ms` (< 0: as long as it takes). `progress` is told
  // of changes, and about every two seconds. A head that is restarted meanwhile is waited for.
  Result<wire::JobInfo> Wait(const JobId& job, const Progress& progress = {}, int64_t timeout_ms = -1);
  // Until the task is in a final state: succeeded, failed, cancelled or skipped.
  Result<wire::TaskInfo> WaitTask(const TaskId& task, int64_t timeout_ms = -1);
  // The bytes that a succeeded task returned (a JSON object from steps programs), also when they are in a file.
  Result<std::string> GetEncoded(const TaskId& task, int64_t timeout_ms = -1);

  // ---- asking and steering ----
  Result<wire::TaskInfo> GetTask(const TaskId& task);
  Result<uint64_t> Cancel(const JobId& job, std::vector<uint32_t> indices = {});
  Result<std::vector<wire::JobInfo>> ListJobs(uint32_t limit = 100, std::string owner = "");
  Result<std::vector<wire::TaskInfo>> ListTasks(const JobId& job, uint32_t first_index = 0, uint32_t limit = 1000);
  Result<std::vector<wire::WorkerInfo>> ListWorkers();
  Result<wire::StatusReply> GetStatus();
  Result<wire::ExplainReply> Explain(const TaskId& task);
  Result<uint64_t> Migrate(const TaskId& task, std::string to_worker = "");
  Result<uint64_t> Drain(std::string worker, bool drain = true);

  // Whether there is a welcomed connection now.
  bool connected() const;
  const std::string& head_version() const;

 private:
  class Impl;
  explicit Client(std::unique_ptr<Impl> impl);
  Graph& pending();
  const Graph::Fetch& fetch() const;
  const std::string& library() const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace pillion

#endif  // PILLION_CLIENT_H_
