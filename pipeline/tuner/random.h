// The tuner's random numbers: splitmix64, so that a seed gives the same search on every platform.
#ifndef PILLION_PIPELINE_TUNER_RANDOM_H_
#define PILLION_PIPELINE_TUNER_RANDOM_H_

#include <cstdint>

namespace pillion::pipeline::tuner {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, n); n > 0. The bias is below n / 2^32.
  int32_t Below(int32_t n) {
    return static_cast<int32_t>(((Next() >> 32) * static_cast<uint64_t>(n)) >> 32);
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }  // [0, 1)

 private:
  uint64_t state_;
};

}  // namespace pillion::pipeline::tuner

#endif  // PILLION_PIPELINE_TUNER_RANDOM_H_
