// Answers libzmq's authentication requests (ZAP) from an allow-list. One per context; used by the socket's thread.
#ifndef PILLION_API_WIRE_AUTHENTICATOR_H_
#define PILLION_API_WIRE_AUTHENTICATOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "api/wire/keys.h"
#include "api/wire/zmq_handle.h"

namespace pillion::wire {

class Authenticator {
 public:
  Authenticator(const ZmqContext& context, std::vector<AllowedKey> allowed);
  // Must succeed before a CURVE server binds.
  bool Bind();
  // Answers what has been asked so far.
  void Serve();
  const ZmqSocket& socket() const { return socket_; }
  uint64_t refused() const { return refused_; }

 private:
  ZmqSocket socket_;
  std::unordered_map<std::string, AllowedKey> allowed_;  // by binary public key
  uint64_t refused_ = 0;
};

// The User-Id property of an authenticated connection: role and name in one text.
std::string MakeUserId(const AllowedKey& key);
bool ParseUserId(std::string_view user_id, Role* role, std::string* name);

}  // namespace pillion::wire

#endif  // PILLION_API_WIRE_AUTHENTICATOR_H_
