#include "pillion/client.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"
#include "fake_head.h"
#include "pillion/announcer.h"

namespace pillion {
namespace {

int Twice(int x) { return 2 * x; }
int Add(int a, int b) { return a + b; }
std::string Shout(const std::string& text, bool question) { return text + (question ? "?" : "!"); }
Status Check(int x) { return x > 0 ? Status() : InvalidArgument("not positive"); }
int Unregistered(int x) { return x; }
PILLION_FUNCTION(Twice);
PILLION_FUNCTION(Add);
PILLION_FUNCTION(Shout);
PILLION_FUNCTION(Check);

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    char name[] = "/tmp/pillion-client-XXXXXX";
    directory_ = mkdtemp(name);
  }
  ~ClientTest() override { std::filesystem::remove_all(directory_); }

  Client Connect(wire::Role role = wire::Role::kClient, int64_t timeout_ms = 20'000) {
    ClientOptions options;
    options.runtime_directory = directory_;
    options.role = role;
    options.timeout_ms = timeout_ms;
    return Client::Connect(options).value();
  }

  std::string directory_;
};

TEST_F(ClientTest, CallsWithRefsBecomeOneJobWithEdges) {
  FakeHead head(directory_);
  Client client = Connect();
  auto four = client.Call(Twice, 2);
  auto eight = client.Call(Twice, four);
  auto twelve = client.Call(Add, four, eight);
  auto text = client.Call(Shout, "go", false);
  EXPECT_EQ(client.Get(twelve).value(), 12);
  EXPECT_EQ(client.Get(text).value(), "go!");
  EXPECT_EQ(head.submit_chunks, 1);
  auto specs = head.SpecsOf(twelve.task().job);
  ASSERT_EQ(specs.size(), 4u);
  EXPECT_EQ(specs[2].program, "Add");
  ASSERT_EQ(specs[2].dependencies.size(), 2u);
  EXPECT_EQ(specs[2].dependencies[1].index, 1u);
  EXPECT_EQ(specs[2].dependencies[1].argument, 1);
  // A Ref of a job that is submitted already goes on as a value.
  auto later = client.Call(Add, twelve, 1);
  EXPECT_NE(later.task().job, twelve.task().job);
  EXPECT_EQ(client.Get(later).value(), 13);
}

