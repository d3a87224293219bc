// The demo's trainer: pillion-trainer where LibTorch is, else a metronome per device.
#ifndef PILLION_CLI_DEMO_TRAINER_H_
#define PILLION_CLI_DEMO_TRAINER_H_

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/demo/figures.h"
#include "cli/demo/processes.h"

namespace pillion::demo {

enum class TrainerKind { kGpt, kMetronome };

// What a run left behind.
struct TrainerRecord {
  std::vector<std::vector<Iteration>> ranks;  // by rank; those of a metronome do not depend on each other
  std::vector<double> losses;                 // empty: a trainer that has none
  std::vector<std::string> losses_exact;      // the same in hexadecimal
};

struct TrainerRun {
  TrainerKind kind = TrainerKind::kGpt;
  std::vector<std::string> devices;
  uint64_t run_id = 1, iterations = 0;
  std::string name;         // of its files
  std::string directory;    // where these go
  std::map<std::string, std::string> environment;
};

// The processes of one run.
class Trainer {
 public:
  static Result<std::unique_ptr<Trainer>> Start(const TrainerRun& run);
  bool Running();
  Status Check();  // an error as soon as one of its processes failed
  // After it has ended.
  Result<TrainerRecord> Read() const;

 private:
  explicit Trainer(TrainerKind kind) : kind_(kind) {}
  const TrainerKind kind_;
  std::vector<std::unique_ptr<Program>> programs_;
};

}  // namespace pillion::demo

#endif  // PILLION_CLI_DEMO_TRAINER_H_
