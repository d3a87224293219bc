// Small labelled pictures to train on, in the layout of CIFAR-10's binary files.
//
//   file   = { record }
//   record = label (1 byte, 0 to 9) · 3072 bytes: 32 rows of 32 red values, then green, then blue
#ifndef PILLION_SIDETASKS_TORCH_IMAGES_H_
#define PILLION_SIDETASKS_TORCH_IMAGES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace pillion::sidetasks {

inline constexpr int64_t kImageChannels = 3;
inline constexpr int64_t kImageSide = 32;
inline constexpr size_t kImageBytes = kImageChannels * kImageSide * kImageSide;
inline constexpr int64_t kImageClasses = 10;

struct Images {
  std::vector<uint8_t> pixels;  // kImageBytes each
  std::vector<uint8_t> labels;
  size_t count() const { return labels.size(); }
  const uint8_t* image(size_t index) const { return pixels.data() + index * kImageBytes; }
  uint64_t Fingerprint() const;
  // Of all pixels; the deviation is at least 1.
  void Moments(double* mean, double* deviation) const;
};

// At most `most` of them. `source` is such a file, or "licences": passages of the licence texts
// that every Debian machine has, 3072 bytes each as a picture, labelled by the text they are from.
// kCorruption names a bad record.
Result<Images> LoadImages(const std::string& source, size_t most);

}  // namespace pillion::sidetasks

#endif  // PILLION_SIDETASKS_TORCH_IMAGES_H_
