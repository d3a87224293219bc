#include "pillion/announcer.h"

#include "api/client/connection.h"
#include "base/clock.h"
#include "base/file.h"

namespace pillion {

class Announcer::Impl {
 public:
  Impl(AnnouncerOptions options, wire::PeerOptions peer)
      : options_(std::move(options)), connection_(std::move(peer), std::nullopt) {}
  int64_t DeadlineNs() const { return MonotonicNowNs() + options_.timeout_ms * kNanosPerMilli; }

  AnnouncerOptions options_;
  Connection connection_;
};

Result<Announcer> Announcer::Connect(AnnouncerOptions options) {
  if (options.device.empty()) return InvalidArgument("an announcement is for a device: name it, such as cpu0");
  if (options.runtime_directory.empty()) options.runtime_directory = DefaultRuntimeDirectory();
  wire::PeerOptions peer;
  auto keys = options.key_file.empty() ? wire::LoadClientKeys(options.runtime_directory)
                                       : wire::ReadKeyFile(options.key_file);
  if (!keys.ok()) return keys.status();
  peer.keys = std::move(*keys);
  peer.find_server = wire::EndpointFromFile(options.runtime_directory, "worker-" + options.device);
  auto impl = std::make_unique<Impl>(std::move(options), std::move(peer));
  PILLION_RETURN_IF_ERROR(
      impl->connection_.WaitUntilReady(impl->DeadlineNs()).WithContext("worker of " + impl->options_.device));
  return Announcer(std::move(impl));
}

Announcer::Announcer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Announcer::Announcer(Announcer&&) noexcept = default;
Announcer& Announcer::operator=(Announcer&&) noexcept = default;
Announcer::~Announcer() = default;

Status Announcer::Announce(const wire::Capacity& capacity) {
  wire::Announce announce{impl_->options_.device, capacity};
  auto reply = impl_->connection_.Ask<wire::CountReply>(announce, impl_->DeadlineNs());
  return reply.status();
}

}  // namespace pillion
