#include "api/pillion/arguments.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace pillion {
namespace {

using Json = nlohmann::json;

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

Status WrongType(std::string_view name, std::string_view expected, const std::string& got) {
  return InvalidArgument("argument '" + std::string(name) + "' must be " + std::string(expected) + ", not " + got);
}

}  // namespace

std::string NearestName(std::string_view text, const std::vector<std::string>& candidates) {
  constexpr size_t kLongestCompared = 128;
  if (text.size() > kLongestCompared) return "";
  std::string nearest;
  size_t least = std::max<size_t>(1, text.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kLongestCompared) continue;
    size_t distance = EditDistance(text, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

Result<Arguments> Arguments::Parse(std::string_view text) {
  Arguments arguments;
  if (text.empty()) return arguments;
  Json json;
  try {
    json = Json::parse(text);
  } catch (const std::exception& error) {
    return InvalidArgument(std::string("the arguments are no JSON: ") + error.what());
  }
  if (!json.is_object()) {
    return InvalidArgument(std::string("the arguments must be a JSON object, not ") + json.type_name());
  }
  for (const auto& [name, value] : json.items()) {
    Value parsed;
    if (value.is_string()) {
      parsed.kind = Value::Kind::kText;
      parsed.text = value.get<std::string>();
    } else if (value.is_boolean()) {
      parsed.kind = Value::Kind::kBoolean;
      parsed.boolean = value.get<bool>();
      parsed.text = parsed.boolean ? "true" : "false";
    } else if (value.is_number_integer() &&
               !(value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))) {
      parsed.kind = Value::Kind::kInteger;
      parsed.integer = value.get<int64_t>();
      parsed.number = static_cast<double>(parsed.integer);
      parsed.text = value.dump();
    } else if (value.is_number()) {
      parsed.kind = Value::Kind::kNumber;
      parsed.number = value.get<double>();
      parsed.text = value.dump();
    } else {
      return WrongType(name, "a text, a number, true or false", value.type_name());
    }
    arguments.values_.emplace(name, std::move(parsed));
  }
  return arguments;
}

const Arguments::Value* Arguments::Find(std::string_view name) const {
  known_.emplace(name);
  auto found = values_.find(name);
  return found == values_.end() ? nullptr : &found->second;
}

Result<std::string> Arguments::Text(std::string_view name, std::optional<std::string> fallback) const {
  const Value* value = Find(name);
  if (value == nullptr) {
    if (fallback) return *std::move(fallback);
    return InvalidArgument("argument '" + std::string(name) + "' (a text) is missing");
  }
  if (value->kind != Value::Kind::kText) return WrongType(name, "a text", value->text);
  return value->text;
}

Result<int64_t> Arguments::Integer(std::string_view name, std::optional<int64_t> fallback, int64_t least,
                                   int64_t most) const {
  const Value* value = Find(name);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return InvalidArgument("argument '" + std::string(name) + "' (an integer) is missing");
  }
  if (value->kind != Value::Kind::kInteger) return WrongType(name, "an integer", value->text);
  if (value->integer < least || value->integer > most) {
    return InvalidArgument("argument '" + std::string(name) + "' is " + value->text + ": it must be from " +
                           std::to_string(least) + " to " + std::to_string(most));
  }
  return value->integer;
}

Result<double> Arguments::Number(std::string_view name, std::optional<double> fallback) const {
  const Value* value = Find(name);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return InvalidArgument("argument '" + std::string(name) + "' (a number) is missing");
  }
  if (value->kind != Value::Kind::kInteger && value->kind != Value::Kind::kNumber) {
    return WrongType(name, "a number", value->text);
  }
  return value->number;
}

Result<bool> Arguments::Boolean(std::string_view name, std::optional<bool> fallback) const {
  const Value* value = Find(name);
  if (value == nullptr) {
    if (fallback) return *fallback;
    return InvalidArgument("argument '" + std::string(name) + "' (true or false) is missing");
  }
  if (value->kind != Value::Kind::kBoolean) return WrongType(name, "true or false", value->text);
  return value->boolean;
}

Status Arguments::CheckAllKnown() const {
  for (const auto& [name, value] : values_) {
    if (known_.count(name) != 0) continue;
    std::string nearest = NearestName(name, {known_.begin(), known_.end()});
    std::string hint = nearest.empty() ? "" : ": did you mean '" + nearest + "'?";
    return InvalidArgument("unknown argument '" + name + "'" + hint);
  }
  return Status::Ok();
}

std::string Arguments::ToJson() const {
  Json json = Json::object();
  for (const auto& [name, value] : values_) {
    switch (value.kind) {
      case Value::Kind::kText: json[name] = value.text; break;
      case Value::Kind::kInteger: json[name] = value.integer; break;
      case Value::Kind::kNumber: json[name] = value.number; break;
      case Value::Kind::kBoolean: json[name] = value.boolean; break;
    }
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pillion
