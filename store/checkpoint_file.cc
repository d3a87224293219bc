#include "store/checkpoint_file.h"

#include <bit>
#include <charconv>
#include <cstring>

#include "base/checksum.h"
#include "base/file.h"
#include "base/limits.h"

namespace pillion::store {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic("PILCKPT\0", 8);
constexpr std::string_view kSuffix = ".ckpt";

template <typename T>
void Append(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T Take(std::string_view* from) {
  T value;
  std::memcpy(&value, from->data(), sizeof value);
  from->remove_prefix(sizeof value);
  return value;
}

bool TakeNumber(std::string_view* text, uint64_t* value) {
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

}  // namespace

std::string EncodeCheckpointHeader(const CheckpointHeader& header) {
  std::string out(kMagic);
  Append<uint32_t>(&out, kCheckpointFileVersion);
  Append<uint32_t>(&out, kCheckpointHeaderBytes);
  Append<uint64_t>(&out, header.task.job.high);
  Append<uint64_t>(&out, header.task.job.low);
  Append<uint32_t>(&out, header.task.index);
  Append<uint32_t>(&out, 0);
  Append<uint64_t>(&out, header.epoch);
  Append<uint64_t>(&out, header.step);
  Append<uint64_t>(&out, header.length_bytes);
  Append<uint64_t>(&out, header.payload_checksum);
  Append<uint64_t>(&out, Checksum64(out));
  PILLION_CHECK(out.size() == kCheckpointHeaderBytes,
                "the header's grammar and its encoder differ");
  return out;
}

Result<CheckpointHeader> ParseCheckpointHeader(std::string_view bytes) {
  if (bytes.size() < kMagic.size() + 8) return Corruption("the header is cut off");
  if (bytes.substr(0, kMagic.size()) != kMagic)
    return Corruption("it does not begin as a checkpoint file does");
  std::string_view rest = bytes.substr(kMagic.size());
  auto version = Take<uint32_t>(&rest);
  auto header_bytes = Take<uint32_t>(&rest);
  if (version > kCheckpointFileVersion) {
    return Unsupported("checkpoint file version " + std::to_string(version) +
                       ", this program reads up to version " +
                       std::to_string(kCheckpointFileVersion));
  }
  if (version == 0 || header_bytes != kCheckpointHeaderBytes)
    return Corruption("the header's length is wrong");
  if (bytes.size() < kCheckpointHeaderBytes) return Corruption("the header is cut off");
  CheckpointHeader header;
  header.task.job.high = Take<uint64_t>(&rest);
  header.task.job.low = Take<uint64_t>(&rest);
  header.task.index = Take<uint32_t>(&rest);
  Take<uint32_t>(&rest);
  header.epoch = Take<uint64_t>(&rest);
  header.step = Take<uint64_t>(&rest);
  header.length_bytes = Take<uint64_t>(&rest);
  header.payload_checksum = Take<uint64_t>(&rest);
  if (Take<uint64_t>(&rest) != Checksum64(bytes.substr(0, kCheckpointHeaderBytes - 8))) {
    return Corruption("the header's checksum does not match");
  }
  return header;
}

Result<CheckpointHeader> ReadCheckpointFile(const std::string& path, std::string* payload) {
  PILLION_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, limits::kCheckpointFileBytes));
  auto named = [&](const Status& status) { return status.WithContext("checkpoint file " + path); };
  Result<CheckpointHeader> header = ParseCheckpointHeader(bytes);
  if (!header.ok()) return named(header.status());
  uint64_t length = bytes.size() - kCheckpointHeaderBytes;
  if (length != header->length_bytes) {
    return named(Corruption("it has " + std::to_string(length) +
                            " bytes of state, its header says " +
                            std::to_string(header->length_bytes)));
  }
  if (Checksum64(std::string_view(bytes).substr(kCheckpointHeaderBytes)) !=
      header->payload_checksum) {
    return named(Corruption("the checksum of its state does not match"));
  }
  bytes.erase(0, kCheckpointHeaderBytes);
  *payload = std::move(bytes);
  return header;
}

std::string CheckpointFileName(Epoch epoch, Step step) {
  return std::to_string(epoch) + "-" + std::to_string(step) + std::string(kSuffix);
}

bool ParseCheckpointFileName(std::string_view name, Epoch* epoch, Step* step) {
  if (!TakeNumber(&name, epoch) || name.empty() || name[0] != '-') return false;
  name.remove_prefix(1);
  return TakeNumber(&name, step) && name == kSuffix;
}

}  // namespace pillion::store
