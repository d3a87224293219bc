// A line of text in a small built-in font, blended over the lower right corner of a picture.
#ifndef PILLION_SIDETASKS_IMAGE_WATERMARK_H_
#define PILLION_SIDETASKS_IMAGE_WATERMARK_H_

#include <cstdint>
#include <string>

#include "base/status.h"

namespace pillion::sidetasks {

class Watermark {
 public:
  // Letters (small ones look like capitals), digits, blank and - . : / _ ; kInvalidArgument names
  // any other.
  static Status Check(const std::string& text);

  Watermark() = default;
  // As large as fits a third of the width; nothing where there is no room. `opacity` 0 … 255.
  Watermark(const std::string& text, uint32_t width, uint32_t height, int opacity);

  // Blends what of the text lies on row `y`.
  void BlendRow(uint32_t y, uint32_t channels, uint8_t* row) const;

 private:
  std::string text_;
  int opacity_ = 0;
  uint32_t scale_ = 0;  // pixels per dot; 0: no room
  uint32_t left_ = 0, top_ = 0;
};

}  // namespace pillion::sidetasks

#endif  // PILLION_SIDETASKS_IMAGE_WATERMARK_H_
