#include "pillion/function.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>

#include <map>
#include <mutex>

namespace pillion {

namespace {

// Filled while libraries load, read by clients; both from any thread.
struct Names {
  std::mutex mutex;
  std::map<const void*, std::string> by_function;
};
Names& AllNames() {
  static Names* names = new Names;  // outlives every static destructor
  return *names;
}

// Where the code of `function` was loaded from; empty for the main program.
std::string LibraryOf(const void* function) {
  Dl_info info;
  if (dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "";
  char own[PATH_MAX], path[PATH_MAX];
  if (realpath(info.dli_fname, path) == nullptr) return "";
  if (realpath("/proc/self/exe", own) != nullptr && std::string(own) == path) return "";
  return path;
}

}  // namespace

void function_internal::RememberFunction(const void* function, const char* name) {
  std::lock_guard<std::mutex> lock(AllNames().mutex);
  AllNames().by_function.emplace(function, name);
}

Result<FunctionName> FindFunction(const void* function) {
  std::lock_guard<std::mutex> lock(AllNames().mutex);
  auto found = AllNames().by_function.find(function);
  if (found == AllNames().by_function.end()) {
    return NotFound("the function is not registered: write PILLION_FUNCTION(name) in the file that defines it");
  }
  return FunctionName{found->second, LibraryOf(function)};
}

}  // namespace pillion
