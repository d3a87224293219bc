#include "api/pillion/side_task.h"

#include <map>
#include <mutex>
#include <set>

namespace pillion {

Status CheckpointReader::ReadText(std::string* text) {
  uint64_t size = 0;
  PILLION_RETURN_IF_ERROR(ReadValue(&size));
  if (size > remaining()) {
    return Corruption("checkpoint: a text of " + std::to_string(size) + " bytes where " +
                      std::to_string(remaining()) + " are left");
  }
  text->resize(size);
  return Read(text->data(), size);
}

struct ProgramRegistry::State {
  std::mutex mutex;  // guards the two below; programs themselves never change or go
  std::map<std::string, Program, std::less<>> programs;
  std::set<std::string, std::less<>> duplicates;
};

ProgramRegistry& ProgramRegistry::Global() {
  static ProgramRegistry registry;
  return registry;
}

ProgramRegistry::State* ProgramRegistry::state() {
  static State* state = new State;  // never destroyed: libraries may be unloaded after main
  return state;
}

void ProgramRegistry::Register(Program program) {
  std::lock_guard lock(state()->mutex);
  std::string name = program.name;
  if (!state()->programs.emplace(name, std::move(program)).second) state()->duplicates.insert(std::move(name));
}

Result<const Program*> ProgramRegistry::Find(std::string_view name) const {
  State* registered = const_cast<ProgramRegistry*>(this)->state();
  std::lock_guard lock(registered->mutex);
  if (registered->duplicates.count(name) != 0) {
    return AlreadyExists("program '" + std::string(name) + "' is registered twice: rename one of them");
  }
  auto found = registered->programs.find(name);
  if (found != registered->programs.end()) return &found->second;
  std::vector<std::string> names;
  for (const auto& [known, program] : registered->programs) names.push_back(known);
  std::string nearest = NearestName(name, names);
  return NotFound("there is no program '" + std::string(name) + "'" +
                  (nearest.empty() ? std::string() : ": did you mean '" + nearest + "'?"));
}

std::vector<const Program*> ProgramRegistry::All() const {
  State* registered = const_cast<ProgramRegistry*>(this)->state();
  std::lock_guard lock(registered->mutex);
  std::vector<const Program*> programs;
  for (const auto& [name, program] : registered->programs) programs.push_back(&program);
  return programs;
}

}  // namespace pillion
