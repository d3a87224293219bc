// Graph: tasks and what depends on what, to be submitted as one job. Not thread-safe.
//
//   Graph graph({.name = "ranks"});
//   Graph::Node load = graph.AddSteps("resize", R"({"folder": "in"})");
//   Graph::Node rank = graph.AddSteps("pagerank", "{}");
//   graph.Depends(rank, load);
//   auto four = graph.Call(Square, 2);
//   auto sixteen = graph.Call(Square, four);   // an edge: the result of one becomes the argument of the other
#ifndef PILLION_GRAPH_H_
#define PILLION_GRAPH_H_

#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/wire/messages.h"
#include "base/ids.h"
#include "base/status.h"
#include "pillion/function.h"

namespace pillion {

// The future result of a call: pass it to other calls of the same graph or client, or to Client::Get.
template <typename T>
class Ref {
 public:
  Ref() = default;
  Ref(TaskId task, Status status) : task_(task), status_(std::move(status)) {}
  const TaskId& task() const { return task_; }
  // Not ok when the call could not even be added; Get and Submit report it too.
  const Status& status() const { return status_; }

 private:
  TaskId task_;
  Status status_;
};

class Graph {
 public:
  struct Node {
    uint32_t index = 0;
  };

  explicit Graph(wire::JobOptions options = {}) : id_(JobId::Random()), options_(std::move(options)) {}

  // The job's id, chosen here: submitting the same graph again is the same submission.
  const JobId& id() const { return id_; }
  const wire::JobOptions& options() const { return options_; }
  const std::vector<wire::TaskSpec>& tasks() const { return tasks_; }
  size_t size() const { return tasks_.size(); }
  // The first thing that went wrong while building; Submit refuses with it.
  const Status& status() const { return status_; }

  // Adds a task; the index is set here. Dependencies may be in the spec already.
  Node Add(wire::TaskSpec spec);
  Node AddSteps(std::string program, std::string arguments_json, uint64_t max_steps = 0,
                wire::TaskOptions options = {});
  Node AddCommand(std::string executable, std::string arguments_json, wire::TaskOptions options = {});
  // `task` starts after `on` has succeeded.
  void Depends(Node task, Node on);
  wire::TaskSpec& spec(Node node) { return tasks_[node.index]; }

  // A call of a function registered with PILLION_FUNCTION. Each argument is a value, or a Ref from this graph.
  template <typename R, typename... Params, typename... Args>
  auto Call(R (*function)(Params...), const Args&... arguments) {
    return CallWith(function, {}, "", arguments...);
  }

  // For Client: `fetch` yields the encoded result of a Ref of another job; `library` is used for functions of the main
  // program.
  using Fetch = std::function<Result<std::string>(const TaskId&)>;
  template <typename R, typename... Params, typename... Args>
  auto CallWith(R (*function)(Params...), const Fetch& fetch, const std::string& library, const Args&... arguments) {
    static_assert(sizeof...(Params) == sizeof...(Args), "the function has another number of parameters");
    wire::TaskSpec spec;
    ValueWriter out;
    out.Head(ValueMajor::kArray, sizeof...(Args));
    Status status;
    int32_t position = 0;
    ((status.ok() ? void(status = Argument<std::decay_t<Params>>(arguments, position++, fetch, &spec, &out)) : void()),
     ...);
    spec.arguments = out.Take();
    if (status.ok()) status = PrepareCall(reinterpret_cast<const void*>(function), library, &spec);
    using Value = typename function_internal::ResultValue<R>::Type;
    if (!status.ok()) {
      if (status_.ok()) status_ = status;
      return Ref<Value>({}, status);
    }
    return Ref<Value>({id_, Add(std::move(spec)).index}, Status());
  }

 private:
  template <typename Param, typename Arg>
  Status Argument(const Arg& argument, int32_t position, const Fetch& fetch, wire::TaskSpec* spec, ValueWriter* out) {
    if constexpr (serialize_internal::IsA<Arg, Ref>::value) {
      static_assert(std::is_same_v<Arg, Ref<Param>>, "the Ref is of another type than the parameter");
      PILLION_RETURN_IF_ERROR(argument.status());
      return RefArgument(argument.task(), position, fetch, spec, out);
    } else {
      static_assert(std::is_convertible_v<const Arg&, Param>, "the argument does not fit the parameter");
      WriteValue(static_cast<Param>(argument), out);
      return Status();
    }
  }
  Status RefArgument(const TaskId& task, int32_t position, const Fetch& fetch, wire::TaskSpec* spec, ValueWriter* out);
  Status PrepareCall(const void* function, const std::string& library, wire::TaskSpec* spec);

  JobId id_;
  wire::JobOptions options_;
  std::vector<wire::TaskSpec> tasks_;
  Status status_;
};

}  // namespace pillion

#endif  // PILLION_GRAPH_H_
