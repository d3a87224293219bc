// JPEG and PNG, a row at a time, so that decoding and encoding can stop between any two rows. All
// bytes may be hostile: errors are Status, sizes are bounded.
#ifndef PILLION_SIDETASKS_IMAGE_CODEC_H_
#define PILLION_SIDETASKS_IMAGE_CODEC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"

namespace pillion::sidetasks {

enum class ImageFormat : uint8_t { kJpeg = 0, kPng = 1 };

struct ImageShape {
  uint32_t width = 0, height = 0;
  uint32_t channels = 3;  // 3: RGB, 4: RGBA (PNG only)
  friend bool operator==(const ImageShape& a, const ImageShape& b) {
    return a.width == b.width && a.height == b.height && a.channels == b.channels;
  }
};

class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;
  ImageFormat format() const { return format_; }
  const ImageShape& shape() const { return shape_; }

  // A bounded part of what must happen before the first row can be read (progressive and interlaced
  // pictures). True when nothing is left of it.
  virtual Result<bool> Prepare() = 0;
  // The next row, width × channels bytes; after the last one, also that the file is whole.
  // kCorruption says what is wrong with the file.
  virtual Status ReadRow(uint8_t* row) = 0;

 protected:
  ImageFormat format_ = ImageFormat::kJpeg;
  ImageShape shape_;
};

// By the first bytes, not by name. `bytes` outlive the decoder. kCorruption, kUnsupported (colour
// spaces) or kResourceExhausted (more than `pixels_at_most`).
Result<std::unique_ptr<ImageDecoder>> OpenImage(std::string_view bytes, uint64_t pixels_at_most);

class ImageEncoder {
 public:
  virtual ~ImageEncoder() = default;
  virtual Status WriteRow(const uint8_t* row) = 0;
  // After the last row: the whole file.
  virtual Result<std::string> Finish() = 0;
};
// `quality` 1 … 100 counts for JPEG only.
Result<std::unique_ptr<ImageEncoder>> MakeImageEncoder(ImageFormat format, const ImageShape& shape,
                                                       int quality);

// The two halves of OpenImage and MakeImageEncoder.
Result<std::unique_ptr<ImageDecoder>> OpenJpeg(std::string_view bytes, uint64_t pixels_at_most);
Result<std::unique_ptr<ImageDecoder>> OpenPng(std::string_view bytes, uint64_t pixels_at_most);
Result<std::unique_ptr<ImageEncoder>> MakeJpegEncoder(const ImageShape& shape, int quality);
Result<std::unique_ptr<ImageEncoder>> MakePngEncoder(const ImageShape& shape);

Status CheckPixels(uint64_t width, uint64_t height, uint64_t pixels_at_most);

}  // namespace pillion::sidetasks

#endif  // PILLION_SIDETASKS_IMAGE_CODEC_H_
