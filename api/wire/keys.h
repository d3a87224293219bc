// Keys, the allow-list and endpoint files: how processes find and prove themselves to each other.
//
// The runtime directory (0700, base/file.h) holds
//   head.key                     the head's own pair (0600)
//   client.key worker.key operator.key   pairs for processes of this user, one per role (0600)
//   allowed.keys                 who may connect: lines "<role> <name> <public key>" (0600); '#' starts a comment
//   head.endpoint                where the head listens and its public key; written at every start
//   worker-<device>.endpoint     the same for a worker's own socket (announcements)
// A key file is two lines "public <40 characters>" and "secret <40 characters>"; an endpoint file is
// "address tcp://host:port" and "public <40 characters>". All keys are CURVE keys in Z85. For another machine,
// copy one role's key file (or add a line to allowed.keys for a key made there) and head.endpoint.
#ifndef PILLION_API_WIRE_KEYS_H_
#define PILLION_API_WIRE_KEYS_H_

#include <string>
#include <string_view>
#include <vector>

#include "api/wire/messages.h"
#include "base/status.h"

namespace pillion::wire {

struct KeyPair {
  std::string public_key;  // 40 characters of Z85
  std::string secret_key;
};
Result<KeyPair> GenerateKeyPair();

// Reads and writes one key file. Reading refuses (kPermissionDenied) a file that other users can read.
Result<KeyPair> ReadKeyFile(const std::string& path);
Status WriteKeyFile(const std::string& path, const KeyPair& pair);

struct AllowedKey {
  Role role = Role::kClient;
  std::string name;  // shows up as the peer's user, and as the owner of its jobs
  std::string public_key;
};
// "client", "worker", "operator".
std::string_view RoleName(Role role);
Result<Role> ParseRole(std::string_view text);

// What a server needs: its pair and who may connect.
struct ServerKeys {
  KeyPair pair;
  std::vector<AllowedKey> allowed;
};

// The head's keys. The first call on a directory makes it and all its key files; later calls read them and
// make nothing, except files that are missing.
Result<ServerKeys> LoadOrCreateHeadKeys(const std::string& runtime_directory);
// For a server that is not the head (a worker's announcement socket): a fresh pair, and the same allow-list.
Result<ServerKeys> MakeServerKeys(const std::string& runtime_directory);

// This user's pair for a role. kUnavailable, naming the file, when no head has ever made one there.
Result<KeyPair> LoadKeys(const std::string& runtime_directory, Role role);
inline Result<KeyPair> LoadClientKeys(const std::string& runtime_directory) {
  return LoadKeys(runtime_directory, Role::kClient);
}

// Adds a line to allowed.keys (servers read it when they start). kAlreadyExists when the key is there already.
Status AddAllowedKey(const std::string& runtime_directory, const AllowedKey& key);

struct Endpoint {
  std::string address;     // tcp://127.0.0.1:40001
  std::string public_key;  // of the server behind it
};
// `name` is "head" or "worker-<device>"; the file is <runtime_directory>/<name>.endpoint.
std::string EndpointPath(const std::string& runtime_directory, std::string_view name);
Status WriteEndpoint(const std::string& runtime_directory, std::string_view name, const Endpoint& endpoint);
// kUnavailable, naming the file, when there is none.
Result<Endpoint> ReadEndpoint(const std::string& runtime_directory, std::string_view name);

}  // namespace pillion::wire

#endif  // PILLION_API_WIRE_KEYS_H_
