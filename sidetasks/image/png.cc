// libpng reports errors by a function that must not return; see jpeg.cc.
#include <png.h>

#include <cstring>
#include <vector>

#include "sidetasks/image/codec.h"

namespace pillion::sidetasks {
namespace {

constexpr png_alloc_size_t kChunkBytes = 16 << 20;

// Where the library's callbacks find our state.
struct ErrorText {
  char message[256] = "";
};

void OnError(png_structp png, png_const_charp message) {
  auto* text = static_cast<ErrorText*>(png_get_error_ptr(png));
  std::strncpy(text->message, message, sizeof text->message - 1);
  png_longjmp(png, 1);
}
void OnWarning(png_structp, png_const_charp) {}  // about colour profiles and the like

class PngDecoder final : public ImageDecoder {
 public:
  PngDecoder()
      : png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &error_, &OnError, &OnWarning)) {
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    format_ = ImageFormat::kPng;
  }
  ~PngDecoder() override { png_destroy_read_struct(&png_, &info_, nullptr); }

  Status Open(std::string_view bytes, uint64_t pixels_at_most) {
    if (png_ == nullptr || info_ == nullptr)
      return ResourceExhausted("no memory for a PNG decoder");
    rest_ = bytes;
    if (setjmp(png_jmpbuf(png_)) != 0) return Corruption(error_.message);
    png_set_chunk_malloc_max(png_, kChunkBytes);
    png_set_read_fn(png_, this, &Read);
    png_read_info(png_, info_);
    uint32_t width = png_get_image_width(png_, info_), height = png_get_image_height(png_, info_);
    PILLION_RETURN_IF_ERROR(CheckPixels(width, height, pixels_at_most));
    png_set_expand(png_);
    png_set_strip_16(png_);
    png_set_gray_to_rgb(png_);
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    shape_ = {width, height, png_get_channels(png_, info_)};
    if (shape_.channels != 3 && shape_.channels != 4)
      return Unsupported("the picture has an unknown kind of pixels");
    return Status::Ok();
  }

  // An interlaced picture comes in passes over all of it: a row of a pass at a time.
  Result<bool> Prepare() override {
    if (passes_ == 1 || pass_ == passes_) return true;
    const size_t row_bytes = size_t{shape_.width} * shape_.channels;
    whole_.resize(row_bytes * shape_.height);
    if (setjmp(png_jmpbuf(png_)) != 0) return Corruption(error_.message);
    png_read_row(png_, whole_.data() + row_bytes * row_, nullptr);
    if (++row_ == shape_.height) {
      row_ = 0;
      ++pass_;
    }
    return pass_ == passes_;
  }

  Status ReadRow(uint8_t* row) override {
    const size_t row_bytes = size_t{shape_.width} * shape_.channels;
    if (setjmp(png_jmpbuf(png_)) != 0) return Corruption(error_.message);
    if (passes_ == 1) {
      png_read_row(png_, row, nullptr);
    } else {
      std::memcpy(row, whole_.data() + row_bytes * row_, row_bytes);
    }
    if (++row_ == shape_.height) png_read_end(png_, nullptr);
    return Status::Ok();
  }

 private:
  static void Read(png_structp png, png_bytep to, size_t bytes) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (bytes > self->rest_.size()) png_error(png, "the file is cut off");
    std::memcpy(to, self->rest_.data(), bytes);
    self->rest_.remove_prefix(bytes);
  }

  ErrorText error_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::string_view rest_;
  int passes_ = 1, pass_ = 0;
  uint32_t row_ = 0;
  std::vector<uint8_t> whole_;  // of an interlaced picture
};

class PngEncoder final : public ImageEncoder {
 public:
  PngEncoder()
      : png_(png_create_write_struct(PNG_LIBPNG_VER_STRING, &error_, &OnError, &OnWarning)) {
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngEncoder() override { png_destroy_write_struct(&png_, &info_); }

  Status Open(const ImageShape& shape) {
    if (png_ == nullptr || info_ == nullptr)
      return ResourceExhausted("no memory for a PNG encoder");
    if (setjmp(png_jmpbuf(png_)) != 0) return Internal(error_.message);
    png_set_write_fn(png_, &bytes_, &Append, nullptr);
    png_set_IHDR(png_, info_, shape.width, shape.height, 8,
                 shape.channels == 4 ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    return Status::Ok();
  }

  Status WriteRow(const uint8_t* row) override {
    if (setjmp(png_jmpbuf(png_)) != 0) return Internal(error_.message);
    png_write_row(png_, row);
    return Status::Ok();
  }

  Result<std::string> Finish() override {
    if (setjmp(png_jmpbuf(png_)) != 0) return Internal(error_.message);
    png_write_end(png_, info_);
    return std::move(bytes_);
  }

 private:
  static void Append(png_structp png, png_bytep data, size_t bytes) {
    static_cast<std::string*>(png_get_io_ptr(png))
        ->append(reinterpret_cast<const char*>(data), bytes);
  }

  ErrorText error_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::string bytes_;
};

}  // namespace

Result<std::unique_ptr<ImageDecoder>> OpenPng(std::string_view bytes, uint64_t pixels_at_most) {
  auto decoder = std::make_unique<PngDecoder>();
  PILLION_RETURN_IF_ERROR(decoder->Open(bytes, pixels_at_most));
  return std::unique_ptr<ImageDecoder>(std::move(decoder));
}

Result<std::unique_ptr<ImageEncoder>> MakePngEncoder(const ImageShape& shape) {
  auto encoder = std::make_unique<PngEncoder>();
  PILLION_RETURN_IF_ERROR(encoder->Open(shape));
  return std::unique_ptr<ImageEncoder>(std::move(encoder));
}

}  // namespace pillion::sidetasks
