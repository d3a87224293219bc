// Any bytes: a header is refused, or it is the one that encodes to these bytes. File names likewise.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/checkpoint_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pillion;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Result<store::CheckpointHeader> header = store::ParseCheckpointHeader(bytes);
  if (header.ok()) {
    // Four bytes are kept for later and not looked at.
    std::string again = store::EncodeCheckpointHeader(*header);
    Result<store::CheckpointHeader> same = store::ParseCheckpointHeader(again);
    if (!same.ok() || same->task != header->task || same->step != header->step) std::abort();
  }
  Epoch epoch = 0;
  Step step = 0;
  (void)store::ParseCheckpointFileName(bytes, &epoch, &step);
  return 0;
}
