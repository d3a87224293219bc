// The graph file: one JSON object.
//
//   {"schema": 1, "name": "nightly", "owner": "vision", "priority": 0,
//    "tasks": [
//      {"name": "thumbs", "program": "resize", "arguments": {"folder": "in", "width": 320}},
//      {"name": "rank", "program": "pagerank", "after": ["thumbs"], "max_steps": 200},
//      {"name": "four", "kind": "call", "program": "Square", "library": "/opt/libmath.so", "arguments": [2]},
//      {"name": "sixteen", "kind": "call", "program": "Square", "arguments": [{"result_of": "four"}]}]}
//
// schema (1) and tasks are required, as is each task's program. A task's other keys:
//   name              text, unique in the file; what "after" and "result_of" refer to
//   kind              "steps" (default), "call" or "command" (program is then the executable's path)
//   library           path of a shared library that registers the program
//   arguments         steps, command: a flat object. call: a list of values; {"result_of": NAME} stands for a result
//   after             names of tasks that must have succeeded before
//   max_steps         steps: ends after so many
//   priority, memory_mib, device ("cpu" or "cuda"), minimum_bubble_us, app_retries, deadline_s, wait_for_device
// Unknown keys are errors.
#include "cli/graph_file.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/limits.h"
#include "pillion/arguments.h"

namespace pillion::cli {

using nlohmann::json;

namespace {

constexpr uint64_t kGraphFileBytes = uint64_t{1} << 30;

Status CheckKeys(const json& object, const std::vector<std::string>& known, const std::string& where) {
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string near = NearestName(key, known);
    return InvalidArgument(where + ": unknown key '" + key + "'" +
                           (near.empty() ? "" : ": did you mean '" + near + "'?"));
  }
  return Status();
}

// Reads object[key] into *to when it is there and of the right type and range.
template <typename T>
Status Take(const json& object, const char* key, T* to, const std::string& where) {
  auto found = object.find(key);
  if (found == object.end()) return Status();
  bool fits = false;
  if constexpr (std::is_same_v<T, bool>) {
    fits = found->is_boolean();
  } else if constexpr (std::is_same_v<T, std::string>) {
    fits = found->is_string();
  } else if constexpr (std::is_floating_point_v<T>) {
    fits = found->is_number();
  } else if (found->is_number_unsigned()) {
    fits = found->get<uint64_t>() <= static_cast<uint64_t>(std::numeric_limits<T>::max());
  } else if (found->is_number_integer()) {
    fits = std::is_signed_v<T> && found->get<int64_t>() >= static_cast<int64_t>(std::numeric_limits<T>::min());
  }
  if (!fits) {
    return InvalidArgument(where + ": '" + key + "' is " + found->dump() + ", which is of the wrong type or out of range");
  }
  *to = found->get<T>();
  return Status();
}

class GraphReader {
 public:
  explicit GraphReader(std::string name) : name_(std::move(name)) {}
  Result<Graph> Read(const json& root);

 private:
  Status ReadNames(const json& tasks);
  Status ReadTask(const json& task, uint32_t index, Graph* graph);
  Status ReadOptions(const json& task, const std::string& where, wire::TaskOptions* options);
  Status ReadArguments(const json& arguments, const std::string& where, wire::TaskSpec* spec);
  Status ReadCallArguments(const json& arguments, const std::string& where, wire::TaskSpec* spec);
  Status WriteCallValue(const json& value, const std::string& where, ValueWriter* out);
  Result<uint32_t> Lookup(const json& name, const char* key, const std::string& where);

