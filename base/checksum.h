// XXH3 (xxHash), the checksum and content address of everything stored. Detects damage, not malice.
#ifndef PILLION_BASE_CHECKSUM_H_
#define PILLION_BASE_CHECKSUM_H_

#include <cstdint>
#include <string_view>

namespace pillion {
uint64_t Checksum64(std::string_view bytes);
uint64_t Checksum64(const void* data, size_t size);
}  // namespace pillion

#endif  // PILLION_BASE_CHECKSUM_H_
