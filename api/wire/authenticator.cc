#include "api/wire/authenticator.h"

namespace pillion::wire {

namespace {
constexpr size_t kBinaryKeyBytes = 32;
}  // namespace

Authenticator::Authenticator(const ZmqContext& context, std::vector<AllowedKey> allowed)
    : socket_(context, ZMQ_REP) {
  for (AllowedKey& key : allowed) {
    std::string binary(kBinaryKeyBytes, '\0');
    if (zmq_z85_decode(reinterpret_cast<uint8_t*>(binary.data()), key.public_key.c_str()) == nullptr) continue;
    allowed_.emplace(std::move(binary), std::move(key));  // the first line of a key counts
  }
}

bool Authenticator::Bind() {
  return socket_.valid() && socket_.Set(ZMQ_LINGER, 0) &&
         zmq_bind(socket_.get(), "inproc://zeromq.zap.01") == 0;
}

// Request: version, request id, domain, address, routing id, mechanism, credentials (the client's binary key).
// Reply: version, request id, status code, status text, user id, metadata.
void Authenticator::Serve() {
  for (;;) {
    std::vector<std::string> request;
    for (bool more = true; more;) {
      ZmqFrame frame;
      if (!frame.Receive(socket_)) return;
      more = frame.more();
      if (request.size() < 8) request.emplace_back(frame.bytes());
    }
    const AllowedKey* key = nullptr;
    if (request.size() == 7 && request[0] == "1.0" && request[5] == "CURVE") {
      auto found = allowed_.find(request[6]);
      if (found != allowed_.end()) key = &found->second;
    }
    if (key == nullptr) ++refused_;
    const std::string id = request.size() > 1 ? request[1] : "";
    SendFrame(socket_, "1.0", ZMQ_SNDMORE);
    SendFrame(socket_, id, ZMQ_SNDMORE);
    SendFrame(socket_, key != nullptr ? "200" : "400", ZMQ_SNDMORE);
    SendFrame(socket_, key != nullptr ? "OK" : "unknown key", ZMQ_SNDMORE);
    SendFrame(socket_, key != nullptr ? MakeUserId(*key) : "", ZMQ_SNDMORE);
    SendFrame(socket_, "", 0);
  }
}

std::string MakeUserId(const AllowedKey& key) { return std::string(RoleName(key.role)) + ":" + key.name; }

bool ParseUserId(std::string_view user_id, Role* role, std::string* name) {
  const size_t colon = user_id.find(':');
  if (colon == std::string_view::npos) return false;
  auto parsed = ParseRole(user_id.substr(0, colon));
  if (!parsed.ok()) return false;
  *role = *parsed;
  *name = user_id.substr(colon + 1);
  return true;
}

}  // namespace pillion::wire
