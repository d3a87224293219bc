// A real pillion-host process on a turn engine without a trainer, for tests that speak its protocol.
#ifndef PILLION_TESTS_UNIT_HOST_PROCESS_HOST_UNDER_TEST_H_
#define PILLION_TESTS_UNIT_HOST_PROCESS_HOST_UNDER_TEST_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "worker/host/control_page.h"
#include "worker/host/host_protocol.h"
#include "worker/turns/turn_engine.h"

namespace pillion {

class HostUnderTest {
 public:
  // `mode`: "steps" or "calls". Its core is the device's.
  HostUnderTest(turns::TurnEngine* engine, const std::string& board_uuid, const std::string& mode);
  ~HostUnderTest();  // kills it when it is still there

  // The host gets turns from now on.
  void AddToEngine();
  // Sends, and wakes the host when it takes turns.
  void Post(const worker::HostMessage& message);
  // The next message of kind T; others before it are kept in `passed`. Fails the test after ten seconds.
  template <typename T>
  T Await() {
    while (true) {
      worker::HostMessage message = Next();
      if (auto* wanted = std::get_if<T>(&message)) return std::move(*wanted);
      if (gone_) return T{};
      passed.push_back(std::move(message));
    }
  }
  // Waits for the process to end; its exit code, or -signal.
  int Join();

  std::vector<worker::HostMessage> passed;
  pid_t pid() const { return pid_; }

 private:
  worker::HostMessage Next();

  turns::TurnEngine* const engine_;
  std::shared_ptr<host::ControlPage> page_;
  FileDescriptor socket_;
  std::unique_ptr<worker::HostSocket> host_;
  turns::ResidentId resident_ = 0;
  bool resides_ = false, gone_ = false;
  pid_t pid_ = -1;
};

}  // namespace pillion

#endif  // PILLION_TESTS_UNIT_HOST_PROCESS_HOST_UNDER_TEST_H_
