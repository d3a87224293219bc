// One picture on its way through resizing and watermark, in small units of work. Where it stands
// can be stored and taken up again by another object: rows that are done are not resized again, but
// the file is decoded from its beginning, because decoders cannot be stored: between two moves
// there must be time to decode one picture.
#ifndef PILLION_SIDETASKS_IMAGE_PICTURE_H_
#define PILLION_SIDETASKS_IMAGE_PICTURE_H_

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "pillion/side_task.h"
#include "sidetasks/image/codec.h"
#include "sidetasks/image/resample.h"
#include "sidetasks/image/watermark.h"

namespace pillion::sidetasks {

// Memory for many rows that is not cleared first: that would be one long item.
class RowBuffer {
 public:
  void Allocate(size_t bytes) { memory_ = std::make_unique_for_overwrite<uint8_t[]>(bytes); }
  void Free() { memory_.reset(); }
  uint8_t* data() const { return memory_.get(); }

 private:
  std::unique_ptr<uint8_t[]> memory_;
};

struct PictureOptions {
  uint32_t width = 0, height = 0;  // of the result; height 0: as the proportions say
  ResampleFilter filter = ResampleFilter::kArea;
  std::string watermark;
  int opacity = 128;
  int quality = 85;
  uint64_t pixels_at_most = 0;
};

class Picture {
 public:
  Picture(const PictureOptions* options, std::string path)
      : options_(*options), path_(std::move(path)) {}

  // One unit. True when the picture is done: output() is the whole file. Errors are about this
  // picture.
  Result<bool> Advance();
  const std::string& output() const { return output_; }

  Status Save(CheckpointWriter& checkpoint) const;
  Status Load(CheckpointReader& checkpoint);

 private:
  enum class Phase : uint8_t {
    kRead = 0,     // the file into memory, a piece at a time
    kPrepare = 1,  // what the decoder needs before the first row
    kDecode = 2,   // rows, each resized across at once
    kRender = 3,   // rows of the result: resized along, watermark
    kEncode = 4,
    kDone = 5,
  };

  Status Read();
  Status StartDecoding();
  Status DecodeRow();
  void StartRendering();
  void RenderRow();
  Status EncodeRow();
  ImageShape ResultShape() const;

  const PictureOptions& options_;
  const std::string path_;
  Phase phase_ = Phase::kRead;
  uint32_t row_ = 0;         // next one of kDecode, kRender or kEncode
  uint32_t resume_row_ = 0;  // rows before it need no resizing any more
  ImageFormat format_ = ImageFormat::kJpeg;
  ImageShape shape_;  // of the file
  FileDescriptor file_;
  std::string bytes_;  // of the file
  std::unique_ptr<ImageDecoder> decoder_;
  std::unique_ptr<ImageEncoder> encoder_;
  ResampleAxis across_, along_;
  Watermark watermark_;
  std::vector<uint8_t> decoded_;  // one row
  RowBuffer narrow_;              // all rows, resized across
  RowBuffer result_;              // all rows
  std::string output_;
};

}  // namespace pillion::sidetasks

#endif  // PILLION_SIDETASKS_IMAGE_PICTURE_H_