  std::string name_;
  std::map<std::string, uint32_t> by_name_;
  std::vector<std::string> names_;
};

Result<Graph> GraphReader::Read(const json& root) {
  if (!root.is_object()) return InvalidArgument(name_ + ": a JSON object is expected");
  PILLION_RETURN_IF_ERROR(CheckKeys(root, {"schema", "name", "owner", "priority", "tasks"}, name_));
  int64_t schema = 0;
  PILLION_RETURN_IF_ERROR(Take(root, "schema", &schema, name_));
  if (schema != 1) {
    return Unsupported(name_ + ": 'schema' is " + std::to_string(schema) + ", this version reads 1");
  }
  wire::JobOptions options;
  PILLION_RETURN_IF_ERROR(Take(root, "name", &options.name, name_));
  PILLION_RETURN_IF_ERROR(Take(root, "owner", &options.owner, name_));
  PILLION_RETURN_IF_ERROR(Take(root, "priority", &options.priority, name_));
  auto tasks = root.find("tasks");
  if (tasks == root.end() || !tasks->is_array() || tasks->empty()) {
    return InvalidArgument(name_ + ": 'tasks' has to be a list with at least one task");
  }
  PILLION_RETURN_IF_ERROR(ReadNames(*tasks));
  Graph graph(options);
  for (uint32_t i = 0; i < tasks->size(); ++i) PILLION_RETURN_IF_ERROR(ReadTask((*tasks)[i], i, &graph));
  PILLION_RETURN_IF_ERROR(graph.status().WithContext(name_));
  return graph;
}

// First, because tasks may refer to later ones.
Status GraphReader::ReadNames(const json& tasks) {
  for (uint32_t i = 0; i < tasks.size(); ++i) {
    const std::string where = name_ + ": task " + std::to_string(i);
    if (!tasks[i].is_object()) return InvalidArgument(where + " is no object");
    std::string name;
    PILLION_RETURN_IF_ERROR(Take(tasks[i], "name", &name, where));
    if (name.empty()) continue;
    if (!by_name_.emplace(name, i).second) return InvalidArgument(where + ": the name '" + name + "' is taken already");
    names_.push_back(name);
  }
  return Status();
}

Result<uint32_t> GraphReader::Lookup(const json& name, const char* key, const std::string& where) {
  if (!name.is_string()) return InvalidArgument(where + ": '" + key + "' has to name a task");
  auto found = by_name_.find(name.get<std::string>());
  if (found != by_name_.end()) return found->second;
  const std::string near = NearestName(name.get<std::string>(), names_);
  return InvalidArgument(where + ": '" + key + "' names no task: " + name.dump() +
                         (near.empty() ? "" : "; did you mean '" + near + "'?"));
}

Status GraphReader::ReadOptions(const json& task, const std::string& where, wire::TaskOptions* options) {
  PILLION_RETURN_IF_ERROR(Take(task, "priority", &options->priority, where));
  uint32_t memory_mib = 0;
  PILLION_RETURN_IF_ERROR(Take(task, "memory_mib", &memory_mib, where));
  options->memory_bytes = uint64_t{memory_mib} << 20;
  std::string device;
  PILLION_RETURN_IF_ERROR(Take(task, "device", &device, where));
  if (device == "cpu") {
    options->device_kind = static_cast<uint8_t>(DeviceKind::kCpu);
  } else if (device == "cuda") {
    options->device_kind = static_cast<uint8_t>(DeviceKind::kCuda);
  } else if (!device.empty()) {
    return InvalidArgument(where + ": 'device' is '" + device + "', but cpu and cuda are the kinds there are");
  }
  PILLION_RETURN_IF_ERROR(Take(task, "minimum_bubble_us", &options->minimum_bubble_us, where));
  PILLION_RETURN_IF_ERROR(Take(task, "app_retries", &options->app_retries, where));
  double deadline_s = 0;
  PILLION_RETURN_IF_ERROR(Take(task, "deadline_s", &deadline_s, where));
  if (!(deadline_s >= 0 && deadline_s < 1e9)) return InvalidArgument(where + ": 'deadline_s' is out of range");
  options->deadline_ms = static_cast<int64_t>(deadline_s * 1000);
  return Take(task, "wait_for_device", &options->wait_for_device, where);
}

Status GraphReader::WriteCallValue(const json& value, const std::string& where, ValueWriter* out) {
  switch (value.type()) {
    case json::value_t::null: out->Null(); return Status();
    case json::value_t::boolean: out->Bool(value.get<bool>()); return Status();
    case json::value_t::number_unsigned: out->Head(ValueMajor::kUnsigned, value.get<uint64_t>()); return Status();
    case json::value_t::number_integer: out->Integer(value.get<int64_t>()); return Status();
    case json::value_t::number_float: out->Double(value.get<double>()); return Status();
    case json::value_t::string: out->Text(value.get_ref<const std::string&>()); return Status();
    case json::value_t::array:
      out->Head(ValueMajor::kArray, value.size());
      for (const json& each : value) PILLION_RETURN_IF_ERROR(WriteCallValue(each, where, out));
      return Status();
    case json::value_t::object:
      out->Head(ValueMajor::kMap, value.size());
      for (const auto& [key, each] : value.items()) {
        out->Text(key);
        PILLION_RETURN_IF_ERROR(WriteCallValue(each, where, out));
      }
      return Status();
    default: return InvalidArgument(where + ": 'arguments' has a value of a kind that cannot be passed");
  }
}

Status GraphReader::ReadCallArguments(const json& arguments, const std::string& where, wire::TaskSpec* spec) {
  if (!arguments.is_array()) return InvalidArgument(where + ": 'arguments' of a call are a list");
  ValueWriter out;
  out.Head(ValueMajor::kArray, arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const json& value = arguments[i];
    if (value.is_object() && value.size() == 1 && value.contains("result_of")) {
      PILLION_ASSIGN_OR_RETURN(uint32_t index, Lookup(value["result_of"], "result_of", where));
      spec->dependencies.push_back({index, static_cast<int32_t>(i)});
      out.Undefined();
    } else {
      PILLION_RETURN_IF_ERROR(WriteCallValue(value, where, &out));
    }
  }
  spec->arguments = out.Take();
  return Status();
}

Status GraphReader::ReadArguments(const json& arguments, const std::string& where, wire::TaskSpec* spec) {
  if (spec->kind == wire::TaskKind::kCall) return ReadCallArguments(arguments, where, spec);
  spec->arguments = arguments.dump(-1, ' ', false, json::error_handler_t::replace);
  return Arguments::Parse(spec->arguments).status().WithContext(where + ": 'arguments'");
}

Status GraphReader::ReadTask(const json& task, uint32_t index, Graph* graph) {
  std::string where = name_ + ": task " + std::to_string(index);
  if (task.contains("name")) where += " (" + task["name"].get<std::string>() + ")";
  PILLION_RETURN_IF_ERROR(CheckKeys(
      task, {"name", "kind", "program", "library", "arguments", "after", "max_steps", "priority", "memory_mib", "device",
             "minimum_bubble_us", "app_retries", "deadline_s", "wait_for_device"}, where));
  wire::TaskSpec spec;
  std::string kind = "steps";
  PILLION_RETURN_IF_ERROR(Take(task, "kind", &kind, where));
  if (kind == "call") {
    spec.kind = wire::TaskKind::kCall;
  } else if (kind == "command") {
    spec.kind = wire::TaskKind::kCommand;
  } else if (kind != "steps") {
    return InvalidArgument(where + ": 'kind' is '" + kind + "', but steps, call and command are the kinds there are");
  }
  PILLION_RETURN_IF_ERROR(Take(task, "name", &spec.name, where));
  PILLION_RETURN_IF_ERROR(Take(task, "program", &spec.program, where));
  if (spec.program.empty()) return InvalidArgument(where + ": 'program' is missing");
  PILLION_RETURN_IF_ERROR(Take(task, "library", &spec.library, where));
  PILLION_RETURN_IF_ERROR(Take(task, "max_steps", &spec.max_steps, where));
  PILLION_RETURN_IF_ERROR(ReadOptions(task, where, &spec.options));
  const json none = spec.kind == wire::TaskKind::kCall ? json::array() : json::object();
  PILLION_RETURN_IF_ERROR(ReadArguments(task.value("arguments", none), where, &spec));
  const json after = task.value("after", json::array());
  if (!after.is_array()) return InvalidArgument(where + ": 'after' is a list of task names");
  for (const json& name : after) {
    PILLION_ASSIGN_OR_RETURN(uint32_t on, Lookup(name, "after", where));
    spec.dependencies.push_back({on, -1});
  }
  graph->Add(std::move(spec));
  return Status();
}

}  // namespace

Result<Graph> ParseGraph(const std::string& name, const std::string& text) {
  json root;
  try {
    root = json::parse(text);
    return GraphReader(name).Read(root);
  } catch (const json::exception& exception) {
    return InvalidArgument(name + ": " + exception.what());
  }
}

Result<Graph> ReadGraphFile(const std::string& path) {
  PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kGraphFileBytes));
  return ParseGraph(path, text);
}

Result<std::string> ArgumentsFromPairs(const std::vector<std::string>& pairs) {
  json object = json::object();
  for (const std::string& pair : pairs) {
    const size_t equals = pair.find('=');
    if (equals == std::string::npos || equals == 0) {
      return InvalidArgument("'" + pair + "' is no argument: key=value is expected");
    }
    const std::string key = pair.substr(0, equals), text = pair.substr(equals + 1);
    if (object.contains(key)) return InvalidArgument("the argument '" + key + "' is given twice");
    json value = json::parse(text, nullptr, false);
    object[key] = value.is_discarded() || !value.is_primitive() || value.is_null() ? json(text) : value;
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace pillion::cli
