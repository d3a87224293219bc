// Runs side tasks in a test as a host would, and moves them to a fresh object (and device) at any
// step.
#ifndef PILLION_TESTS_UNIT_SIDETASKS_HARNESS_H_
#define PILLION_TESTS_UNIT_SIDETASKS_HARNESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pillion/side_task.h"

namespace pillion::testing {

struct RunOptions {
  uint64_t move_every = 0;  // steps between save → new object → load; 0: never
  uint64_t move_after = 0;  // one move after so many steps; 0: none
  int64_t time_left_ns = INT64_MAX;
  bool stop_at_once = false;  // every step sees a stop request: as short as steps get
  uint64_t steps_at_most = 2'000'000;
};

struct RunReport {
  Status status;       // the first error
  std::string result;  // of Finish
  uint64_t steps = 0, moves = 0, items = 0, declared_items = 0, declared_memory = 0;
  bool elastic = false;
  int64_t longest_step_ns = 0;
  std::vector<int64_t> step_ns;
};

// Looks `program` up in the registry.
RunReport RunProgram(const std::string& program, const std::string& arguments,
                     const RunOptions& options = {});

// The state after `steps` steps, as Save writes it.
Result<std::string> SaveAfter(const std::string& program, const std::string& arguments,
                              uint64_t steps);
// What Load says to such a state.
Status LoadFrom(const std::string& program, const std::string& arguments, const std::string& state);

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  // Writes a file and returns its path.
  std::string File(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

}  // namespace pillion::testing

#endif  // PILLION_TESTS_UNIT_SIDETASKS_HARNESS_H_
