// Any bytes: Decode refuses them, or yields a message that encodes and decodes again to the same bytes.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/wire/codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto message = pillion::wire::Decode({reinterpret_cast<const char*>(data), size});
  if (!message.ok()) return 0;
  auto encoded = pillion::wire::Encode(*message);
  // Pointers that share targets can make a small message mean a large one.
  if (!encoded.ok()) return encoded.status().code() == pillion::StatusCode::kResourceExhausted ? 0 : (std::abort(), 1);
  auto again = pillion::wire::Decode(*encoded);
  if (!again.ok() || pillion::wire::Encode(*again).value() != *encoded) std::abort();
  return 0;
}
