#include "api/wire/keys.h"

#include <sys/stat.h>
#include <zmq.h>

#include <array>
#include <map>
#include <sstream>

#include "base/file.h"
#include "base/limits.h"

namespace pillion::wire {

namespace {

constexpr size_t kKeyCharacters = 40;
constexpr std::array<Role, 3> kRoles = {Role::kClient, Role::kWorker, Role::kOperator};

std::string Join(const std::string& directory, std::string_view name) {
  return directory + "/" + std::string(name);
}

std::string KeyPath(const std::string& directory, Role role) {
  return Join(directory, std::string(RoleName(role)) + ".key");
}

bool IsKey(const std::string& text) {
  if (text.size() != kKeyCharacters) return false;
  uint8_t binary[32];
  return zmq_z85_decode(binary, text.c_str()) != nullptr;
}

// "word value" lines; anything else is an error with its line number.
Result<std::map<std::string, std::string>> ParseLines(const std::string& path, const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string word, value, rest;
    if (!(words >> word >> value) || (words >> rest)) {
      return Corruption(path + ":" + std::to_string(number) + ": a word and a value are expected");
    }
    values[word] = value;
  }
  return values;
}

Status CheckPrivate(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return NotFound("no file " + path);
    return ErrnoStatus("stat " + path);
  }
  if ((info.st_mode & 077) != 0) {
    return PermissionDenied(path + " holds a secret but other users may open it: chmod 600 " + path);
  }
  return Status::Ok();
}

Result<AllowedKey> ParseAllowed(const std::string& where, const std::string& line) {
  std::istringstream words(line);
  std::string role, rest;
  AllowedKey key;
  if (!(words >> role >> key.name >> key.public_key) || (words >> rest)) {
    return Corruption(where + ": '<role> <name> <public key>' is expected");
  }
  auto parsed = ParseRole(role);
  if (!parsed.ok()) return parsed.status().WithContext(where);
  key.role = *parsed;
  if (!IsKey(key.public_key)) return Corruption(where + ": '" + key.public_key + "' is no CURVE key");
  if (key.name.size() > 255) return Corruption(where + ": a name has at most 255 bytes");
  return key;
}

Result<std::vector<AllowedKey>> ReadAllowList(const std::string& directory) {
  const std::string path = Join(directory, "allowed.keys");
  PILLION_RETURN_IF_ERROR(CheckPrivate(path));
  PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path, limits::kKeyFileBytes));
  std::vector<AllowedKey> allowed;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    PILLION_ASSIGN_OR_RETURN(AllowedKey key, ParseAllowed(path + ":" + std::to_string(number), line));
    allowed.push_back(std::move(key));
  }
  return allowed;
}

Status WriteAllowList(const std::string& directory, const std::vector<AllowedKey>& allowed) {
  std::string text = "# Who may connect: <client|worker|operator> <name> <public key>\n";
  for (const AllowedKey& key : allowed) {
    text += std::string(RoleName(key.role)) + " " + key.name + " " + key.public_key + "\n";
  }
  return WriteFileDurably(Join(directory, "allowed.keys"), text, 0600);
}

// Reads a pair, or makes one when there is no file.
Result<KeyPair> ReadOrMakePair(const std::string& path) {
  auto pair = ReadKeyFile(path);
  if (pair.ok() || pair.status().code() != StatusCode::kNotFound) return pair;
  PILLION_ASSIGN_OR_RETURN(KeyPair made, GenerateKeyPair());
  PILLION_RETURN_IF_ERROR(WriteKeyFile(path, made));
  return made;
}

}  // namespace

Result<KeyPair> GenerateKeyPair() {
  char public_key[kKeyCharacters + 1], secret_key[kKeyCharacters + 1];
  if (zmq_curve_keypair(public_key, secret_key) != 0) {
    return Unsupported("this libzmq was built without CURVE: install the distribution's libzmq3");
  }
  return KeyPair{public_key, secret_key};
}

Result<KeyPair> ReadKeyFile(const std::string& path) {
  PILLION_RETURN_IF_ERROR(CheckPrivate(path));
  PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path, limits::kKeyFileBytes));
  PILLION_ASSIGN_OR_RETURN(auto values, ParseLines(path, text));
  KeyPair pair{values["public"], values["secret"]};
  char derived[kKeyCharacters + 1];
  if (!IsKey(pair.public_key) || !IsKey(pair.secret_key) ||
      zmq_curve_public(derived, pair.secret_key.c_str()) != 0 || pair.public_key != derived) {
    return Corruption(path + " holds no CURVE key pair");
  }
  return pair;
}

Status WriteKeyFile(const std::string& path, const KeyPair& pair) {
  return WriteFileDurably(path, "public " + pair.public_key + "\nsecret " + pair.secret_key + "\n", 0600);
}

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kClient: return "client";
    case Role::kWorker: return "worker";
    case Role::kOperator: return "operator";
  }
  return "unknown";
}

