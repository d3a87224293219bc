#include "api/config/settings.h"

#include <stdexcept>

// The parser asserts some of what a broken file can bring about, and without assertions assumes it:
// an error, not the end of the process, and in every build.
#undef NDEBUG
#define TOML_ASSERT(condition) \
  (static_cast<bool>(condition) ? void() : throw std::logic_error("broken TOML (" #condition ")"))
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wterminate"
#endif
#include <toml++/toml.h>
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <sstream>
#include <variant>

#include "base/check.h"
#include "base/file.h"
#include "base/limits.h"
#include "base/version.h"
#include "pillion/arguments.h"

namespace pillion::config {
namespace {

const std::vector<std::string>& Sections() {
  static const std::vector<std::string> sections = {"client", "head", "worker"};
  return sections;
}

struct TextTarget {
  std::string* value;
  std::vector<std::string> choices;  // empty: any
};
struct IntegerTarget {
  int64_t* value;
  int64_t least, most;
};
struct NumberTarget {
  double* value;
  double least, most;
};
struct BooleanTarget {
  bool* value;
};

struct Setting {
  std::string name;
  std::string help;
  std::variant<TextTarget, IntegerTarget, NumberTarget, BooleanTarget> target;
  bool action = false;
};

std::string FlagName(const std::string& name) {
  std::string flag = name;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return "--" + flag;
}

std::string EnvironmentName(const std::string& name) {
  std::string variable = "PILLION_";
  for (char c : name)
    variable.push_back(static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return variable;
}

std::string Plain(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

std::string DefaultText(const Setting& setting) {
  struct Visitor {
    std::string operator()(const TextTarget& t) const { return *t.value; }
    std::string operator()(const IntegerTarget& t) const { return std::to_string(*t.value); }
    std::string operator()(const NumberTarget& t) const { return Plain(*t.value); }
    std::string operator()(const BooleanTarget& t) const { return *t.value ? "true" : "false"; }
  };
  return std::visit(Visitor(), setting.target);
}

// ---- one value into its variable; `where` begins each message ----

Status SetText(const TextTarget& target, const std::string& text, const std::string& where) {
  if (!target.choices.empty() &&
      std::find(target.choices.begin(), target.choices.end(), text) == target.choices.end()) {
    std::string all;
    for (const std::string& choice : target.choices) all += (all.empty() ? "" : ", ") + choice;
    return InvalidArgument(where + ": '" + text + "' is not one of " + all);
  }
  *target.value = text;
  return Status::Ok();
}

Status SetInteger(const IntegerTarget& target, int64_t value, const std::string& where) {
  if (value < target.least || value > target.most) {
    return InvalidArgument(where + ": " + std::to_string(value) + " is not between " +
                           std::to_string(target.least) + " and " + std::to_string(target.most));
  }
  *target.value = value;
  return Status::Ok();
}

Status SetNumber(const NumberTarget& target, double value, const std::string& where) {
  if (!(value >= target.least && value <= target.most)) {
    return InvalidArgument(where + ": " + Plain(value) + " is not between " + Plain(target.least) +
                           " and " + Plain(target.most));
  }
  *target.value = value;
  return Status::Ok();
}

Status SetFromText(const Setting& setting, const std::string& text, const std::string& where) {
  if (const auto* target = std::get_if<TextTarget>(&setting.target))
    return SetText(*target, text, where);
  if (const auto* target = std::get_if<IntegerTarget>(&setting.target)) {
    char* end = nullptr;
    errno = 0;
    int64_t value = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != 0 || errno != 0) {
      return InvalidArgument(where + ": '" + text + "' is no whole number");
    }
    return SetInteger(*target, value, where);
  }
  if (const auto* target = std::get_if<NumberTarget>(&setting.target)) {
    char* end = nullptr;
    double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != 0) return InvalidArgument(where + ": '" + text + "' is no number");
    return SetNumber(*target, value, where);
  }
  if (text != "true" && text != "false" && text != "1" && text != "0") {
    return InvalidArgument(where + ": '" + text + "' is neither true nor false");
  }
  *std::get<BooleanTarget>(setting.target).value = text == "true" || text == "1";
  return Status::Ok();
}

Status SetFromToml(const Setting& setting, const toml::node& node, const std::string& where) {
  if (const auto* target = std::get_if<TextTarget>(&setting.target)) {
    if (!node.is_string()) return InvalidArgument(where + " must be a text in quotes");
    return SetText(*target, node.as_string()->get(), where);
  }
  if (const auto* target = std::get_if<IntegerTarget>(&setting.target)) {
    if (!node.is_integer()) return InvalidArgument(where + " must be a whole number");
    return SetInteger(*target, node.as_integer()->get(), where);
  }
  if (const auto* target = std::get_if<NumberTarget>(&setting.target)) {
    if (!node.is_number()) return InvalidArgument(where + " must be a number");
    return SetNumber(*target, *node.value<double>(), where);
  }
  if (!node.is_boolean()) return InvalidArgument(where + " must be true or false");
  *std::get<BooleanTarget>(setting.target).value = node.as_boolean()->get();
  return Status::Ok();
}

std::string Position(const std::string& path, const toml::source_region& region) {
  return path + ":" + std::to_string(region.begin.line) + ":" + std::to_string(region.begin.column);
}

// TOML has other than ASCII characters in strings and comments only, and toml++ runs into undefined
// behaviour when it meets some of them elsewhere. Returns the offset of the first one there, or
// npos.
size_t FindStrayCharacter(std::string_view text) {
  std::string_view closing;  // of the string or comment that `i` is in; empty: in none
  for (size_t i = 0; i < text.size(); ++i) {
    std::string_view rest = text.substr(i);
    if (!closing.empty()) {
      if (closing[0] == '"' && rest[0] == '\\') {
        ++i;
      } else if (rest.substr(0, closing.size()) == closing) {
        i += closing.size() - 1;
        closing = {};
      } else if (rest[0] == '\n' && closing.size() == 1) {
        closing = {};  // an error that the parser finds
      }
      continue;
    }
    if (static_cast<unsigned char>(rest[0]) >= 0x80) return i;
    for (std::string_view quote : {"\"\"\"", "\'\'\'", "\"", "\'"}) {
      if (!closing.empty() || rest.substr(0, quote.size()) != quote) continue;
      closing = quote;
      i += quote.size() - 1;
    }
    if (rest[0] == '#') closing = "\n";
  }
  return std::string_view::npos;
}

std::string Position(const std::string& path, std::string_view text, size_t offset) {
  std::string_view before = text.substr(0, offset);
  size_t line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  size_t column = offset - (before.rfind('\n') + 1) + 1;
  return path + ":" + std::to_string(line) + ":" + std::to_string(column);
}

}  // namespace

class Settings::Impl {
 public:
  Impl(std::string program, std::string section, std::string summary, std::string examples)
      : program_(std::move(program)),
        section_(std::move(section)),
        summary_(std::move(summary)),
        examples_(std::move(examples)) {}

  void Add(Setting setting) { settings_.push_back(std::move(setting)); }

  // Flags are read first, because one of them names the file, and applied last.
  Status Apply(const std::vector<std::string>& arguments) {
    CLI::App app(summary_, program_);
    Flags flags;
    Declare(&app, &flags);
    try {
      std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
      app.parse(reversed);
    } catch (const CLI::CallForHelp&) {
      help_ = app.help();
      return Status::Ok();
    } catch (const CLI::CallForVersion&) {
      help_ = program_ + " " + std::string(kVersion) + "\n";
      return Status::Ok();
    } catch (const CLI::ParseError& error) {
      return InvalidArgument(std::string(error.what()) + "; see " + program_ + " --help");
    }
    std::string file = flags.config;
    if (const char* variable = std::getenv("PILLION_CONFIG"); file.empty() && variable != nullptr)
      file = variable;
    if (!file.empty()) PILLION_RETURN_IF_ERROR(ApplyFile(file));
    PILLION_RETURN_IF_ERROR(ApplyEnvironment());
    return ApplyFlags(flags);
  }

  const std::string& program() const { return program_; }
  const std::string& help() const { return help_; }

 private:
  struct Flags {
    std::string config;
    std::vector<std::string> texts;  // by index of the setting
    std::vector<int64_t> counts;     // booleans: > 0 on, < 0 off
  };

  void Declare(CLI::App* app, Flags* flags) const {
    flags->texts.resize(settings_.size());
    flags->counts.resize(settings_.size());
    app->set_help_flag("-h,--help", "print this help");
    app->set_version_flag("--version", program_ + " " + std::string(kVersion));
    app->add_option("--config", flags->config, "TOML file with settings (PILLION_CONFIG)");
    for (size_t i = 0; i < settings_.size(); ++i) {
      const Setting& setting = settings_[i];
      std::string flag = FlagName(setting.name);
      std::string help = setting.help;
      if (setting.action) {
        app->add_flag(flag, flags->counts[i], help);
        continue;
      }
      std::string standard = DefaultText(setting);
      help += " [" + (standard.empty() ? "none" : standard) + "; " + EnvironmentName(setting.name) +
              "]";
      if (std::holds_alternative<BooleanTarget>(setting.target)) {
        app->add_flag(flag + ",!" + "--no-" + flag.substr(2), flags->counts[i], help);
      } else {
        app->add_option(flag, flags->texts[i], help);
      }
    }
    app->footer(examples_);
  }

  Status ApplyFlags(const Flags& flags) const {
    for (size_t i = 0; i < settings_.size(); ++i) {
      if (const auto* target = std::get_if<BooleanTarget>(&settings_[i].target)) {
        if (flags.counts[i] != 0) *target->value = flags.counts[i] > 0;
      } else if (!flags.texts[i].empty()) {
        PILLION_RETURN_IF_ERROR(
            SetFromText(settings_[i], flags.texts[i], FlagName(settings_[i].name)));
      }
    }
    return Status::Ok();
  }

  Status ApplyEnvironment() const {
    for (const Setting& setting : settings_) {
      if (setting.action) continue;
      std::string variable = EnvironmentName(setting.name);
      const char* text = std::getenv(variable.c_str());
      if (text == nullptr || *text == 0) continue;
      PILLION_RETURN_IF_ERROR(SetFromText(setting, text, "environment variable " + variable));
    }
    return Status::Ok();
  }

  Status ApplyFile(const std::string& path) const {
    PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path, limits::kConfigBytes));
    if (size_t stray = FindStrayCharacter(text); stray != std::string_view::npos) {
      return InvalidArgument(Position(path, text, stray) +
                             ": only strings and comments may hold other than ASCII characters");
    }
    toml::table table;
    try {
      table = toml::parse(text, path);
    } catch (const toml::parse_error& error) {
      return InvalidArgument(Position(path, error.source()) + ": " +
                             std::string(error.description()));
    } catch (const std::exception& error) {
      return InvalidArgument(path + ": " + error.what());
    }
    PILLION_RETURN_IF_ERROR(ApplyTable(path, table, true));
    if (const toml::table* own = table[section_].as_table()) return ApplyTable(path, *own, false);
    return Status::Ok();
  }

  Status ApplyTable(const std::string& path, const toml::table& table, bool top) const {
    for (auto&& [key, node] : table) {
      std::string name(key.str());
      std::string where = Position(path, key.source()) + ": " + name;
      bool is_section = std::find(Sections().begin(), Sections().end(), name) != Sections().end();
      if (top && is_section) {
        if (!node.is_table()) return InvalidArgument(where + " must be a table: [" + name + "]");
        continue;
      }
      const Setting* setting = Find(name);
      if (setting == nullptr) return UnknownKey(where, name, top);
      PILLION_RETURN_IF_ERROR(SetFromToml(*setting, node, where));
    }
    return Status::Ok();
  }

  Status UnknownKey(const std::string& where, const std::string& name, bool top) const {
    std::vector<std::string> known = top ? Sections() : std::vector<std::string>{};
    for (const Setting& setting : settings_) {
      if (!setting.action) known.push_back(setting.name);
    }
    std::string nearest = NearestName(name, known);
    return InvalidArgument(where + " is no setting of " + program_ +
                           (nearest.empty() ? "" : "; did you mean " + nearest + "?"));
  }

  const Setting* Find(const std::string& name) const {
    for (const Setting& setting : settings_) {
      if (setting.name == name && !setting.action) return &setting;
    }
    return nullptr;
  }

  const std::string program_, section_, summary_, examples_;
  std::vector<Setting> settings_;
  std::string help_;  // --help or --version was asked for: what to print
};

Settings::Settings(std::string program, std::string section, std::string summary,
                   std::string examples)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(section), std::move(summary),
                                   std::move(examples))) {}
