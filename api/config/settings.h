// Settings of a daemon: flag > PILLION_* environment > TOML file > default. One name serves all
// three: "state_dir" is --state-dir, PILLION_STATE_DIR and the key state_dir.
//
// The file (--config, else PILLION_CONFIG, else none) has a table per program ("head", "worker",
// "client"); a key of the program's own table counts before the same key at the top, which is for
// all programs. Unknown keys and wrong types are errors that name file, line, column and the
// nearest known key.
//
//   std::string state_dir = "/var/lib/pillion";
//   config::Settings settings("pillion-head", "head", "Owns the queue.");
//   settings.Text("state_dir", &state_dir, "where the queue lies");
//   if (std::optional<int> exit_code = settings.Parse(argc, argv)) return *exit_code;
#ifndef PILLION_API_CONFIG_SETTINGS_H_
#define PILLION_API_CONFIG_SETTINGS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace pillion::config {

class Settings {
 public:
  // `section` is the program's table in the file. `summary` and `examples` stand in --help.
  Settings(std::string program, std::string section, std::string summary,
           std::string examples = "");
  ~Settings();
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  // Each binds a variable that holds the default and outlives the Settings. Names are unique, in
  // snake_case, with the unit last.
  void Text(std::string name, std::string* value, std::string help);
  void Choice(std::string name, std::string* value, std::vector<std::string> choices,
              std::string help);
  void Integer(std::string name, int64_t* value, int64_t least, int64_t most, std::string help);
  void Number(std::string name, double* value, double least, double most, std::string help);
  void Boolean(std::string name, bool* value, std::string help);  // --name, --no-name
  // A flag that is neither in the environment nor in the file: what to do, not how.
  void Action(std::string name, bool* value, std::string help);

  // Fills the variables. kInvalidArgument says which setting of which source is wrong.
  Status Apply(const std::vector<std::string>& arguments);

  // As Apply, for main(): answers --help and --version, prints errors to stderr as "<program>: …".
  // Returns the exit code when the program should end now: 0, or 2 for usage and configuration.
  std::optional<int> Parse(int argc, const char* const* argv);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pillion::config

#endif  // PILLION_API_CONFIG_SETTINGS_H_
