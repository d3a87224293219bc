#include "sidetasks/image/resample.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace pillion::sidetasks {
namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kLobes = 3;

double Sinc(double x) { return x == 0 ? 1 : std::sin(kPi * x) / (kPi * x); }
double Lanczos(double x) { return std::fabs(x) >= kLobes ? 0 : Sinc(x) * Sinc(x / kLobes); }

uint8_t Clamp(int32_t fixed) {
  int32_t value = (fixed + ResampleAxis::kOne / 2) >> ResampleAxis::kShift;
  return static_cast<uint8_t>(std::clamp(value, 0, 255));
}

}  // namespace

ResampleAxis::ResampleAxis(uint32_t in, uint32_t out, ResampleFilter filter) {
  const double scale = static_cast<double>(in) / out;
  std::vector<double> weights;
  for (uint32_t i = 0; i < out; ++i) {
    double begin = i * scale, end = (i + 1) * scale;
    const double center = (begin + end) / 2, stretch = std::max(scale, 1.0);
    if (filter == ResampleFilter::kLanczos) {
      begin = center - kLobes * stretch;
      end = center + kLobes * stretch;
    }
    auto first = static_cast<uint32_t>(std::clamp(std::floor(begin), 0.0, in - 1.0));
    auto last =
        static_cast<uint32_t>(std::clamp(std::ceil(end), first + 1.0, static_cast<double>(in)));
    weights.clear();
    for (uint32_t j = first; j < last; ++j) {
      double covered = std::min<double>(end, j + 1) - std::max<double>(begin, j);
      weights.push_back(filter == ResampleFilter::kLanczos ? Lanczos((j + 0.5 - center) / stretch)
                                                           : std::max(covered, 0.0));
    }
    Add(first, weights);
  }
}

void ResampleAxis::Add(uint32_t first_input, const std::vector<double>& weights) {
  double sum = 0;
  for (double weight : weights) sum += weight;
  Taps taps{first_input, static_cast<uint32_t>(weights.size()), weights_.size()};
  int32_t left = kOne;
  size_t largest = 0;
  for (size_t k = 0; k < weights.size(); ++k) {
    auto fixed = static_cast<int32_t>(std::lround(weights[k] / sum * kOne));
    weights_.push_back(fixed);
    left -= fixed;
    if (weights[k] > weights[largest]) largest = k;
  }
  weights_[taps.first_weight + largest] += left;  // what rounding left over
  taps_.push_back(taps);
}

void ResampleRow(const ResampleAxis& axis, const uint8_t* in, uint32_t channels, uint8_t* out) {
  for (uint32_t x = 0; x < axis.out(); ++x) {
    const ResampleAxis::Taps& taps = axis.taps(x);
    const int32_t* weights = axis.weights(x);
    const uint8_t* from = in + size_t{taps.first_input} * channels;
    int32_t sums[4] = {0, 0, 0, 0};
    for (uint32_t k = 0; k < taps.count; ++k) {
      for (uint32_t c = 0; c < channels; ++c) sums[c] += weights[k] * *from++;
    }
    for (uint32_t c = 0; c < channels; ++c) *out++ = Clamp(sums[c]);
  }
}

void ResampleColumn(const ResampleAxis& axis, uint32_t y, const uint8_t* rows, size_t row_bytes,
                    uint8_t* out) {
  const ResampleAxis::Taps& taps = axis.taps(y);
  const int32_t* weights = axis.weights(y);
  const uint8_t* from = rows + taps.first_input * row_bytes;
  for (size_t byte = 0; byte < row_bytes; ++byte) {
    int32_t sum = 0;
    for (uint32_t k = 0; k < taps.count; ++k) sum += weights[k] * from[k * row_bytes + byte];
    out[byte] = Clamp(sum);
  }
}

void Premultiply(uint8_t* row, uint32_t pixels) {
  for (uint32_t i = 0; i < pixels; ++i, row += 4) {
    for (int c = 0; c < 3; ++c) row[c] = static_cast<uint8_t>((row[c] * row[3] + 127) / 255);
  }
}

void Unpremultiply(uint8_t* row, uint32_t pixels) {
  for (uint32_t i = 0; i < pixels; ++i, row += 4) {
    if (row[3] == 0) continue;
    for (int c = 0; c < 3; ++c)
      row[c] = static_cast<uint8_t>(std::min(255, (row[c] * 255 + row[3] / 2) / row[3]));
  }
}

}  // namespace pillion::sidetasks
