// CRC-32C (Castagnoli), as RocksDB's write-ahead log uses it.
#ifndef PILLION_STORE_CRC32C_H_
#define PILLION_STORE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace pillion::store {

// Continues from the checksum of what came before (0 at the start).
uint32_t Crc32cExtend(uint32_t crc, const void* data, size_t size);

}  // namespace pillion::store

#endif  // PILLION_STORE_CRC32C_H_
