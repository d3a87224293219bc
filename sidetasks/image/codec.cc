#include "sidetasks/image/codec.h"

namespace pillion::sidetasks {

Status CheckPixels(uint64_t width, uint64_t height, uint64_t pixels_at_most) {
  if (width == 0 || height == 0) return Corruption("the picture has no pixels");
  if (width * height <= pixels_at_most) return Status::Ok();
  return ResourceExhausted("the picture has " + std::to_string(width) + " x " +
                           std::to_string(height) + " pixels, more than the " +
                           std::to_string(pixels_at_most) + " of max_megapixels");
}

Result<std::unique_ptr<ImageDecoder>> OpenImage(std::string_view bytes, uint64_t pixels_at_most) {
  if (bytes.substr(0, 2) == "\xFF\xD8") return OpenJpeg(bytes, pixels_at_most);
  if (bytes.substr(0, 8) == std::string_view("\x89PNG\r\n\x1A\n", 8))
    return OpenPng(bytes, pixels_at_most);
  return Corruption("the file is neither JPEG nor PNG");
}

Result<std::unique_ptr<ImageEncoder>> MakeImageEncoder(ImageFormat format, const ImageShape& shape,
                                                       int quality) {
  return format == ImageFormat::kJpeg ? MakeJpegEncoder(shape, quality) : MakePngEncoder(shape);
}

}  // namespace pillion::sidetasks
