// Separable resizing in fixed point: the same pixels on every machine.
#ifndef PILLION_SIDETASKS_IMAGE_RESAMPLE_H_
#define PILLION_SIDETASKS_IMAGE_RESAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pillion::sidetasks {

enum class ResampleFilter : uint8_t {
  kArea = 0,     // mean of what an output pixel covers
  kLanczos = 1,  // sharper; three lobes, widened when shrinking
};

// How one axis of `in` pixels becomes one of `out`: output pixel i is the sum of
// weights[first_weight + k] × input[first_input + k], k < count. The weights of a pixel add up to
// kOne.
class ResampleAxis {
 public:
  static constexpr int kShift = 14;
  static constexpr int32_t kOne = 1 << kShift;

  struct Taps {
    uint32_t first_input = 0;
    uint32_t count = 0;
    size_t first_weight = 0;
  };

  ResampleAxis() = default;
  ResampleAxis(uint32_t in, uint32_t out, ResampleFilter filter);
  uint32_t out() const { return static_cast<uint32_t>(taps_.size()); }
  const Taps& taps(uint32_t i) const { return taps_[i]; }
  const int32_t* weights(uint32_t i) const { return weights_.data() + taps_[i].first_weight; }

 private:
  void Add(uint32_t first_input, const std::vector<double>& weights);

  std::vector<Taps> taps_;
  std::vector<int32_t> weights_;
};

// One row of `channels` interleaved bytes to axis.out() pixels.
void ResampleRow(const ResampleAxis& axis, const uint8_t* in, uint32_t channels, uint8_t* out);

// Output row `y` of rows that lie one after the other, `row_bytes` each.
void ResampleColumn(const ResampleAxis& axis, uint32_t y, const uint8_t* rows, size_t row_bytes,
                    uint8_t* out);

// Colours weighted by alpha and back, so that transparent pixels do not bleed. RGBA rows.
void Premultiply(uint8_t* row, uint32_t pixels);
void Unpremultiply(uint8_t* row, uint32_t pixels);

}  // namespace pillion::sidetasks

#endif  // PILLION_SIDETASKS_IMAGE_RESAMPLE_H_
