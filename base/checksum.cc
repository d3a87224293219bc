#include "base/checksum.h"

#include <xxhash.h>

namespace pillion {
uint64_t Checksum64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }
uint64_t Checksum64(const void* data, size_t size) { return XXH3_64bits(data, size); }
}  // namespace pillion
