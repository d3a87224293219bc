// train.cnn: trains a small convolutional network on pictures of 32 × 32.
//   {"data": "licences" | "/path/to/data_batch_1.bin", "images": 512, "epochs": 8, "batch": 16,
//   "sliver": 4,
//    "learning_rate": 0.03, "momentum": 0.9, "seed": 1}
//   → {"images", "epochs", "batches", "loss_first", "loss_last", "accuracy", "checksum"}
//
// An item is the forward and backward of one sliver of a batch, or the optimiser's step at its end.
// Gradients add up over the slivers in a fixed order and everything random is a function of seed,
// epoch and place, so the parameters are the same to the last bit however the work is cut.
// loss_first and loss_last are means over the first and the last epoch, accuracy is that of the
// last epoch, all while training.
#include <torch/torch.h>

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "base/checksum.h"
#include "pillion/side_task.h"
#include "sidetasks/step_pacer.h"
#include "sidetasks/torch/images.h"

namespace pillion::sidetasks {
namespace {

using torch::Tensor;

struct Network : torch::nn::Module {
  Network()
      : first(register_module("first", Convolution(kImageChannels, 16))),
        second(register_module("second", Convolution(16, 32))),
        third(register_module("third", Convolution(32, 32))),
        classes(register_module("classes", torch::nn::Linear(32 * 4 * 4, kImageClasses))) {}

  static torch::nn::Conv2d Convolution(int64_t from, int64_t to) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 3).stride(2).padding(1));
  }
  Tensor Forward(const Tensor& images) {
    Tensor x = torch::relu(first(images));
    x = torch::relu(second(x));
    x = torch::relu(third(x));
    return classes(x.flatten(1));
  }

  torch::nn::Conv2d first, second, third;
  torch::nn::Linear classes;
};

class TrainCnn final : public SideTask {
 public:
  Status Init(InitContext& context) override {
    const Arguments& arguments = context.arguments();
    PILLION_ASSIGN_OR_RETURN(std::string data, arguments.Text("data", "licences"));
    PILLION_ASSIGN_OR_RETURN(int64_t most, arguments.Integer("images", 512, 1, 1'000'000));
    PILLION_ASSIGN_OR_RETURN(epochs_, arguments.Integer("epochs", 8, 1, 1'000'000));
    PILLION_ASSIGN_OR_RETURN(batch_, arguments.Integer("batch", 16, 1, 4096));
    PILLION_ASSIGN_OR_RETURN(sliver_, arguments.Integer("sliver", 4, 1, 4096));
    PILLION_ASSIGN_OR_RETURN(learning_rate_, arguments.Number("learning_rate", 0.03));
    PILLION_ASSIGN_OR_RETURN(momentum_, arguments.Number("momentum", 0.9));
    PILLION_ASSIGN_OR_RETURN(seed_, arguments.Integer("seed", 1, 0));
    PILLION_RETURN_IF_ERROR(pacer_.Init(context));
    PILLION_RETURN_IF_ERROR(arguments.CheckAllKnown());
    if (!(learning_rate_ > 0) || !(momentum_ >= 0 && momentum_ < 1)) {
      return InvalidArgument("'learning_rate' must be above 0, 'momentum' at least 0 and below 1");
    }
    PILLION_ASSIGN_OR_RETURN(images_, LoadImages(data, static_cast<size_t>(most)));
    double mean = 0, deviation = 1;
    images_.Moments(&mean, &deviation);
    mean_ = static_cast<float>(mean);
    scale_ = static_cast<float>(1 / deviation);
    context.DeclareMemory(images_.pixels.size() + kWorkBytes);
    context.DeclareItems(static_cast<uint64_t>(epochs_) * images_.count());
    return Guard([&] {
      torch::set_num_threads(1);
      WarmUp();
    });
  }

  Status Load(Device&, CheckpointReader* checkpoint) override {
    PILLION_RETURN_IF_ERROR(Guard([&] { MakeNetwork(); }));
    if (checkpoint != nullptr) PILLION_RETURN_IF_ERROR(Restore(*checkpoint));
    Shuffle();
    return Status::Ok();
  }

