// The side tasks of the demo, and how a moved and cut run is compared with one that was neither.
#ifndef PILLION_CLI_DEMO_WORKLOAD_H_
#define PILLION_CLI_DEMO_WORKLOAD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "pillion/graph.h"

namespace pillion::demo {

// The work comes in two waves: the first leaves the workers room, so that one of its tasks can be moved; the second
// queues, so that whichever device has more bubbles takes more of it.
enum class Wave { kFirst, kSecond, kBoth };

struct WorkloadOptions {
  uint64_t iterations = 0;    // of the trainer: the work is sized to a bit more than its bubbles hold
  bool torch = true;          // with train.cnn
  std::string pictures = "/usr/share/wallpapers";
  std::string file;           // for checksum
};

// The tasks of a wave; kBoth: those of the first, then those of the second. What the image tasks write goes under
// `output_directory`, which is all that differs between two calls with the same options.
Result<Graph> MakeWorkload(const WorkloadOptions& options, Wave wave, const std::string& job_name,
                           const std::string& output_directory);

// Whether two results of one program with the same arguments are the same in every field, except the folder that an
// image task wrote into. kCorruption when one is not the JSON that it should be.
Result<bool> SameResult(const std::string& result, const std::string& reference);

// Whether moving the program shows something: it runs for seconds and carries state.
bool WorthMoving(const std::string& program);

}  // namespace pillion::demo

#endif  // PILLION_CLI_DEMO_WORKLOAD_H_
