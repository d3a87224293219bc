// Capacity: the worker's own, learned from the board, and announcements received from launchers, planners or trainers
// elsewhere, which count while no trainer is attached to the board.
//
// One thread.
#ifndef PILLION_WORKER_ANNOUNCEMENTS_H_
#define PILLION_WORKER_ANNOUNCEMENTS_H_

#include <memory>
#include <optional>
#include <string>

#include "api/wire/messages.h"
#include "api/wire/transport.h"
#include "worker/turns/figures.h"

namespace pillion::worker {

class Announcements {
 public:
  // Publishes the endpoint "worker-<device>" in the runtime directory.
  static Result<std::unique_ptr<Announcements>> Open(const std::string& runtime_directory, const DeviceInfo& device);

  int poll_fd() const { return socket_->poll_fd(); }
  void Pump();

  // What the device offers now.
  wire::Capacity Merge(const turns::Capacity& own, uint64_t free_memory_bytes) const;
  bool any_received() const { return received_.has_value(); }

 private:
  Announcements(std::unique_ptr<wire::ServerSocket> socket, DeviceInfo device)
      : socket_(std::move(socket)), device_(std::move(device)) {}
  void Answer(const wire::ServerEvent& event);

  std::unique_ptr<wire::ServerSocket> socket_;
  const DeviceInfo device_;
  std::optional<wire::Capacity> received_;
};

// Whether the head should hear of it: attached or not, other slots, or lengths off by more than a tenth.
bool CapacityDiffers(const wire::Capacity& a, const wire::Capacity& b);

}  // namespace pillion::worker

#endif  // PILLION_WORKER_ANNOUNCEMENTS_H_
