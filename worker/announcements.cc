#include "worker/announcements.h"

#include <algorithm>

#include "api/wire/codec.h"
#include "base/log.h"
#include "base/version.h"

namespace pillion::worker {

Result<std::unique_ptr<Announcements>> Announcements::Open(const std::string& runtime_directory,
                                                           const DeviceInfo& device) {
  wire::ServerOptions options;
  PILLION_ASSIGN_OR_RETURN(options.keys, wire::MakeServerKeys(runtime_directory));
  options.connection_limit = 256;
  PILLION_ASSIGN_OR_RETURN(auto socket, wire::ServerSocket::Open(std::move(options)));
  PILLION_RETURN_IF_ERROR(wire::WriteEndpoint(runtime_directory, "worker-" + device.name, socket->endpoint()));
  return std::unique_ptr<Announcements>(new Announcements(std::move(socket), device));
}

void Announcements::Pump() {
  while (auto event = socket_->Receive()) {
    if (event->kind == wire::ServerEvent::Kind::kMessage) Answer(*event);
  }
}

void Announcements::Answer(const wire::ServerEvent& event) {
  auto message = wire::Decode(event.payload);
  if (!message.ok()) return socket_->ReportHostile(event.peer);
  wire::Body reply;
  if (std::holds_alternative<wire::Hello>(message->body)) {
    wire::Welcome welcome;
    welcome.software_version = kVersion;
    reply = std::move(welcome);
  } else if (auto* announce = std::get_if<wire::Announce>(&message->body)) {
    if (announce->device == device_.name || announce->device == device_.uuid) {
      log::Info("capacity announced to us", {{"by", event.user},
                                             {"iteration_period_us", announce->capacity.iteration_period_us},
                                             {"slots", announce->capacity.slots.size()}});
      received_ = std::move(announce->capacity);
      reply = wire::CountReply{1};
    } else {
      reply = wire::ErrorReply{NotFound("this worker serves " + device_.name + ", not '" + announce->device + "'")};
    }
  } else {
    reply = wire::ErrorReply{InvalidArgument("a worker's own socket takes announcements only")};
  }
  auto bytes = wire::Encode({message->request_id, std::move(reply)});
  if (bytes.ok()) (void)socket_->Send(event.peer, *bytes);  // a peer that is gone needs no answer
}

wire::Capacity Announcements::Merge(const turns::Capacity& own, uint64_t free_memory_bytes) const {
  if (!own.trainer_attached && received_) {
    wire::Capacity capacity = *received_;
    if (capacity.free_memory_bytes == 0) capacity.free_memory_bytes = free_memory_bytes;
    return capacity;
  }
  wire::Capacity capacity;
  capacity.trainer_attached = own.trainer_attached;
  capacity.iteration_period_us = own.iteration_period_us;
  capacity.guard_us = own.guard_us;
  capacity.free_memory_bytes = free_memory_bytes;
  for (const turns::SlotCapacity& slot : own.slots) capacity.slots.push_back({slot.p10_us, slot.p50_us, slot.p90_us});
  return capacity;
}

bool CapacityDiffers(const wire::Capacity& a, const wire::Capacity& b) {
  auto far = [](uint64_t x, uint64_t y) { return std::max(x, y) - std::min(x, y) > std::max(x, y) / 10; };
  if (a.trainer_attached != b.trainer_attached || a.slots.size() != b.slots.size()) return true;
  if (far(a.iteration_period_us, b.iteration_period_us) || far(a.free_memory_bytes, b.free_memory_bytes)) return true;
  for (size_t i = 0; i < a.slots.size(); ++i) {
    if (far(a.slots[i].p10_us, b.slots[i].p10_us)) return true;
  }
  return false;
}

}  // namespace pillion::worker
