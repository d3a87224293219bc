#include "sidetasks/image/picture.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace pillion::sidetasks {
namespace {

constexpr size_t kPieceBytes = 128 << 10;
constexpr size_t kFileBytes = 1 << 30;

Status ReadRows(CheckpointReader& checkpoint, size_t bytes, const RowBuffer& to) {
  if (bytes > checkpoint.remaining())
    return Corruption("checkpoint: rows of a picture are missing");
  return checkpoint.Read(to.data(), bytes);
}

}  // namespace

Result<bool> Picture::Advance() {
  switch (phase_) {
    case Phase::kRead:
      PILLION_RETURN_IF_ERROR(Read());
      break;
    case Phase::kPrepare: {
      PILLION_ASSIGN_OR_RETURN(bool ready, decoder_->Prepare());
      if (ready) phase_ = Phase::kDecode;
      break;
    }
    case Phase::kDecode:
      PILLION_RETURN_IF_ERROR(DecodeRow());
      break;
    case Phase::kRender:
      RenderRow();
      break;
    case Phase::kEncode:
      PILLION_RETURN_IF_ERROR(EncodeRow());
      break;
    case Phase::kDone:
      break;
  }
  return phase_ == Phase::kDone;
}

Status Picture::Read() {
  if (!file_.valid()) {
    file_ = FileDescriptor(open(path_.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file_.valid()) return ErrnoStatus("open");
    struct stat info {};
    if (fstat(file_.get(), &info) == 0 && info.st_size > 0) {
      bytes_.reserve(std::min(kFileBytes, static_cast<size_t>(info.st_size)) + kPieceBytes);
    }
  }
  size_t before = bytes_.size();
  bytes_.resize(before + kPieceBytes);
  ssize_t got = read(file_.get(), bytes_.data() + before, kPieceBytes);
  if (got < 0) return ErrnoStatus("read");
  bytes_.resize(before + static_cast<size_t>(got));
  if (bytes_.size() > kFileBytes) return ResourceExhausted("the file is longer than 1 GiB");
  return got == 0 ? StartDecoding() : Status::Ok();
}

Status Picture::StartDecoding() {
  file_ = FileDescriptor();
  PILLION_ASSIGN_OR_RETURN(decoder_, OpenImage(bytes_, options_.pixels_at_most));
  if (resume_row_ > 0 && (decoder_->shape() != shape_ || decoder_->format() != format_)) {
    resume_row_ = 0;  // another picture has this name now: nothing of the old one is used
  }
  format_ = decoder_->format();
  shape_ = decoder_->shape();
  ImageShape result = ResultShape();
  across_ = ResampleAxis(shape_.width, result.width, options_.filter);
  decoded_.resize(size_t{shape_.width} * shape_.channels);
  if (resume_row_ == 0) narrow_.Allocate(size_t{result.width} * shape_.channels * shape_.height);
  row_ = 0;
  phase_ = Phase::kPrepare;
  return Status::Ok();
}

Status Picture::DecodeRow() {
  PILLION_RETURN_IF_ERROR(decoder_->ReadRow(decoded_.data()));
  if (row_ >= resume_row_) {
    if (shape_.channels == 4) Premultiply(decoded_.data(), shape_.width);
    const size_t row_bytes = size_t{across_.out()} * shape_.channels;
    ResampleRow(across_, decoded_.data(), shape_.channels, narrow_.data() + row_ * row_bytes);
  }
  if (++row_ < shape_.height) return Status::Ok();
  row_ = 0;
  resume_row_ = 0;
  decoder_.reset();
  bytes_ = std::string();
  phase_ = Phase::kRender;
  StartRendering();
  return Status::Ok();
}

ImageShape Picture::ResultShape() const {
  double proportion = static_cast<double>(shape_.height) / shape_.width;
  uint32_t height = options_.height;
  if (height == 0)
    height = static_cast<uint32_t>(std::max(1l, std::lround(options_.width * proportion)));
  return {options_.width, height, shape_.channels};
}

void Picture::StartRendering() {
  ImageShape result = ResultShape();
  along_ = ResampleAxis(shape_.height, result.height, options_.filter);
  watermark_ = Watermark(options_.watermark, result.width, result.height, options_.opacity);
  result_.Allocate(size_t{result.width} * result.channels * result.height);
}

void Picture::RenderRow() {
  const uint32_t width = options_.width;
  const size_t row_bytes = size_t{width} * shape_.channels;
  uint8_t* row = result_.data() + row_ * row_bytes;
  ResampleColumn(along_, row_, narrow_.data(), row_bytes, row);
  if (shape_.channels == 4) Unpremultiply(row, width);
  watermark_.BlendRow(row_, shape_.channels, row);
  if (++row_ < along_.out()) return;
  row_ = 0;
  narrow_.Free();
  phase_ = Phase::kEncode;
}

Status Picture::EncodeRow() {
  ImageShape result = ResultShape();
  if (encoder_ == nullptr) {
    PILLION_ASSIGN_OR_RETURN(encoder_, MakeImageEncoder(format_, result, options_.quality));
  }
  PILLION_RETURN_IF_ERROR(
      encoder_->WriteRow(result_.data() + size_t{row_} * result.width * result.channels));
  if (++row_ < result.height) return Status::Ok();
  PILLION_ASSIGN_OR_RETURN(output_, encoder_->Finish());
  encoder_.reset();
  result_.Free();
  phase_ = Phase::kDone;
  return Status::Ok();
}

// While the rows of a resumed picture are decoded again, resume_row_ says how far it had come.
Status Picture::Save(CheckpointWriter& checkpoint) const {
  Phase stored = phase_;
  uint32_t rows = row_;
  if (phase_ <= Phase::kDecode) {
    rows = std::max(resume_row_, phase_ == Phase::kDecode ? row_ : 0);
    stored = rows > 0 ? Phase::kDecode : Phase::kRead;
  }
  if (stored == Phase::kEncode) rows = 0;  // an encoder cannot be stored either, but it is quick
  PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(stored));
  if (stored == Phase::kRead) return Status::Ok();
  PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(rows));
  PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(format_));
  PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(shape_));
  const size_t row_bytes = size_t{options_.width} * shape_.channels;
  if (stored == Phase::kDecode) return checkpoint.Write(narrow_.data(), rows * row_bytes);
  if (stored == Phase::kRender) {
    PILLION_RETURN_IF_ERROR(checkpoint.Write(narrow_.data(), row_bytes * shape_.height));
    return checkpoint.Write(result_.data(), rows * row_bytes);
  }
  return checkpoint.Write(result_.data(), row_bytes * ResultShape().height);
}