  Result<StepOutcome> Step(StepContext& context) override {
    StepOutcome outcome;
    pacer_.BeginStep(context);
    do {
      if (Done()) break;
      const uint64_t before = state_.images;
      PILLION_RETURN_IF_ERROR(Guard([&] { Advance(); }));
      outcome.items += state_.images - before;
      if (!std::isfinite(state_.epoch_loss))
        return TaskFailed("the loss is no number; lower 'learning_rate'");
    } while (pacer_.AnotherFits());
    outcome.done = Done();
    if (outcome.done) context.ReportMetric("loss", MeanLoss(state_.last_loss));
    return outcome;
  }

  Status Save(CheckpointWriter& checkpoint) override {
    PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(Fingerprint()));
    PILLION_RETURN_IF_ERROR(checkpoint.WriteValue(state_));
    for (const auto* tensors : {&parameters_, &gradients_, &velocities_}) {
      for (const Tensor& tensor : *tensors) {
        PILLION_RETURN_IF_ERROR(checkpoint.Write(tensor.data_ptr<float>(), tensor.nbytes()));
      }
    }
    return Status::Ok();
  }

  Result<std::string> Finish() override {
    uint64_t checksum = 0;
    for (const Tensor& parameter : parameters_) {
      checksum = checksum * 31 + Checksum64(parameter.data_ptr<float>(), parameter.nbytes());
    }
    char text[17];
    std::snprintf(text, sizeof text, "%016" PRIx64, checksum);
    return nlohmann::json({{"images", images_.count()},
                           {"epochs", state_.epoch},
                           {"batches", state_.batches},
                           {"loss_first", MeanLoss(state_.first_loss)},
                           {"loss_last", MeanLoss(state_.last_loss)},
                           {"accuracy", static_cast<double>(state_.last_right) /
                                            static_cast<double>(images_.count())},
                           {"checksum", text}})
        .dump();
  }

  void Unload() override {
    parameters_.clear();
    gradients_.clear();
    velocities_.clear();
    network_.reset();
  }

 private:
  // The network, its gradients and momentum, and LibTorch's buffers during a sliver.
  static constexpr uint64_t kWorkBytes = 16 << 20;

  // Where the work stands; stored as it is.
  struct State {
    int64_t epoch = 0;      // done
    uint64_t place = 0;     // next image in this epoch's order
    uint64_t in_batch = 0;  // images of this batch whose gradients are added up
    uint64_t batches = 0;
    uint64_t images = 0;
    double epoch_loss = 0;  // sums over images
    double first_loss = 0;
    double last_loss = 0;
    uint64_t epoch_right = 0;
    uint64_t last_right = 0;
  };

  // LibTorch's exceptions stop here.
  template <typename Body>
  static Status Guard(Body body) {
    try {
      body();
      return Status::Ok();
    } catch (const std::exception& error) {
      return TaskFailed(std::string("LibTorch: ") + error.what());
    }
  }

  bool Done() const { return state_.epoch >= epochs_; }
  double MeanLoss(double sum) const { return sum / static_cast<double>(images_.count()); }

  // Of all that the state depends on beside itself.
  uint64_t Fingerprint() const {
    const double numbers[] = {static_cast<double>(batch_), static_cast<double>(sliver_),
                              learning_rate_, momentum_, static_cast<double>(seed_)};
    return images_.Fingerprint() * 31 + Checksum64(numbers, sizeof numbers);
  }

  void MakeNetwork() {
    torch::manual_seed(static_cast<uint64_t>(seed_));
    network_ = std::make_unique<Network>();
    parameters_ = network_->parameters();
    gradients_.clear();
    velocities_.clear();
    for (Tensor& parameter : parameters_) {
      gradients_.push_back(torch::zeros_like(parameter));
      velocities_.push_back(torch::zeros_like(parameter));
      parameter.mutable_grad() = gradients_.back();
    }
  }

  // The first call of everything is slow; that belongs to Init, outside of turns.
  void WarmUp() {
    MakeNetwork();
    Shuffle();
    for (int round = 0; round < 3; ++round) {
      Sliver(std::min<uint64_t>(static_cast<uint64_t>(sliver_), images_.count()));
      Optimise();
    }
    const uint64_t tail =
        std::min<uint64_t>(static_cast<uint64_t>(batch_ % sliver_), images_.count());
    if (tail > 0) Sliver(tail);
    state_ = State();
    Unload();
  }

  void Shuffle() {
    order_.resize(images_.count());
    std::iota(order_.begin(), order_.end(), 0u);
    std::mt19937_64 random(static_cast<uint64_t>(seed_) * 1'000'003 +
                           static_cast<uint64_t>(state_.epoch));
    for (size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random() % i]);
  }

  // One item.
  void Advance() {
    const uint64_t rest = images_.count() - state_.place;
    const uint64_t missing = static_cast<uint64_t>(batch_) - state_.in_batch;
    const uint64_t images = std::min({static_cast<uint64_t>(sliver_), missing, rest});
    if (images > 0) {
      Sliver(images);
      return;
    }
    Optimise();
    if (rest == 0) EndEpoch();
  }

  void Sliver(uint64_t images) {
    Tensor pixels =
        torch::empty({static_cast<int64_t>(images), kImageChannels, kImageSide, kImageSide});
    Tensor labels = torch::empty({static_cast<int64_t>(images)}, torch::kInt64);
    for (uint64_t i = 0; i < images; ++i) {
      const uint32_t image = order_[state_.place + i];
      const uint8_t* from = images_.image(image);
      float* to = pixels.data_ptr<float>() + i * kImageBytes;
      for (size_t p = 0; p < kImageBytes; ++p)
        to[p] = (static_cast<float>(from[p]) - mean_) * scale_;
      labels.data_ptr<int64_t>()[i] = images_.labels[image];
    }
    Tensor scores = network_->Forward(pixels);
    Tensor loss = torch::cross_entropy_loss(scores, labels, {}, torch::Reduction::Sum);
    loss.backward();
    state_.epoch_loss += loss.item<double>();
    state_.epoch_right += static_cast<uint64_t>(scores.argmax(1).eq(labels).sum().item<int64_t>());
    state_.place += images;
    state_.in_batch += images;
    state_.images += images;
  }

  void Optimise() {
    torch::NoGradGuard no_gradients;
    const double scale =
        learning_rate_ / static_cast<double>(std::max<uint64_t>(state_.in_batch, 1));
    for (size_t i = 0; i < parameters_.size(); ++i) {
      velocities_[i].mul_(momentum_).add_(gradients_[i], scale);
      parameters_[i].sub_(velocities_[i]);
      gradients_[i].zero_();
    }
    state_.in_batch = 0;
    ++state_.batches;
  }

  void EndEpoch() {
    if (state_.epoch == 0) state_.first_loss = state_.epoch_loss;
    state_.last_loss = state_.epoch_loss;
    state_.last_right = state_.epoch_right;
    state_.epoch_loss = 0;
    state_.epoch_right = 0;
    state_.place = 0;
    ++state_.epoch;
    Shuffle();
  }

  Status Restore(CheckpointReader& checkpoint) {
    uint64_t fingerprint = 0;
    PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&fingerprint));
    if (fingerprint != Fingerprint()) {
      return FailedPrecondition(
          "the pictures have changed since the checkpoint: submit the task again");
    }
    PILLION_RETURN_IF_ERROR(checkpoint.ReadValue(&state_));
    if (state_.place > images_.count() || state_.in_batch > static_cast<uint64_t>(batch_) ||
        state_.epoch > epochs_) {
      return Corruption("checkpoint: a position outside of the work");
    }
    for (const auto* tensors : {&parameters_, &gradients_, &velocities_}) {
      for (const Tensor& tensor : *tensors) {
        PILLION_RETURN_IF_ERROR(checkpoint.Read(tensor.data_ptr<float>(), tensor.nbytes()));
      }
    }
    return Status::Ok();
  }

  StepPacer pacer_;
  int64_t epochs_ = 0, batch_ = 0, sliver_ = 0, seed_ = 0;
  double learning_rate_ = 0, momentum_ = 0;
  Images images_;
  float mean_ = 0, scale_ = 1;  // pixels become (pixel - mean) · scale
  State state_;
  std::vector<uint32_t> order_;  // of this epoch's images

  std::unique_ptr<Network> network_;
  std::vector<Tensor> parameters_, gradients_, velocities_;
};

PILLION_SIDE_TASK("train.cnn", TrainCnn, Devices::kCpu);

}  // namespace
}  // namespace pillion::sidetasks
