#include "base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <memory>

#include "base/clock.h"

namespace pillion::log {
namespace {

struct Settings {
  std::string program = "pillion";
  Format format = Format::kText;
  std::shared_ptr<spdlog::logger> logger;
};

Settings& Get() {
  static Settings settings = [] {
    Settings made;
    made.logger = std::make_shared<spdlog::logger>("pillion", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made.logger->set_pattern("%v");
    made.logger->set_level(spdlog::level::info);
    return made;
  }();
  return settings;
}

spdlog::level::level_enum ToSpdlog(Level level) {
  switch (level) {
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarning: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

constexpr std::string_view kLevelNames[] = {"debug", "info", "warning", "error"};

void AppendQuoted(std::string* out, std::string_view text) {
  out->push_back('"');
  for (char c : text) {
    switch (c) {
      case '"': *out += "\\\""; break;
      case '\\': *out += "\\\\"; break;
      case '\n': *out += "\\n"; break;
      case '\r': *out += "\\r"; break;
      case '\t': *out += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char code[8];
          std::snprintf(code, sizeof code, "\\u%04x", c);
          *out += code;
        } else {
          out->push_back(c);
        }
    }
  }
  out->push_back('"');
}

void AppendPlain(std::string* out, std::string_view text) {
  bool plain = !text.empty() && text.find_first_of(" \"=\\\n\r\t") == std::string_view::npos;
  if (plain) {
    *out += text;
  } else {
    AppendQuoted(out, text);
  }
}

}  // namespace

void Configure(std::string_view program, Level least, Format format) {
  Settings& settings = Get();
  settings.program = program;
  settings.format = format;
  settings.logger->set_level(ToSpdlog(least));
}

bool ParseLevel(std::string_view text, Level* level) {
  for (size_t i = 0; i < std::size(kLevelNames); ++i) {
    if (text == kLevelNames[i]) {
      *level = static_cast<Level>(i);
      return true;
    }
  }
  return false;
}

void Write(Level level, std::string_view event, std::initializer_list<Field> fields) {
  Settings& settings = Get();
  if (!settings.logger->should_log(ToSpdlog(level))) return;
  bool json = settings.format == Format::kJson;
  std::string line;
  auto add = [&](std::string_view key, std::string_view value) {
    if (json) {
      line += line.empty() ? "{" : ",";
      AppendQuoted(&line, key);
      line += ":";
      AppendQuoted(&line, value);
    } else {
      if (!line.empty()) line += " ";
      line += key;
      line += "=";
      AppendPlain(&line, value);
    }
  };
  add("time", FormatIso8601Utc(WallNowNs()));
  add("level", kLevelNames[static_cast<int>(level)]);
  add("program", settings.program);
  add("event", event);
  for (const Field& field : fields) add(field.key, field.value);
  if (json) line += "}";
  settings.logger->log(ToSpdlog(level), "{}", line);
}

}  // namespace pillion::log
