// Logging to stderr as key=value (or JSON) lines. Thread-safe. Lines about a task carry task= and epoch=.
//   log::Info("lease granted", {{"task", task.ToString()}, {"epoch", epoch}});
#ifndef PILLION_BASE_LOG_H_
#define PILLION_BASE_LOG_H_

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace pillion::log {

enum class Level { kDebug, kInfo, kWarning, kError };
enum class Format { kText, kJson };

struct Field {
  std::string_view key;
  std::string value;

  template <typename T>
  Field(std::string_view k, const T& v) : key(k) {
    if constexpr (std::is_same_v<T, bool>) {
      value = v ? "true" : "false";
    } else if constexpr (std::is_arithmetic_v<T>) {
      value = std::to_string(v);
    } else {
      value = std::string(v);
    }
  }
};

// Called once by main(), before threads start. `program` is the first field of every line.
void Configure(std::string_view program, Level least, Format format);
bool ParseLevel(std::string_view text, Level* level);  // debug | info | warning | error

void Write(Level level, std::string_view event, std::initializer_list<Field> fields = {});
inline void Debug(std::string_view event, std::initializer_list<Field> fields = {}) {
  Write(Level::kDebug, event, fields);
}
inline void Info(std::string_view event, std::initializer_list<Field> fields = {}) {
  Write(Level::kInfo, event, fields);
}
inline void Warning(std::string_view event, std::initializer_list<Field> fields = {}) {
  Write(Level::kWarning, event, fields);
}
inline void Error(std::string_view event, std::initializer_list<Field> fields = {}) {
  Write(Level::kError, event, fields);
}

}  // namespace pillion::log

#endif  // PILLION_BASE_LOG_H_
