// What the executor asks of a model: the work of one stage on one micro-batch. No framework appears
// here; an implementation keeps its own tensors and copies what it needs beyond a call.
#ifndef PILLION_PIPELINE_EXECUTOR_MODULE_H_
#define PILLION_PIPELINE_EXECUTOR_MODULE_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace pillion::executor {

// Memory of one activation or gradient. On cpu devices anyone may touch it; it belongs to the
// executor.
struct Buffer {
  void* data = nullptr;  // nullptr: there is none (input of the first stage, output of the last)
  size_t bytes = 0;
};

// The stages of one rank. Called from one thread, in the order of the plan. A buffer is valid
// during the call only: inputs are read, outputs are written completely. An error ends the step on
// all ranks, with its text.
class Module {
 public:
  virtual ~Module() = default;

  // Before the first action and after the last one of every iteration (the optimiser's step).
  virtual Status BeginIteration(uint64_t iteration) = 0;
  virtual Status EndIteration(uint64_t iteration) = 0;

  virtual Status Forward(int32_t stage, int32_t microbatch, Buffer input, Buffer output) = 0;
  // The gradient of the stage's input from the gradient of its output; what the weight gradient
  // needs stays behind.
  virtual Status InputGradient(int32_t stage, int32_t microbatch, Buffer output_gradient,
                               Buffer input_gradient) = 0;
  // Adds to the gradients of the weights; any time after InputGradient of the same stage and
  // micro-batch.
  virtual Status WeightGradient(int32_t stage, int32_t microbatch) = 0;
  // Both in one.
  virtual Status Backward(int32_t stage, int32_t microbatch, Buffer output_gradient,
                          Buffer input_gradient) = 0;
};

}  // namespace pillion::executor

#endif  // PILLION_PIPELINE_EXECUTOR_MODULE_H_
