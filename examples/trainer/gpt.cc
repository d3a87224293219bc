#include "examples/trainer/gpt.h"

#include <torch/torch.h>

#include <cmath>
#include <map>
#include <utility>

#include "examples/trainer/corpus.h"

namespace pillion::trainer {
namespace {

using executor::Buffer;
using torch::Tensor;

constexpr int64_t kBytes = 256;

struct Layer : torch::nn::Module {
  virtual Tensor Forward(const Tensor& x) = 0;
};

struct Embedding final : Layer {
  explicit Embedding(const GptOptions& o)
      : bytes(register_module("bytes", torch::nn::Embedding(kBytes, o.width))),
        positions(register_parameter("positions", torch::randn({o.context, o.width}) * 0.02)) {}
  Tensor Forward(const Tensor& x) override { return bytes(x) + positions; }
  torch::nn::Embedding bytes;
  Tensor positions;
};

struct Block final : Layer {
  explicit Block(const GptOptions& o)
      : heads(o.heads),
        norm1(
            register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({o.width})))),
        norm2(
            register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({o.width})))),
        qkv(register_module("qkv", torch::nn::Linear(o.width, 3 * o.width))),
        project(register_module("project", torch::nn::Linear(o.width, o.width))),
        widen(register_module("widen", torch::nn::Linear(o.width, 4 * o.width))),
        narrow(register_module("narrow", torch::nn::Linear(4 * o.width, o.width))),
        future(torch::ones({o.context, o.context}, torch::kBool).triu(1)) {}

  Tensor Forward(const Tensor& x) override {
    Tensor y = x + Attend(norm1(x));
    return y + narrow(torch::gelu(widen(norm2(y))));
  }

  Tensor Attend(const Tensor& x) {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    // [3, batch, head, position, feature]
    Tensor parts = qkv(x).view({batch, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
    const double scale = 1 / std::sqrt(static_cast<double>(width / heads));
    Tensor scores = torch::matmul(parts[0] * scale, parts[1].transpose(-2, -1));
    scores = scores.masked_fill(future, -INFINITY).softmax(-1);
    return project(torch::matmul(scores, parts[2]).transpose(1, 2).reshape({batch, length, width}));
  }

  int64_t heads;
  torch::nn::LayerNorm norm1, norm2;
  torch::nn::Linear qkv, project, widen, narrow;
  Tensor future;
};

struct Head final : Layer {
  explicit Head(const GptOptions& o)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({o.width})))),
        bytes(register_module("bytes", torch::nn::Linear(o.width, kBytes))) {}
  Tensor Forward(const Tensor& x) override { return bytes(norm(x)); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear bytes;
};

std::shared_ptr<Layer> MakeLayer(const GptOptions& options, int32_t layer) {
  torch::manual_seed(options.seed * 1'000'003 + static_cast<uint64_t>(layer));
  if (layer == 0) return std::make_shared<Embedding>(options);
  if (layer == options.layers() - 1) return std::make_shared<Head>(options);
  return std::make_shared<Block>(options);
}

class TorchGpt final : public Gpt {
 public:
  TorchGpt(const GptOptions& options, const pipeline::Plan& plan, int32_t rank, std::string text)
      : options_(options),
        microbatches_(plan.microbatches),
        stages_(plan.stages),
        text_(std::move(text)) {
    std::vector<Tensor> parameters;
    for (const pipeline::Stage& stage : plan.stages) {
      if (stage.device != rank) continue;
      for (int32_t layer = stage.first_layer; layer < stage.end_layer; ++layer) {
        layers_[layer] = MakeLayer(options, layer);
        for (Tensor& parameter : layers_[layer]->parameters()) parameters.push_back(parameter);
      }
    }
    if (!parameters.empty()) {
      optimizer_ = std::make_unique<torch::optim::AdamW>(
          parameters, torch::optim::AdamWOptions(options.learning_rate));
    }
  }

  double loss() const override { return loss_; }

  Status BeginIteration(uint64_t iteration) override {
    iteration_ = iteration;
    loss_ = 0;
    return Status();
  }

  Status EndIteration(uint64_t iteration) override {
    if (!std::isfinite(loss_))
      return TaskFailed("the loss of iteration " + std::to_string(iteration) + " is no number");
    return Guard([&] {
      if (optimizer_ == nullptr) return;
      optimizer_->step();
      optimizer_->zero_grad();
    });
  }

