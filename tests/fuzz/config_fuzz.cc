// Any text as a configuration file: settings are filled or the error names the file.
#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/config/settings.h"
#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pillion;
  static const std::string path = "/tmp/pillion-config-fuzz-" + std::to_string(getpid()) + ".toml";
  if (!WriteFileAtomically(path, {reinterpret_cast<const char*>(data), size}).ok()) std::abort();
  std::string text = "default";
  int64_t number = 5;
  bool flag = false;
  config::Settings settings("pillion-fuzz", "head", "Fuzzing.");
  settings.Text("state_dir", &text, "text");
  settings.Integer("port", &number, 0, 10, "number");
  settings.Boolean("rebalance", &flag, "flag");
  Status status = settings.Apply({"--config", path});
  unlink(path.c_str());
  if (!status.ok() && status.message().find(path) == std::string::npos) std::abort();
  if (number < 0 || number > 10) std::abort();
  return 0;
}