Settings::~Settings() = default;

void Settings::Text(std::string name, std::string* value, std::string help) {
  impl_->Add({std::move(name), std::move(help), TextTarget{value, {}}});
}

void Settings::Choice(std::string name, std::string* value, std::vector<std::string> choices,
                      std::string help) {
  help += ": ";
  for (size_t i = 0; i < choices.size(); ++i) help += (i == 0 ? "" : ", ") + choices[i];
  impl_->Add({std::move(name), std::move(help), TextTarget{value, std::move(choices)}});
}

void Settings::Integer(std::string name, int64_t* value, int64_t least, int64_t most,
                       std::string help) {
  impl_->Add({std::move(name), std::move(help), IntegerTarget{value, least, most}});
}

void Settings::Number(std::string name, double* value, double least, double most,
                      std::string help) {
  impl_->Add({std::move(name), std::move(help), NumberTarget{value, least, most}});
}

void Settings::Boolean(std::string name, bool* value, std::string help) {
  impl_->Add({std::move(name), std::move(help), BooleanTarget{value}});
}

void Settings::Action(std::string name, bool* value, std::string help) {
  impl_->Add({std::move(name), std::move(help), BooleanTarget{value}, true});
}

Status Settings::Apply(const std::vector<std::string>& arguments) {
  return impl_->Apply(arguments);
}

std::optional<int> Settings::Parse(int argc, const char* const* argv) {
  Status status = impl_->Apply(std::vector<std::string>(argv + 1, argv + argc));
  if (!status.ok()) {
    std::fprintf(stderr, "%s: %s\n", impl_->program().c_str(), status.message().c_str());
    return 2;
  }
  if (!impl_->help().empty()) {
    std::fputs(impl_->help().c_str(), stdout);
    return 0;
  }
  return std::nullopt;
}

}  // namespace pillion::config
