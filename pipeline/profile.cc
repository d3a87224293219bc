// Profiles: the layer times of models, as JSON.
//
//   { "schema": 1, "models": [ {
//       "model": NAME,
//       "layers": one symbol (ASCII character) per layer, in order,
//       "sequence_length": n, "micro_batch_size": n, "hidden_size": n,     (for output_bytes: their
//       product × 2) "layer_types": { SYMBOL: {
//           "kind": text,                        "embedding" and "head…" are no body layers
//           "forward_ms": x, "input_gradient_ms": x, "weight_gradient_ms": x,
//           "parameters": n,                                               (optional)
//           "activation_bytes_per_microbatch": n,                          (optional)
//           "activation_bytes_freed_at_input_gradient": n,                 (optional part of the
//           former) "output_bytes_per_microbatch": n } } } ] }                     (optional)
//
// Other keys are ignored: profiles carry notes. ms become ticks by rounding to the nearest.
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/limits.h"
#include "pipeline/costs.h"

namespace pillion::pipeline {
namespace {

using Json = nlohmann::json;

Result<Json> ParseDocument(std::string_view text) {
  Json document;
  try {
    document = Json::parse(text);
  } catch (const Json::exception& error) {
    return InvalidArgument(
        std::string("the profile is no JSON (NaN and Infinity are none either): ") + error.what());
  }
  if (!document.is_object() || !document.contains("models") || !document["models"].is_array()) {
    return InvalidArgument("the profile has no array 'models'");
  }
  if (document.contains("schema") && document["schema"] != 1) {
    return Unsupported("the profile's schema is " + document["schema"].dump() +
                       "; this version reads schema 1");
  }
  return document;
}

std::string TextOf(const Json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// The number at `key`, or `fallback` (negative: none, the key is needed).
Result<double> NumberOf(const Json& object, const char* key, double fallback,
                        const std::string& where) {
  auto found = object.find(key);
  if (found == object.end()) {
    if (fallback >= 0) return fallback;
    return InvalidArgument(where + ": '" + key + "' is missing");
  }
  if (!found->is_number()) {
    return InvalidArgument(where + ": '" + key + "' is " + found->dump() + "; a number is needed");
  }
  const double value = found->get<double>();
  if (!std::isfinite(value) || value < 0 || value > 1e15) {
    return InvalidArgument(where + ": '" + key + "' is " + found->dump() +
                           "; a finite number of 0 or more is needed");
  }
  return value;
}

Result<Layer> ReadLayerType(const Json& type, char symbol, double output_bytes,
                            const ProfileOptions& options, const std::string& where) {
  if (!type.is_object()) return InvalidArgument(where + " is no object");
  Layer layer;
  layer.symbol = symbol;
  const struct {
    const char* key;
    Ticks* ticks;
  } times[] = {{"forward_ms", &layer.forward},
               {"input_gradient_ms", &layer.input_gradient},
               {"weight_gradient_ms", &layer.weight_gradient}};
  for (const auto& time : times) {
    PILLION_ASSIGN_OR_RETURN(const double ms, NumberOf(type, time.key, -1, where));
    const double ticks = std::round(ms * 1e6 / static_cast<double>(options.tick_ns));
    if (ticks > static_cast<double>(limits::kLayerTicks)) {
      return InvalidArgument(where + ": '" + time.key + "' is longer than kLayerTicks");
    }
    *time.ticks = static_cast<Ticks>(ticks);
  }
  PILLION_ASSIGN_OR_RETURN(const double parameters, NumberOf(type, "parameters", 0, where));
  PILLION_ASSIGN_OR_RETURN(const double activations,
                           NumberOf(type, "activation_bytes_per_microbatch", 0, where));
  PILLION_ASSIGN_OR_RETURN(const double freed,
                           NumberOf(type, "activation_bytes_freed_at_input_gradient", 0, where));
  PILLION_ASSIGN_OR_RETURN(const double output,
                           NumberOf(type, "output_bytes_per_microbatch", output_bytes, where));
  if (freed > activations) {
    return InvalidArgument(
        where + ": more activation bytes are freed at the input gradient than there are");
  }
  layer.parameter_bytes = std::llround(parameters * options.bytes_per_parameter);
  layer.activation_bytes_until_input_gradient = std::llround(freed);
  layer.activation_bytes_until_weight_gradient = std::llround(activations - freed);
  layer.output_bytes = std::llround(output);
  const std::string kind = TextOf(type, "kind");
  layer.is_body = kind != "embedding" && kind.rfind("head", 0) != 0;
  return layer;
}

Result<Costs> ReadModel(const Json& model, const ProfileOptions& options) {
  Costs costs;
  costs.tick_ns = options.tick_ns;
  costs.model = TextOf(model, "model");
  const std::string where = "model '" + costs.model + "'";
  const std::string symbols = TextOf(model, "layers");
  if (symbols.empty())
    return InvalidArgument(where + " has no layers: 'layers' needs one symbol per layer");
  if (symbols.size() > static_cast<size_t>(limits::kModelLayers)) {
    return ResourceExhausted(where + " has more than kModelLayers layers");
  }
  auto types = model.find("layer_types");
  if (types == model.end() || !types->is_object())
    return InvalidArgument(where + " has no object 'layer_types'");
  double output_bytes = 2;
  for (const char* key : {"sequence_length", "micro_batch_size", "hidden_size"}) {
    PILLION_ASSIGN_OR_RETURN(const double factor, NumberOf(model, key, 0, where));
    output_bytes *= factor;
  }
  std::map<char, Layer> known;
  for (size_t i = 0; i < symbols.size(); ++i) {
    const char symbol = symbols[i];
    if (known.count(symbol) == 0) {
      auto type = types->find(std::string(1, symbol));
      const std::string type_where = where + ", layer type '" + std::string(1, symbol) + "'";
      if (type == types->end()) {
        return InvalidArgument(type_where + ": layer " + std::to_string(i) +
                               " uses it, 'layer_types' has no such key");
      }
      PILLION_ASSIGN_OR_RETURN(known[symbol],
                               ReadLayerType(*type, symbol, output_bytes, options, type_where));
    }
    costs.layers.push_back(known[symbol]);
  }
  return costs;
}

}  // namespace

Result<std::vector<std::string>> ListProfileModels(std::string_view json) {
  PILLION_ASSIGN_OR_RETURN(const Json document, ParseDocument(json));
  std::vector<std::string> names;
  for (const Json& model : document["models"]) {
    if (!model.is_object())
      return InvalidArgument("the profile's 'models' holds something that is no object");
    names.push_back(TextOf(model, "model"));
  }
  return names;
}

Result<Costs> LoadProfile(std::string_view json, std::string_view model,
                          const ProfileOptions& options) {
  if (options.tick_ns <= 0 || !std::isfinite(options.bytes_per_parameter) ||
      options.bytes_per_parameter < 0) {
    return InvalidArgument("ticks and bytes per parameter have to be positive");
  }
  PILLION_ASSIGN_OR_RETURN(const Json document, ParseDocument(json));
  const Json& models = document["models"];
  std::string known;
  for (const Json& candidate : models) {
    if (!candidate.is_object())
      return InvalidArgument("the profile's 'models' holds something that is no object");
    const std::string name = TextOf(candidate, "model");
    if (name == model || (model.empty() && models.size() == 1))
      return ReadModel(candidate, options);
    known += (known.empty() ? "" : ", ") + name;
  }
  if (model.empty())
    return InvalidArgument("the profile has several models; choose one of: " + known);
  return NotFound("the profile has no model '" + std::string(model) + "'; it has: " + known);
}

}  // namespace pillion::pipeline
