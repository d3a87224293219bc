// Any bytes: the scan ends, stays inside them, and finds nothing new in what it called intact.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/wal_scan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pillion;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  store::WalFileScan scan = store::ScanWalFile(bytes);
  if (scan.good_bytes > size || (scan.intact_follows && scan.intact_offset >= size)) std::abort();
  store::WalFileScan intact = store::ScanWalFile(bytes.substr(0, scan.good_bytes));
  if (intact.damaged || intact.gap || intact.batches != scan.batches) std::abort();
  return 0;
}
