// Any bytes as a picture: an error, or all of its rows.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "sidetasks/image/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pillion;
  auto decoder = sidetasks::OpenImage({reinterpret_cast<const char*>(data), size}, 1'000'000);
  if (!decoder.ok()) return 0;
  for (bool ready = false; !ready;) {
    Result<bool> prepared = (*decoder)->Prepare();
    if (!prepared.ok()) return 0;
    ready = *prepared;
  }
  const sidetasks::ImageShape shape = (*decoder)->shape();
  if (uint64_t{shape.width} * shape.height > 1'000'000) std::abort();
  std::vector<uint8_t> row(size_t{shape.width} * shape.channels);
  for (uint32_t y = 0; y < shape.height; ++y) {
    if (!(*decoder)->ReadRow(row.data()).ok()) return 0;
  }
  return 0;
}
