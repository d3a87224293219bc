// How one rank exchanges messages with the others. A wait sleeps in the kernel: while a trainer
// waits, its core or device context has nothing runnable, and that is what side tasks live on.
//
// A slot (program.h) is filled by one rank and released by another, in turn: in round r it is free,
// then full, then free for round r + 1. Rounds count over all iterations from 0 and may wrap.
#ifndef PILLION_PIPELINE_EXECUTOR_TRANSPORT_H_
#define PILLION_PIPELINE_EXECUTOR_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "pipeline/executor/module.h"
#include "pipeline/executor/program.h"

namespace pillion::executor {

// One rank's end; used by one thread. The waits end with
//   kUnavailable       a rank's process has died or has left: names it and what it was doing;
//   kDeadlineExceeded  the deadline passed: names the rank that everything waits for, and what it
//   is doing; a rank's own code  that rank reported a failure: its text, with the rank.
// Whatever ended one rank's wait ends the waits of all of them, with the same text.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int32_t rank() const = 0;

  // Waits until every rank is there.
  virtual Status Join(int64_t deadline_ns) = 0;
  // After the last iteration. Others that still wait for this rank are told.
  virtual void Leave() = 0;
  // Ends the run on all ranks.
  virtual void Fail(const Status& why) = 0;
  // What this rank does from now on (index in its instructions): for the messages of others.
  virtual void SetPosition(int32_t index) = 0;

  virtual Buffer BufferOf(int32_t slot) = 0;
  virtual Status AwaitFree(int32_t slot, uint32_t round, int64_t deadline_ns) = 0;
  virtual void Fill(int32_t slot, uint32_t round) = 0;
  virtual Status AwaitFull(int32_t slot, uint32_t round, int64_t deadline_ns) = 0;
  virtual void Release(int32_t slot, uint32_t round) = 0;
};

// One transport per rank, for threads of this process. The program and the clock outlive them.
Result<std::vector<std::unique_ptr<Transport>>> MakeThreadTransports(const Program& program,
                                                                     const Clock& clock);

// Ranks are processes of this host that meet in the file `path` (in /dev/shm, say), mapped by all.
// Whoever comes first creates it, mode 0600; once all have joined it is unlinked, so nothing stays
// behind. A file that dead processes left is used anew. A rank's liveness is a lock on its byte of
// the file, which the kernel drops with the process. kAlreadyExists: a live process has this rank;
// kInvalidArgument: the others run another plan.
Result<std::unique_ptr<Transport>> OpenSharedTransport(const std::string& path, int32_t rank,
                                                       const Program& program, const Clock& clock);

}  // namespace pillion::executor

#endif  // PILLION_PIPELINE_EXECUTOR_TRANSPORT_H_