Result<Role> ParseRole(std::string_view text) {
  for (Role role : kRoles) {
    if (text == RoleName(role)) return role;
  }
  return InvalidArgument("'" + std::string(text) + "' is no role: client, worker or operator");
}

Result<ServerKeys> LoadOrCreateHeadKeys(const std::string& runtime_directory) {
  PILLION_RETURN_IF_ERROR(MakePrivateDirectory(runtime_directory));
  ServerKeys keys;
  PILLION_ASSIGN_OR_RETURN(keys.pair, ReadOrMakePair(Join(runtime_directory, "head.key")));
  auto allowed = ReadAllowList(runtime_directory);
  if (!allowed.ok() && allowed.status().code() != StatusCode::kNotFound) return allowed.status();
  const bool had_list = allowed.ok();
  if (had_list) keys.allowed = std::move(*allowed);
  // An operator who removed a line from the list meant it: our own keys are added only with a new list or key. The
  // list is written first, so that a crash in between leaves no key that nobody allows.
  bool changed = !had_list;
  std::vector<std::pair<std::string, KeyPair>> made;
  for (Role role : kRoles) {
    const std::string path = KeyPath(runtime_directory, role);
    auto pair = ReadKeyFile(path);
    if (!pair.ok() && pair.status().code() != StatusCode::kNotFound) return pair.status();
    if (pair.ok() && had_list) continue;
    if (!pair.ok()) {
      pair = GenerateKeyPair();
      if (!pair.ok()) return pair.status();
      made.emplace_back(path, *pair);
    }
    keys.allowed.push_back({role, "local", pair->public_key});
    changed = true;
  }
  if (changed) PILLION_RETURN_IF_ERROR(WriteAllowList(runtime_directory, keys.allowed));
  for (const auto& [path, pair] : made) PILLION_RETURN_IF_ERROR(WriteKeyFile(path, pair));
  return keys;
}

Result<ServerKeys> MakeServerKeys(const std::string& runtime_directory) {
  ServerKeys keys;
  PILLION_ASSIGN_OR_RETURN(keys.pair, GenerateKeyPair());
  auto allowed = ReadAllowList(runtime_directory);
  if (!allowed.ok() && allowed.status().code() == StatusCode::kNotFound) {
    return Unavailable(allowed.status().message() + ": start pillion-head first, it makes the keys");
  }
  if (!allowed.ok()) return allowed.status();
  keys.allowed = std::move(*allowed);
  return keys;
}

Result<KeyPair> LoadKeys(const std::string& runtime_directory, Role role) {
  auto pair = ReadKeyFile(KeyPath(runtime_directory, role));
  if (!pair.ok() && pair.status().code() == StatusCode::kNotFound) {
    return Unavailable(pair.status().message() + ": start pillion-head first, it makes the keys");
  }
  return pair;
}

Status AddAllowedKey(const std::string& runtime_directory, const AllowedKey& key) {
  PILLION_RETURN_IF_ERROR(MakePrivateDirectory(runtime_directory));
  const std::string line = std::string(RoleName(key.role)) + " " + key.name + " " + key.public_key;
  PILLION_ASSIGN_OR_RETURN(AllowedKey parsed, ParseAllowed("key to allow", line));
  auto allowed = ReadAllowList(runtime_directory);
  if (!allowed.ok() && allowed.status().code() != StatusCode::kNotFound) return allowed.status();
  std::vector<AllowedKey> keys;
  if (allowed.ok()) keys = std::move(*allowed);
  for (const AllowedKey& known : keys) {
    if (known.public_key == key.public_key) {
      return AlreadyExists("key " + key.public_key + " is allowed already, as " +
                           std::string(RoleName(known.role)) + " " + known.name);
    }
  }
  keys.push_back(std::move(parsed));
  return WriteAllowList(runtime_directory, keys);
}

std::string EndpointPath(const std::string& runtime_directory, std::string_view name) {
  return Join(runtime_directory, std::string(name) + ".endpoint");
}

Status WriteEndpoint(const std::string& runtime_directory, std::string_view name, const Endpoint& endpoint) {
  return WriteFileAtomically(EndpointPath(runtime_directory, name),
                             "address " + endpoint.address + "\npublic " + endpoint.public_key + "\n", 0600);
}

Result<Endpoint> ReadEndpoint(const std::string& runtime_directory, std::string_view name) {
  const std::string path = EndpointPath(runtime_directory, name);
  auto text = ReadFile(path, limits::kKeyFileBytes);
  if (!text.ok() && text.status().code() == StatusCode::kNotFound) {
    return Unavailable("no file " + path + ": is pillion-" + (name == "head" ? "head" : "worker") + " running?");
  }
  if (!text.ok()) return text.status();
  PILLION_ASSIGN_OR_RETURN(auto values, ParseLines(path, *text));
  Endpoint endpoint{values["address"], values["public"]};
  if (endpoint.address.rfind("tcp://", 0) != 0 || !IsKey(endpoint.public_key)) {
    return Corruption(path + " holds no endpoint: 'address tcp://host:port' and 'public <key>' are expected");
  }
  return endpoint;
}

}  // namespace pillion::wire
