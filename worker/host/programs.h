// Where a task host finds programs: in its own registry, in a library that the task names, and in the program libraries
// that ship beside it (<directory of pillion-host>/../lib/pillion/programs/*.so). Beside each of the latter lies a text
// file <library>.programs that lists "name kind devices" per line, so that a library (LibTorch, say) loads only when
// one of its programs is wanted.
//
// One thread.
#ifndef PILLION_WORKER_HOST_PROGRAMS_H_
#define PILLION_WORKER_HOST_PROGRAMS_H_

#include <string>
#include <vector>

#include "pillion/side_task.h"

namespace pillion::worker {

// `library` may be empty. kNotFound names the nearest known program; kIoError is the loader's own text.
Result<const Program*> FindProgram(const std::string& name, const std::string& library);

struct ListedProgram {
  std::string name;
  std::string kind;     // "steps" or "call"
  std::string devices;  // "cpu", "cuda" or "cpu+cuda"
  std::string help;
};
// All that ship, by name, without loading any library.
std::vector<ListedProgram> ListPrograms();

}  // namespace pillion::worker

#endif  // PILLION_WORKER_HOST_PROGRAMS_H_
