// A byte-level GPT in LibTorch, cut into stages. LibTorch stays in gpt.cc.
//
// Layers: 0 the embedding of bytes and positions, 1 to n the blocks, n + 1 the last norm, the head
// and the loss.
#ifndef PILLION_EXAMPLES_TRAINER_GPT_H_
#define PILLION_EXAMPLES_TRAINER_GPT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "pipeline/executor/module.h"
#include "pipeline/plan.h"

namespace pillion::trainer {

struct GptOptions {
  int32_t blocks = 5;
  int32_t width = 128;
  int32_t heads = 4;
  int32_t context = 128;  // bytes of one sample
  int32_t batch = 3;      // samples of one micro-batch
  double learning_rate = 1e-3;
  uint64_t seed = 1;  // of weights and samples

  int32_t layers() const { return blocks + 2; }
  size_t boundary_bytes() const {
    return sizeof(float) * static_cast<size_t>(batch) * context * width;
  }
};

class Gpt : public executor::Module {
 public:
  // Mean over the samples of the last iteration, in nats per byte; 0 on ranks without the last
  // layer.
  virtual double loss() const = 0;
};

// kInvalidArgument when there is no such model or the text is too short for it.
Status CheckGpt(const GptOptions& options, const std::string& text);

// The stages that `plan` places on device `rank`. Weights depend on seed and layer only, so every
// partition is the same model. One thread, deterministic: the same options give the same losses to
// the last bit.
Result<std::unique_ptr<Gpt>> MakeGpt(const GptOptions& options, const pipeline::Plan& plan,
                                     int32_t rank, const std::string& text);

}  // namespace pillion::trainer

#endif  // PILLION_EXAMPLES_TRAINER_GPT_H_