TEST_F(ClientTest, FailuresArriveWithTheirText) {
  FakeHead head(directory_);
  Client client = Connect();
  EXPECT_TRUE(client.Get(client.Call(Check, 1)).ok());
  auto bad = client.Call(Check, -1);
  Status status = client.Get(bad);
  EXPECT_EQ(status.code(), StatusCode::kTaskFailed);
  EXPECT_NE(status.message().find("not positive"), std::string::npos);
  EXPECT_NE(status.message().find(bad.task().ToString()), std::string::npos);
  auto unregistered = client.Call(Unregistered, 1);
  EXPECT_EQ(client.Get(unregistered).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(client.Flush().status().code(), StatusCode::kNotFound);
  EXPECT_EQ(client.Get(client.Call(Twice, 4)).value(), 8);  // not spoiled by it
}

TEST_F(ClientTest, LargeGraphsTravelInChunksAndOnce) {
  FakeHead head(directory_);
  Client client = Connect();
  Graph graph({.name = "large"});
  constexpr uint32_t kTasks = 20'000;
  for (uint32_t i = 0; i < kTasks; ++i) {
    auto node = graph.AddSteps("anything", R"({"part": )" + std::to_string(i) + "}", 3);
    if (i > 0) graph.Depends(node, Graph::Node{i - 1});
  }
  EXPECT_EQ(client.Submit(graph).value(), graph.id());
  EXPECT_GT(head.submit_chunks, 4);
  auto specs = head.SpecsOf(graph.id());
  ASSERT_EQ(specs.size(), kTasks);
  for (uint32_t i = 0; i < kTasks; ++i) ASSERT_EQ(specs[i].index, i);
  EXPECT_EQ(client.Submit(graph).value(), graph.id());
  EXPECT_EQ(head.SpecsOf(graph.id()).size(), kTasks);
  uint64_t seen = 0;
  wire::JobInfo info = client.Wait(graph.id(), [&](const wire::JobInfo& job) { seen = job.succeeded; }).value();
  EXPECT_EQ(info.succeeded, kTasks);
  EXPECT_EQ(seen, kTasks);
}

TEST_F(ClientTest, LargeArgumentsFitToo) {
  FakeHead head(directory_);
  Client client = Connect();
  Graph graph;
  for (int i = 0; i < 40; ++i) graph.AddSteps("anything", std::string(limits::kArgumentBytes, 'x'));
  EXPECT_TRUE(client.Submit(graph).ok());
  EXPECT_GE(head.submit_chunks, 3);
}

TEST_F(ClientTest, ManyJobsInAWindow) {
  FakeHead head(directory_);
  Client client = Connect();
  std::vector<Graph> graphs(200);
  for (size_t i = 0; i < graphs.size(); ++i) graphs[i].AddSteps(i == 7 ? "unknown" : "anything", "{}");
  auto results = client.SubmitAll(graphs, 64);
  ASSERT_EQ(results.size(), graphs.size());
  for (size_t i = 0; i < graphs.size(); ++i) {
    EXPECT_EQ(results[i].ok(), i != 7) << i;
    if (results[i].ok()) {
      EXPECT_EQ(*results[i], graphs[i].id());
    }
  }
}

TEST_F(ClientTest, AskingAndSteering) {
  FakeHead head(directory_);
  Client client = Connect();
  Graph graph({.name = "many"});
  for (int i = 0; i < 10; ++i) graph.AddSteps("never", "{}");
  ASSERT_TRUE(client.Submit(graph).ok());
  EXPECT_EQ(client.ListTasks(graph.id()).value().size(), 10u);
  EXPECT_EQ(client.ListTasks(graph.id(), 8).value().size(), 2u);
  EXPECT_EQ(client.ListJobs().value().size(), 1u);
  EXPECT_EQ(client.ListWorkers().value().at(0).name, "host/cpu0");
  EXPECT_EQ(client.GetStatus().value().incarnation, 3u);
  EXPECT_EQ(client.Explain({graph.id(), 0}).value().workers.size(), 1u);
  EXPECT_EQ(client.Migrate({graph.id(), 0}).status().code(), StatusCode::kPermissionDenied);
  Client with_power = Connect(wire::Role::kOperator);
  EXPECT_EQ(with_power.Migrate({graph.id(), 0}).value(), 1u);
  EXPECT_EQ(with_power.Drain("host/cpu0").value(), 2u);
  EXPECT_EQ(client.Wait(graph.id(), {}, 50).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client.WaitTask({graph.id(), 3}, 50).status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(client.Cancel(graph.id()).value(), 10u);
  EXPECT_EQ(client.Wait(graph.id()).value().cancelled, 10u);
  EXPECT_EQ(client.GetEncoded({graph.id(), 3}).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(client.GetTask({JobId::Random(), 0}).status().code(), StatusCode::kNotFound);
}

TEST_F(ClientTest, BadGraphsAreRefusedHere) {
  FakeHead head(directory_);
  Client client = Connect();
  EXPECT_EQ(client.Submit(Graph()).status().code(), StatusCode::kInvalidArgument);
  Graph graph;
  graph.Depends(graph.AddSteps("anything", "{}"), Graph::Node{5});
  EXPECT_EQ(client.Submit(graph).status().code(), StatusCode::kInvalidArgument);
  Graph long_name;
  long_name.AddSteps(std::string(5000, 'p'), "{}");
  Status status = client.Submit(long_name).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("TaskSpec.program"), std::string::npos) << status.ToString();
}

TEST_F(ClientTest, AbsentHeadIsNamedAndTimesOut) {
  ClientOptions options;
  options.runtime_directory = directory_;
  options.timeout_ms = 100;
  Status no_keys = Client::Connect(options).status();
  EXPECT_EQ(no_keys.code(), StatusCode::kUnavailable);
  EXPECT_NE(no_keys.message().find(directory_), std::string::npos) << no_keys.ToString();
  std::string address;
  {
    FakeHead head(directory_);
    address = wire::ReadEndpoint(directory_, "head").value().address;
  }
  Status stopped = Client::Connect(options).status();
  EXPECT_EQ(stopped.code(), StatusCode::kUnavailable);
  EXPECT_NE(stopped.message().find(address), std::string::npos) << stopped.ToString();
}

TEST_F(ClientTest, SilentHeadTimesOut) {
  FakeHead head(directory_);
  Client client = Connect(wire::Role::kClient, 100);
  head.silent = true;
  EXPECT_EQ(client.GetStatus().status().code(), StatusCode::kDeadlineExceeded);
  head.silent = false;
  EXPECT_TRUE(client.GetStatus().ok());
}

TEST_F(ClientTest, RestartedHeadIsFoundAgain) {
  FakeHead head(directory_);
  Client client = Connect();
  Graph graph;
  graph.AddSteps("anything", "{}");
  ASSERT_TRUE(client.Submit(graph).ok());
  head.Stop();
  std::thread restart([&] { head.Start(); });
  EXPECT_TRUE(client.Wait(graph.id()).ok());  // asked while it was down
  restart.join();
  EXPECT_EQ(head.hellos, 2);
}

TEST_F(ClientTest, WrongRoleIsRefused) {
  FakeHead head(directory_);
  ClientOptions options;
  options.runtime_directory = directory_;
  options.role = wire::Role::kOperator;
  options.key_file = directory_ + "/client.key";
  EXPECT_EQ(Client::Connect(options).status().code(), StatusCode::kPermissionDenied);
  wire::KeyPair stranger = wire::GenerateKeyPair().value();
  ASSERT_TRUE(wire::WriteKeyFile(directory_ + "/stranger.key", stranger).ok());
  options.key_file = directory_ + "/stranger.key";
  EXPECT_EQ(Client::Connect(options).status().code(), StatusCode::kPermissionDenied);
}

TEST_F(ClientTest, AnnouncerReachesItsWorker) {
  FakeHead worker(directory_, "worker-cpu0");
  Announcer announcer = Announcer::Connect({.runtime_directory = directory_, .device = "cpu0"}).value();
  wire::Capacity capacity;
  capacity.slots = {{100, 200, 300}};
  capacity.free_memory_bytes = 1 << 20;
  ASSERT_TRUE(announcer.Announce(capacity).ok());
  ASSERT_EQ(worker.announcements().size(), 1u);
  EXPECT_EQ(worker.announcements()[0].device, "cpu0");
  EXPECT_EQ(worker.announcements()[0].capacity.slots[0].p50_us, 200u);
  Status absent = Announcer::Connect({.runtime_directory = directory_, .device = "cpu1", .timeout_ms = 50}).status();
  EXPECT_EQ(absent.code(), StatusCode::kUnavailable);
  EXPECT_NE(absent.message().find("worker-cpu1.endpoint"), std::string::npos) << absent.ToString();
}

}  // namespace
}  // namespace pillion
