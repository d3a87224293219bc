// Reading what the user gave, and telling what is wrong with it.
#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/limits.h"
#include "cli/plan/commands.h"
#include "pipeline/formats/csv.h"
#include "pipeline/formats/plan_json.h"

namespace pillion::plan {
namespace {

using nlohmann::json;

int Tell(bool as_json, const Status& status, int code) {
  if (as_json) {
    PrintJson({{"error", {{"code", StatusCodeName(status.code())}, {"message", status.message()}}}});
  } else {
    std::fprintf(stderr, "pillion-plan: %s\n", status.message().c_str());
  }
  return code;
}

// One number for all devices or one per device, separated by commas.
Result<std::vector<double>> PerDevice(const std::string& flag, const std::string& text,
                                      size_t devices) {
  std::vector<double> values;
  for (const std::string& part : CLI::detail::split(text, ',')) {
    double value = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || !std::isfinite(value) ||
        value < 0 || value > 1e9) {
      return InvalidArgument(flag + ": '" + part + "' is no number from 0 on");
    }
    values.push_back(value);
  }
  if (values.size() == 1) values.resize(devices, values.front());
  if (values.size() == devices) return values;
  return InvalidArgument(flag + " has " + std::to_string(values.size()) +
                         " values; one, or one for each of the " + std::to_string(devices) +
                         " devices, is needed");
}

}  // namespace

void PrintJson(const json& value) {
  std::printf("%s\n", value.dump(-1, ' ', false, json::error_handler_t::replace).c_str());
}

int Fail(bool as_json, const Status& status) {
  const bool failed = status.code() == StatusCode::kFailedPrecondition ||
                      status.code() == StatusCode::kCancelled ||
                      status.code() == StatusCode::kIoError ||
                      status.code() == StatusCode::kInternal;
  return Tell(as_json, status, failed ? 1 : 2);
}

int FailUsage(bool as_json, const Status& status) { return Tell(as_json, status, 2); }

void AddModelFlags(CLI::App* command, ModelFlags* flags) {
  command->add_option("--profile", flags->profile, "layer times and bytes (JSON)");
  command->add_option("--model", flags->model, "a model of the profile; may be left out if only one");
  command->add_option("--link", flags->link,
                      "LATENCY_US,GB_PER_S, or INSIDE/NODE_SIZE,BETWEEN: 8,200/8,8,25");
  command->add_option("--live-layers", flags->live_layers, "cap, for all or per device: 56 or 56,48");
  command->add_option("--memory-gib", flags->memory_gib, "cap, for all or per device: 80 or 80,40");
}

Status ApplyCaps(const ModelFlags& flags, pipeline::Costs* costs) {
  const size_t devices = costs->devices.size();
  if (!flags.live_layers.empty()) {
    PILLION_ASSIGN_OR_RETURN(auto caps, PerDevice("--live-layers", flags.live_layers, devices));
    for (size_t d = 0; d < devices; ++d) {
      costs->devices[d].live_layer_cap = static_cast<int64_t>(caps[d]);
    }
  }
  if (!flags.memory_gib.empty()) {
    PILLION_ASSIGN_OR_RETURN(auto caps, PerDevice("--memory-gib", flags.memory_gib, devices));
    for (size_t d = 0; d < devices; ++d) {
      costs->devices[d].memory_cap_bytes = static_cast<int64_t>(caps[d] * 1073741824.0);
    }
  }
  if (!flags.link.empty()) PILLION_RETURN_IF_ERROR(pipeline::ParseLinks(flags.link, costs));
  return Status();
}

Result<pipeline::Costs> LoadCosts(const ModelFlags& flags, int32_t devices) {
  PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(flags.profile, limits::kPlanFileBytes));
  auto loaded = pipeline::LoadProfile(text, flags.model);
  if (!loaded.ok()) return loaded.status().WithContext(flags.profile);
  pipeline::Costs costs = std::move(*loaded);
  pipeline::UseUniformDevices(devices, &costs);
  PILLION_RETURN_IF_ERROR(ApplyCaps(flags, &costs));
  return costs;
}

Result<pipeline::Plan> LoadPlan(const std::string& path, int32_t devices, int32_t microbatches) {
  PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path, limits::kPlanFileBytes));
  const size_t first = text.find_first_not_of(" \t\r\n");
  pipeline::Plan plan;
  if (first != std::string::npos && text[first] == '{') {
    auto parsed = pipeline::ParsePlanJson(text);
    if (!parsed.ok()) return parsed.status().WithContext(path);
    plan = std::move(*parsed);
  } else {
    auto parsed = pipeline::ParseScheduleCsv(text);
    if (!parsed.ok()) return parsed.status().WithContext(path);
    plan = std::move(parsed->plan);
  }
  auto differs = [&](const char* what, int32_t has, int32_t expected) {
    return InvalidArgument(path + " is for " + std::to_string(has) + " " + what + ", not " +
                           std::to_string(expected));
  };
  if (devices > 0 && plan.devices != devices) return differs("devices", plan.devices, devices);
  if (microbatches > 0 && plan.microbatches != microbatches) {
    return differs("micro-batches", plan.microbatches, microbatches);
  }
  return plan;
}

}  // namespace pillion::plan
