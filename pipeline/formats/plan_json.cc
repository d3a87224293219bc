#include "pipeline/formats/plan_json.h"

#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "pipeline/formats/csv.h"

namespace pillion::pipeline {
namespace {

using Json = nlohmann::json;

Result<int32_t> IntegerOf(const Json& value, const std::string& where) {
  if (value.is_number_integer()) {
    const int64_t number = value.get<int64_t>();
    if (number >= 0 && number <= INT32_MAX) return static_cast<int32_t>(number);
  }
  return InvalidArgument(where + " is " + value.dump() + "; a whole number from 0 on is needed");
}

Result<int32_t> IntegerAt(const Json& object, const char* key, const std::string& where) {
  auto found = object.find(key);
  if (found == object.end()) return InvalidArgument(where + ": '" + key + "' is missing");
  return IntegerOf(*found, where + ": '" + key + "'");
}

Result<Stage> ReadStage(const Json& object, const std::string& where) {
  if (!object.is_object()) return InvalidArgument(where + " is no object");
  Stage stage;
  auto layers = object.find("layers");
  if (layers == object.end() || !layers->is_array() || layers->size() != 2) {
    return InvalidArgument(where + ": 'layers' has to be [first, end]");
  }
  PILLION_ASSIGN_OR_RETURN(stage.first_layer, IntegerOf((*layers)[0], where + ": 'layers'"));
  PILLION_ASSIGN_OR_RETURN(stage.end_layer, IntegerOf((*layers)[1], where + ": 'layers'"));
  PILLION_ASSIGN_OR_RETURN(stage.device, IntegerAt(object, "device", where));
  if (auto found = object.find("recompute"); found != object.end()) {
    if (!found->is_boolean()) return InvalidArgument(where + ": 'recompute' has to be true or false");
    stage.recompute = found->get<bool>();
  }
  if (auto found = object.find("shard_devices"); found != object.end()) {
    if (!found->is_array()) return InvalidArgument(where + ": 'shard_devices' is no array");
    for (const Json& value : *found) {
      PILLION_ASSIGN_OR_RETURN(int32_t device, IntegerOf(value, where + ": 'shard_devices'"));
      stage.shard_devices.push_back(device);
    }
  }
  return stage;
}

Status ReadOrder(const Json& rows, Plan* plan) {
  for (const Json& row : rows) {
    const std::string device = "order of device " + std::to_string(plan->order.size());
    if (!row.is_array()) return InvalidArgument(device + " is no array");
    auto& order = plan->order.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string where = device + ", cell " + std::to_string(i);
      if (!row[i].is_string()) return InvalidArgument(where + " is no text");
      PILLION_RETURN_IF_ERROR(
          ParseCell(row[i].get_ref<const std::string&>(), &order).WithContext(where));
    }
  }
  return Status();
}

}  // namespace

std::string FormatPlanJson(const Plan& plan) {
  Json stages = Json::array(), order = Json::array();
  for (const Stage& stage : plan.stages) {
    Json entry = {{"layers", {stage.first_layer, stage.end_layer}}, {"device", stage.device}};
    if (stage.recompute) entry["recompute"] = true;
    if (!stage.shard_devices.empty()) entry["shard_devices"] = stage.shard_devices;
    stages.push_back(std::move(entry));
  }
  for (const auto& actions : plan.order) order.push_back(FormatCells(actions));
  const Json document = {{"schema", 1},
                         {"name", plan.name},
                         {"devices", plan.devices},
                         {"microbatches", plan.microbatches},
                         {"copies", plan.copies},
                         {"stages", std::move(stages)},
                         {"order", std::move(order)}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<Plan> ParsePlanJson(std::string_view text) {
  if (text.size() > limits::kPlanFileBytes) {
    return ResourceExhausted("the plan has " + std::to_string(text.size()) + " bytes; at most " +
                             std::to_string(limits::kPlanFileBytes) + " are read");
  }
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded() || !document.is_object()) {
    return InvalidArgument("the plan is no JSON object");
  }
  auto schema = document.find("schema");
  if (schema == document.end() || *schema != 1) {
    return Unsupported("the plan's 'schema' is not 1, the one that this version reads");
  }
  Plan plan;
  PILLION_ASSIGN_OR_RETURN(plan.devices, IntegerAt(document, "devices", "plan"));
  PILLION_ASSIGN_OR_RETURN(plan.microbatches, IntegerAt(document, "microbatches", "plan"));
  if (document.contains("copies")) {
    PILLION_ASSIGN_OR_RETURN(plan.copies, IntegerAt(document, "copies", "plan"));
  }
  if (auto name = document.find("name"); name != document.end() && name->is_string()) {
    plan.name = name->get<std::string>();
  }
  for (const char* key : {"stages", "order"}) {
    auto found = document.find(key);
    if (found == document.end() || !found->is_array()) {
      return InvalidArgument(std::string("plan: '") + key + "' has to be an array");
    }
  }
  for (const Json& entry : document["stages"]) {
    PILLION_ASSIGN_OR_RETURN(Stage stage,
                             ReadStage(entry, "stage " + std::to_string(plan.stages.size())));
    plan.stages.push_back(std::move(stage));
  }
  PILLION_RETURN_IF_ERROR(ReadOrder(document["order"], &plan));
  PILLION_RETURN_IF_ERROR(ValidateShape(plan));
  return plan;
}

}  // namespace pillion::pipeline
