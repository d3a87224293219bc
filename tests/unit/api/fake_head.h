// A head without durability, scheduling and workers, on a real socket in a thread of its own: it runs call tasks itself
// when their inputs are there, lets steps tasks succeed at once (or leaves them open when their program is
// "never"), and refuses what the tests want refused.
#ifndef PILLION_TESTS_UNIT_API_FAKE_HEAD_H_
#define PILLION_TESTS_UNIT_API_FAKE_HEAD_H_

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/wire/codec.h"
#include "api/wire/transport.h"

namespace pillion {

class FakeHead {
 public:
  // Serves in `runtime_directory`, as `name` ("head" or "worker-cpu0").
  FakeHead(std::string runtime_directory, std::string name = "head");
  ~FakeHead() { Stop(); }

  void Start();
  void Stop();  // jobs are kept, as a restarted head would

  std::atomic<bool> silent{false};  // takes requests and answers nothing but Hello
  std::atomic<int> submit_chunks{0};
  std::atomic<int> hellos{0};

  // Copies, for assertions.
  std::vector<wire::TaskSpec> SpecsOf(const JobId& job);
  std::vector<wire::Announce> announcements();

 private:
  struct Task {
    wire::TaskSpec spec;
    wire::TaskInfo info;
  };
  struct Job {
    wire::JobOptions options;
    std::vector<Task> tasks;
    uint32_t chunks = 0;
    bool committed = false;
    uint64_t version = 1;
  };
  struct Watch {
    wire::PeerId peer;
    uint64_t request;
    wire::WaitJob wait;
    int64_t due_ns;
  };

  void Loop();
  wire::Body Answer(const wire::ServerEvent& event, uint64_t request, const wire::Body& body, bool* later);
  wire::Body Submit(const wire::SubmitChunk& chunk);
  void RunTasks(Job* job);
  void RunTask(Job* job, Task* task);
  wire::JobInfo InfoOf(const JobId& id, const Job& job) const;
  wire::Body List(const wire::ListTasks& list);
  void AnswerWatches(bool all_due);
  void Reply(wire::PeerId peer, uint64_t request, wire::Body body);

  const std::string directory_;
  const std::string name_;
  wire::ServerKeys keys_;
  std::unique_ptr<wire::ServerSocket> socket_;
  std::thread thread_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards what follows
  std::map<JobId, Job> jobs_;
  std::vector<wire::Announce> announcements_;
  std::vector<Watch> watches_;
};

}  // namespace pillion

#endif  // PILLION_TESTS_UNIT_API_FAKE_HEAD_H_
