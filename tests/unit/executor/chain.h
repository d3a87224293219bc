// A model without a framework for tests of the executor: y = tanh(x · W) per layer in double,
// squared error at the end. Also random plans: any placement, any partition, any order that
// completes.
#ifndef PILLION_TESTS_UNIT_EXECUTOR_CHAIN_H_
#define PILLION_TESTS_UNIT_EXECUTOR_CHAIN_H_

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "pipeline/executor/module.h"
#include "pipeline/plan.h"

namespace pillion::executor {

using Matrix = std::vector<double>;  // row by row

class Chain final : public Module {
 public:
  static constexpr int kRows = 3;  // of one micro-batch
  static constexpr int kWidth = 5;
  static constexpr size_t kBoundaryBytes = kRows * kWidth * sizeof(double);

  // Holds the stages of `device` (all of them when negative).
  Chain(const pipeline::Plan& plan, int32_t device, uint64_t seed);

  Status BeginIteration(uint64_t iteration) override;
  Status EndIteration(uint64_t iteration) override;  // gradient descent
  Status Forward(int32_t stage, int32_t microbatch, Buffer input, Buffer output) override;
  Status InputGradient(int32_t stage, int32_t microbatch, Buffer output_gradient,
                       Buffer input_gradient) override;
  Status WeightGradient(int32_t stage, int32_t microbatch) override;
  Status Backward(int32_t stage, int32_t microbatch, Buffer output_gradient,
                  Buffer input_gradient) override;

  const std::map<int32_t, Matrix>& gradients() const {
    return gradients_;
  }                                      // by layer, of the last iteration
  double loss() const { return loss_; }  // of the last iteration; 0 without the last stage

 private:
  struct Saved {
    std::vector<Matrix> values;        // input of each layer of the stage, and the stage's output
    std::vector<Matrix> pre_gradient;  // gradient before tanh, by layer; after InputGradient
  };
  Matrix Data(int32_t microbatch, uint64_t what) const;

  const pipeline::Plan plan_;
  const uint64_t seed_;
  uint64_t iteration_ = 0;
  double loss_ = 0;
  std::map<int32_t, Matrix> weights_, gradients_;
  std::map<std::pair<int32_t, int32_t>, Matrix> parts_;  // of gradients, by (layer, micro-batch)
  std::map<int32_t, double> losses_;                     // by micro-batch
  std::map<std::pair<int32_t, int32_t>, Saved> saved_;
};

// Everything of the plan on one device, without executor: the reference.
void RunReference(Chain* chain, const pipeline::Plan& plan, uint64_t iteration);

pipeline::Plan RandomPlan(std::mt19937_64* random);

}  // namespace pillion::executor

#endif  // PILLION_TESTS_UNIT_EXECUTOR_CHAIN_H_
