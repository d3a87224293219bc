#include "worker/host/programs.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "base/file.h"
#include "base/limits.h"

namespace pillion::worker {
namespace {

constexpr char kListSuffix[] = ".programs";

std::string ProgramDirectory() {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  if (length <= 0) return "";
  std::string self(path, static_cast<size_t>(length));
  return self.substr(0, self.rfind('/')) + "/../lib/pillion/programs";
}

struct ShippedProgram {
  ListedProgram program;
  std::string library;
};

std::vector<ShippedProgram> ReadProgramLists() {
  std::vector<ShippedProgram> shipped;
  std::string directory = ProgramDirectory();
  auto names = ListDirectory(directory);
  if (!names.ok()) return shipped;
  for (const std::string& name : *names) {
    size_t suffix = name.rfind(kListSuffix);
    if (suffix == std::string::npos || suffix + sizeof kListSuffix - 1 != name.size()) continue;
    auto text = ReadFile(directory + "/" + name, limits::kConfigBytes);
    if (!text.ok()) continue;
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);
      ShippedProgram entry;
      entry.library = directory + "/" + name.substr(0, suffix) + ".so";
      if (!(fields >> entry.program.name)) continue;
      if (!(fields >> entry.program.kind)) entry.program.kind = "steps";
      if (!(fields >> entry.program.devices)) entry.program.devices = "cpu";
      shipped.push_back(std::move(entry));
    }
  }
  return shipped;
}

// Libraries stay loaded: their programs are in the registry.
Status LoadLibrary(const std::string& path) {
  if (!FileExists(path)) return NotFound("program library " + path + " does not exist");
  if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
    const char* why = dlerror();
    return IoError("program library " + path + ": " + (why != nullptr ? why : "cannot be loaded"));
  }
  return Status::Ok();
}

}  // namespace

Result<const Program*> FindProgram(const std::string& name, const std::string& library) {
  if (!library.empty()) {
    PILLION_RETURN_IF_ERROR(LoadLibrary(library));
    return ProgramRegistry::Global().Find(name);
  }
  auto found = ProgramRegistry::Global().Find(name);
  if (found.ok() || found.status().code() != StatusCode::kNotFound) return found;
  std::vector<std::string> names;
  for (const ShippedProgram& shipped : ReadProgramLists()) {
    if (shipped.program.name == name) {
      PILLION_RETURN_IF_ERROR(LoadLibrary(shipped.library));
      return ProgramRegistry::Global().Find(name);
    }
  }
  for (const ListedProgram& listed : ListPrograms()) names.push_back(listed.name);
  std::string nearest = NearestName(name, names);
  return NotFound("there is no program '" + name + "'" +
                  (nearest.empty() ? std::string() : ": did you mean '" + nearest + "'?"));
}

std::vector<ListedProgram> ListPrograms() {
  std::vector<ListedProgram> listed;
  for (const Program* program : ProgramRegistry::Global().All()) {
    ListedProgram entry;
    entry.name = program->name;
    entry.kind = program->call ? "call" : "steps";
    entry.devices = program->devices == Devices::kCpu    ? "cpu"
                    : program->devices == Devices::kCuda ? "cuda"
                                                         : "cpu+cuda";
    entry.help = program->help;
    listed.push_back(std::move(entry));
  }
  for (ShippedProgram& shipped : ReadProgramLists()) listed.push_back(std::move(shipped.program));
  std::sort(listed.begin(), listed.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return listed;
}

}  // namespace pillion::worker