Status Picture::Load(CheckpointReader& checkpoint) {
  Phase stored = Phase::kRead;
  uint32_t rows = 0;
  PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&stored));
  if (stored == Phase::kRead) return Status::Ok();
  PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&rows));
  PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&format_));
  PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&shape_));
  bool known = (stored == Phase::kDecode || stored == Phase::kRender || stored == Phase::kEncode) &&
               (format_ == ImageFormat::kJpeg || format_ == ImageFormat::kPng) &&
               (shape_.channels == 3 || shape_.channels == 4) &&
               CheckPixels(shape_.width, shape_.height, options_.pixels_at_most).ok();
  const ImageShape result = known ? ResultShape() : ImageShape();
  if (!known || rows > (stored == Phase::kDecode ? shape_.height : result.height)) {
    return Corruption("checkpoint: no place in a picture");
  }
  const size_t row_bytes = size_t{result.width} * result.channels;
  if (stored != Phase::kEncode) narrow_.Allocate(row_bytes * shape_.height);
  if (stored == Phase::kDecode) {
    resume_row_ = rows;
    return ReadRows(checkpoint, row_bytes * rows, narrow_);
  }
  phase_ = stored;
  row_ = rows;
  StartRendering();
  if (stored == Phase::kEncode) return ReadRows(checkpoint, row_bytes * result.height, result_);
  PILLION_RETURN_IF_ERROR(ReadRows(checkpoint, row_bytes * shape_.height, narrow_));
  return ReadRows(checkpoint, row_bytes * rows, result_);
}

}  // namespace pillion::sidetasks
