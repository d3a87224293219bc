// A task's arguments: a flat JSON object, read by name with defaults. Unknown and ill-typed arguments are errors
// that name the argument and the nearest known one.
#ifndef PILLION_ARGUMENTS_H_
#define PILLION_ARGUMENTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pillion {

class Arguments {
 public:
  // A JSON object whose values are texts, numbers or booleans; kInvalidArgument says where it is not.
  static Result<Arguments> Parse(std::string_view json);

  // Each getter marks the name as known. Absent: the default, or kInvalidArgument when there is none.
  Result<std::string> Text(std::string_view name, std::optional<std::string> fallback = std::nullopt) const;
  Result<int64_t> Integer(std::string_view name, std::optional<int64_t> fallback = std::nullopt,
                          int64_t least = INT64_MIN, int64_t most = INT64_MAX) const;
  Result<double> Number(std::string_view name, std::optional<double> fallback = std::nullopt) const;
  Result<bool> Boolean(std::string_view name, std::optional<bool> fallback = std::nullopt) const;

  // Call after the last getter: kInvalidArgument naming the first argument that no getter asked for.
  Status CheckAllKnown() const;

  std::string ToJson() const;

 private:
  struct Value {
    enum class Kind { kText, kInteger, kNumber, kBoolean } kind;
    std::string text;  // as written, for messages; the text itself for kText
    int64_t integer = 0;
    double number = 0;
    bool boolean = false;
  };
  const Value* Find(std::string_view name) const;

  std::map<std::string, Value, std::less<>> values_;
  mutable std::set<std::string, std::less<>> known_;
};

// The candidate nearest to `text` by edit distance, or "" when none is near.
std::string NearestName(std::string_view text, const std::vector<std::string>& candidates);

}  // namespace pillion

#endif  // PILLION_ARGUMENTS_H_
