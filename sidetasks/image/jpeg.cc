// libjpeg reports errors by a function that must not return. It jumps back to the method of ours
// that called the library; between setjmp and the call there are only trivial objects.
// clang-format off: jpeglib.h uses what cstdio declares and includes nothing itself
#include <csetjmp>
#include <cstdio>
#include <cstdlib>

#include <jerror.h>
#include <jpeglib.h>
// clang-format on

#include "sidetasks/image/codec.h"

namespace pillion::sidetasks {
namespace {

constexpr int kScans = 300;  // of a progressive picture; more are an attack on our time

struct ErrorManager {
  jpeg_error_mgr base;  // first: libjpeg hands back a pointer to it
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  bool damaged;

  static ErrorManager* Of(j_common_ptr info) { return reinterpret_cast<ErrorManager*>(info->err); }
  static void Exit(j_common_ptr info) {
    ErrorManager* self = Of(info);
    info->err->format_message(info, self->message);
    std::longjmp(self->jump, 1);
  }
  // Warnings are what libjpeg makes of cut and damaged files, which it fills with grey.
  static void Emit(j_common_ptr info, int level) {
    ErrorManager* self = Of(info);
    if (level >= 0 || info->err->msg_code == JWRN_EXTRANEOUS_DATA || self->damaged) return;
    info->err->format_message(info, self->message);
    self->damaged = true;
  }
  jpeg_error_mgr* Install() {
    jpeg_error_mgr* standard = jpeg_std_error(&base);
    base.error_exit = &Exit;
    base.emit_message = &Emit;
    message[0] = 0;
    damaged = false;
    return standard;
  }
  Status ToStatus() const { return Corruption(message); }
};

class JpegDecoder final : public ImageDecoder {
 public:
  JpegDecoder() {
    info_.err = error_.Install();
    jpeg_create_decompress(&info_);
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&info_); }

  Status Open(std::string_view bytes, uint64_t pixels_at_most) {
    if (setjmp(error_.jump) != 0) return error_.ToStatus();
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
    jpeg_read_header(&info_, TRUE);
    PILLION_RETURN_IF_ERROR(CheckPixels(info_.image_width, info_.image_height, pixels_at_most));
    if (info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK) {
      return Unsupported("the picture is in CMYK colours");
    }
    info_.out_color_space = JCS_RGB;
    // Several scans: taken in piece by piece (Prepare), instead of all at once by
    // jpeg_start_decompress.
    info_.buffered_image = jpeg_has_multiple_scans(&info_);
    prepared_ = !info_.buffered_image;
    jpeg_start_decompress(&info_);
    shape_ = {info_.output_width, info_.output_height, 3};
    return Status::Ok();
  }

  Result<bool> Prepare() override {
    if (prepared_) return true;
    if (setjmp(error_.jump) != 0) return error_.ToStatus();
    if (jpeg_consume_input(&info_) == JPEG_REACHED_EOI) {
      jpeg_start_output(&info_, info_.input_scan_number);
      prepared_ = true;
    }
    if (error_.damaged) return error_.ToStatus();
    if (info_.input_scan_number > kScans) return Corruption("the picture has too many scans");
    return prepared_;
  }

  Status ReadRow(uint8_t* row) override {
    if (setjmp(error_.jump) != 0) return error_.ToStatus();
    JSAMPROW rows[1] = {row};
    jpeg_read_scanlines(&info_, rows, 1);
    if (info_.output_scanline == info_.output_height) {
      if (info_.buffered_image) jpeg_finish_output(&info_);
      jpeg_finish_decompress(&info_);
    }
    return error_.damaged ? error_.ToStatus() : Status::Ok();
  }

 private:
  jpeg_decompress_struct info_{};
  ErrorManager error_;
  bool prepared_ = false;
};

class JpegEncoder final : public ImageEncoder {
 public:
  JpegEncoder() {
    info_.err = error_.Install();
    jpeg_create_compress(&info_);
  }
  ~JpegEncoder() override {
    jpeg_destroy_compress(&info_);
    std::free(bytes_);
  }

  Status Open(const ImageShape& shape, int quality) {
    if (setjmp(error_.jump) != 0) return error_.ToStatus();
    jpeg_mem_dest(&info_, &bytes_, &size_);
    info_.image_width = shape.width;
    info_.image_height = shape.height;
    info_.input_components = 3;
    info_.in_color_space = JCS_RGB;
    jpeg_set_defaults(&info_);
    jpeg_set_quality(&info_, quality, TRUE);
    jpeg_start_compress(&info_, TRUE);
    return Status::Ok();
  }

  Status WriteRow(const uint8_t* row) override {
    if (setjmp(error_.jump) != 0) return error_.ToStatus();
    JSAMPROW rows[1] = {const_cast<uint8_t*>(row)};
    jpeg_write_scanlines(&info_, rows, 1);
    return Status::Ok();
  }

  Result<std::string> Finish() override {
    if (setjmp(error_.jump) != 0) return error_.ToStatus();
    jpeg_finish_compress(&info_);
    return std::string(reinterpret_cast<const char*>(bytes_), size_);
  }

 private:
  jpeg_compress_struct info_{};
  ErrorManager error_;
  unsigned char* bytes_ = nullptr;
  unsigned long size_ = 0;  // NOLINT: libjpeg's type
};

}  // namespace

Result<std::unique_ptr<ImageDecoder>> OpenJpeg(std::string_view bytes, uint64_t pixels_at_most) {
  auto decoder = std::make_unique<JpegDecoder>();
  PILLION_RETURN_IF_ERROR(decoder->Open(bytes, pixels_at_most));
  return std::unique_ptr<ImageDecoder>(std::move(decoder));
}

Result<std::unique_ptr<ImageEncoder>> MakeJpegEncoder(const ImageShape& shape, int quality) {
  if (shape.channels != 3) return InvalidArgument("JPEG has no transparency");
  if (shape.width > JPEG_MAX_DIMENSION || shape.height > JPEG_MAX_DIMENSION) {
    return InvalidArgument("a JPEG has at most " + std::to_string(JPEG_MAX_DIMENSION) +
                           " pixels in a row or column");
  }
  auto encoder = std::make_unique<JpegEncoder>();
  PILLION_RETURN_IF_ERROR(encoder->Open(shape, quality));
  return std::unique_ptr<ImageEncoder>(std::move(encoder));
}

}  // namespace pillion::sidetasks
