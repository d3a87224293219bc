// The text of --link: RULE [ "/" NODE_SIZE "," RULE ]; RULE = LATENCY_US "," GB_PER_S (0 =
// infinitely fast).
#include <charconv>
#include <cmath>

#include "pipeline/costs.h"

namespace pillion::pipeline {
namespace {

Status Malformed(std::string_view text, std::string_view token) {
  return InvalidArgument(
      "'" + std::string(token) + "' in link '" + std::string(text) +
      "': LATENCY_US,GB_PER_S or LATENCY_US,GB_PER_S/NODE_SIZE,LATENCY_US,GB_PER_S is expected, "
      "for example 8,200/8,8,25");
}

bool ParseNumber(std::string_view token, double* value) {
  const auto result = std::from_chars(token.data(), token.data() + token.size(), *value);
  return result.ec == std::errc() && result.ptr == token.data() + token.size() &&
         std::isfinite(*value) && *value >= 0 && *value < 1e12;
}

Status ParseRule(std::string_view whole, std::string_view text, int64_t tick_ns, Link* link) {
  const size_t comma = text.find(',');
  double latency_us = 0, gigabytes_per_s = 0;
  if (comma == std::string_view::npos || !ParseNumber(text.substr(0, comma), &latency_us) ||
      !ParseNumber(text.substr(comma + 1), &gigabytes_per_s)) {
    return Malformed(whole, text);
  }
  link->latency = static_cast<Ticks>(std::ceil(latency_us * 1e3 / static_cast<double>(tick_ns)));
  link->bytes_per_tick = gigabytes_per_s * static_cast<double>(tick_ns);  // 1 GB/s is 1 byte per ns
  return Status();
}

}  // namespace

Status ParseLinks(std::string_view text, Costs* costs) {
  Link inside;
  const size_t slash = text.find('/');
  PILLION_RETURN_IF_ERROR(ParseRule(text, text.substr(0, slash), costs->tick_ns, &inside));
  if (slash == std::string_view::npos) {
    UseLinks(inside, inside, 1, costs);
    return Status();
  }
  const std::string_view rest = text.substr(slash + 1);
  const size_t comma = rest.find(',');
  double node_size = 0;
  if (comma == std::string_view::npos || !ParseNumber(rest.substr(0, comma), &node_size) ||
      node_size < 1 || node_size > 1e6 || node_size != std::floor(node_size)) {
    return Malformed(text, rest);
  }
  Link between;
  PILLION_RETURN_IF_ERROR(ParseRule(text, rest.substr(comma + 1), costs->tick_ns, &between));
  UseLinks(inside, between, static_cast<int32_t>(node_size), costs);
  return Status();
}

}  // namespace pillion::pipeline