  Status Forward(int32_t stage, int32_t microbatch, Buffer input, Buffer output) override {
    return Guard([&] {
      Saved& saved = saved_[{stage, microbatch}];
      Tensor x;
      if (input.data == nullptr) {
        x = Samples(microbatch, 0);
      } else {
        x = saved.input = View(input).clone().requires_grad_();
      }
      for (int32_t layer = stages_[stage].first_layer; layer < stages_[stage].end_layer; ++layer) {
        x = layers_.at(layer)->Forward(x);
      }
      if (output.data != nullptr) {
        View(output).copy_(x.detach());
      } else {
        x = torch::cross_entropy_loss(x.view({-1, kBytes}), Samples(microbatch, 1).view(-1)) /
            microbatches_;
        loss_ += x.item<double>();
      }
      saved.output = x;
    });
  }

  Status Backward(int32_t stage, int32_t microbatch, Buffer output_gradient,
                  Buffer input_gradient) override {
    return Guard([&] {
      Saved saved = std::move(saved_.at({stage, microbatch}));
      saved_.erase({stage, microbatch});
      saved.output.backward(output_gradient.data != nullptr ? View(output_gradient) : Tensor());
      if (input_gradient.data != nullptr) View(input_gradient).copy_(saved.input.grad());
    });
  }

  Status InputGradient(int32_t, int32_t, Buffer, Buffer) override { return NoSplit(); }
  Status WeightGradient(int32_t, int32_t) override { return NoSplit(); }

 private:
  struct Saved {
    Tensor input, output;
  };

  static Status NoSplit() {
    return Unsupported("this model computes input and weight gradients together");
  }

  // LibTorch's exceptions stop here.
  template <typename Body>
  static Status Guard(Body body) {
    try {
      body();
      return Status();
    } catch (const std::exception& error) {
      return Internal(std::string("LibTorch: ") + error.what());
    }
  }

  Tensor View(Buffer buffer) const {
    return torch::from_blob(buffer.data, {options_.batch, options_.context, options_.width},
                            torch::kFloat32);
  }

  // The bytes of a micro-batch, `shift` after where its samples begin.
  Tensor Samples(int32_t microbatch, size_t shift) const {
    const auto length = static_cast<size_t>(options_.context);
    Tensor tokens = torch::empty({options_.batch, options_.context}, torch::kInt64);
    auto* to = tokens.data_ptr<int64_t>();
    for (int32_t row = 0; row < options_.batch; ++row) {
      const size_t from =
          shift + SampleOffset(text_, length + 1, options_.seed, iteration_, microbatch, row);
      for (size_t i = 0; i < length; ++i) *to++ = static_cast<unsigned char>(text_[from + i]);
    }
    return tokens;
  }

  const GptOptions options_;
  const int32_t microbatches_;
  const std::vector<pipeline::Stage> stages_;
  const std::string text_;
  std::map<int32_t, std::shared_ptr<Layer>> layers_;  // of this rank
  std::unique_ptr<torch::optim::AdamW> optimizer_;
  std::map<std::pair<int32_t, int32_t>, Saved> saved_;  // by stage and micro-batch, from F to B
  uint64_t iteration_ = 0;
  double loss_ = 0;
};

}  // namespace

Status CheckGpt(const GptOptions& options, const std::string& text) {
  if (options.heads < 1 || options.width % options.heads != 0) {
    return InvalidArgument("width " + std::to_string(options.width) + " does not divide into " +
                           std::to_string(options.heads) + " heads");
  }
  if (text.size() < static_cast<size_t>(options.context) + 1) {
    return InvalidArgument("the training text has " + std::to_string(text.size()) +
                           " bytes; a sample needs " + std::to_string(options.context + 1));
  }
  return Status();
}

Result<std::unique_ptr<Gpt>> MakeGpt(const GptOptions& options, const pipeline::Plan& plan,
                                     int32_t rank, const std::string& text) {
  PILLION_RETURN_IF_ERROR(CheckGpt(options, text));
  try {
    torch::set_num_threads(1);
    torch::set_num_interop_threads(1);
    return std::unique_ptr<Gpt>(std::make_unique<TorchGpt>(options, plan, rank, text));
  } catch (const std::exception& error) {
    return Internal(std::string("LibTorch: ") + error.what());
  }
}

}  // namespace pillion::trainer
