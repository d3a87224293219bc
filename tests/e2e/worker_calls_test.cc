// Call tasks through head, worker and pooled host.
#include "pillion/serialize.h"
#include "worker_fixture.h"

namespace pillion::testing {
namespace {

using wire::TaskState;

class WorkerCallsTest : public WorkerFixture {
 protected:
  wire::TaskSpec Call(uint32_t index, const std::string& program, std::string arguments) {
    wire::TaskSpec spec;
    spec.index = index;
    spec.kind = wire::TaskKind::kCall;
    spec.program = program;
    spec.library = library_;
    spec.arguments = std::move(arguments);
    return spec;
  }
  static std::string TwoOpenArguments() {
    ValueWriter out;
    out.Head(ValueMajor::kArray, 2);
    out.Undefined();
    out.Undefined();
    return out.Take();
  }
  static std::string One(int64_t x) { return EncodeValue(std::tuple<int64_t>(x)); }
};

TEST_F(WorkerCallsTest, ManyCallsShareOneHostAndResultsFlowAlongEdges) {
  auto worker = StartWorker("cpu0");
  wire::SubmitChunk chunk = MakeJob(0);
  constexpr uint32_t kCalls = 300;
  for (uint32_t i = 0; i < kCalls; ++i) chunk.tasks.push_back(Call(i, "Square", One(i)));
  wire::TaskSpec sum = Call(kCalls, "Add", TwoOpenArguments());
  sum.dependencies = {{3, 0}, {4, 1}};
  chunk.tasks.push_back(sum);
  ASSERT_TRUE(operator_->Call<wire::SubmitReply>(chunk)) << operator_->last_error.ToString();
  wire::TaskInfo info = WaitForEnd({chunk.job, kCalls});
  ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error << worker->Output();
  EXPECT_EQ(*DecodeValue<int64_t>(info.result), 25);
  for (uint32_t i = 0; i < kCalls; ++i) {
    info = WaitForEnd({chunk.job, i});
    ASSERT_EQ(info.state, TaskState::kSucceeded) << info.error;
    ASSERT_EQ(*DecodeValue<int64_t>(info.result), int64_t{i} * i);
  }
  EXPECT_EQ(Processes("pillion-host").size(), 1u);
}

TEST_F(WorkerCallsTest, ACallThatFailsOrCrashesTakesNoOtherWithIt) {
  auto worker = StartWorker("cpu0");
  wire::SubmitChunk chunk = MakeJob(0);
  for (uint32_t i = 0; i < 20; ++i) {
    chunk.tasks.push_back(Call(i, i == 5 ? "Crash" : "Square", One(i == 7 ? -1 : int64_t{i})));
    chunk.tasks.back().options.app_retries = 0;
  }
  ASSERT_TRUE(operator_->Call<wire::SubmitReply>(chunk)) << operator_->last_error.ToString();
  for (uint32_t i = 0; i < 20; ++i) {
    wire::TaskInfo info = WaitForEnd({chunk.job, i});
    ASSERT_EQ(info.state, i == 5 || i == 7 ? TaskState::kFailed : TaskState::kSucceeded)
        << i << ": " << info.error << worker->Output();
  }
  EXPECT_NE(Get({chunk.job, 5}).error.find("signal 11"), std::string::npos) << Get({chunk.job, 5}).error;
  EXPECT_NE(Get({chunk.job, 7}).error.find("negative"), std::string::npos) << Get({chunk.job, 7}).error;
}

}  // namespace
}  // namespace pillion::testing
