#include "tests/unit/executor/chain.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace pillion::executor {

using pipeline::Action;
using pipeline::ActionType;
using pipeline::Plan;

namespace {

constexpr int kRows = Chain::kRows;
constexpr int kWidth = Chain::kWidth;

Matrix RandomMatrix(int rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  Matrix matrix(static_cast<size_t>(rows) * kWidth);
  for (double& value : matrix) value = uniform(random);
  return matrix;
}

Matrix FromBuffer(Buffer buffer) {
  Matrix matrix(buffer.bytes / sizeof(double));
  std::memcpy(matrix.data(), buffer.data, buffer.bytes);
  return matrix;
}

}  // namespace

Chain::Chain(const Plan& plan, int32_t device, uint64_t seed) : plan_(plan), seed_(seed) {
  for (const pipeline::Stage& stage : plan.stages) {
    if (device >= 0 && stage.device != device) continue;
    for (int32_t layer = stage.first_layer; layer < stage.end_layer; ++layer) {
      weights_[layer] = RandomMatrix(kWidth, seed + 1000 + static_cast<uint64_t>(layer));
    }
  }
}

Matrix Chain::Data(int32_t microbatch, uint64_t what) const {
  return RandomMatrix(kRows,
                      seed_ + what + 97 * iteration_ + 7919 * static_cast<uint64_t>(microbatch));
}

Status Chain::BeginIteration(uint64_t iteration) {
  iteration_ = iteration;
  loss_ = 0;
  gradients_.clear();
  parts_.clear();
  losses_.clear();
  return Status();
}

Status Chain::EndIteration(uint64_t) {
  if (!saved_.empty()) return Internal("activations are left over");
  // In the order of micro-batches, whatever the order of the plan: so the sums are the same to the
  // last bit.
  for (const auto& [place, part] : parts_) {
    Matrix& gradient = gradients_[place.first];
    gradient.resize(part.size(), 0);
    for (size_t i = 0; i < part.size(); ++i) gradient[i] += part[i];
  }
  for (const auto& [microbatch, loss] : losses_) loss_ += loss;
  for (auto& [layer, weight] : weights_) {
    for (size_t i = 0; i < weight.size(); ++i) weight[i] -= 0.01 * gradients_.at(layer)[i];
  }
  return Status();
}

Status Chain::Forward(int32_t stage, int32_t microbatch, Buffer input, Buffer output) {
  if ((input.data == nullptr) != plan_.IsFirst(stage)) return Internal("input of the wrong kind");
  if ((output.data == nullptr) != plan_.IsLast(stage)) return Internal("output of the wrong kind");
  Saved& saved = saved_[{stage, microbatch}];
  saved.values.push_back(input.data == nullptr ? Data(microbatch, 1) : FromBuffer(input));
  for (int32_t layer = plan_.stages[stage].first_layer; layer < plan_.stages[stage].end_layer;
       ++layer) {
    const Matrix& x = saved.values.back();
    const Matrix& w = weights_.at(layer);
    Matrix y(x.size());
    for (int r = 0; r < kRows; ++r) {
      for (int c = 0; c < kWidth; ++c) {
        double sum = 0;
        for (int k = 0; k < kWidth; ++k) sum += x[r * kWidth + k] * w[k * kWidth + c];
        y[r * kWidth + c] = std::tanh(sum);
      }
    }
    saved.values.push_back(std::move(y));
  }
  const Matrix& y = saved.values.back();
  if (output.data != nullptr) std::memcpy(output.data, y.data(), output.bytes);
  return Status();
}

Status Chain::InputGradient(int32_t stage, int32_t microbatch, Buffer output_gradient,
                            Buffer input_gradient) {
  if ((output_gradient.data == nullptr) != plan_.IsLast(stage))
    return Internal("gradient of the wrong kind");
  Saved& saved = saved_.at({stage, microbatch});
  Matrix gradient;
  if (output_gradient.data != nullptr) {
    gradient = FromBuffer(output_gradient);
  } else {
    gradient = saved.values.back();
    const Matrix target = Data(microbatch, 2);
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] -= target[i];
      losses_[microbatch] += 0.5 * gradient[i] * gradient[i];
    }
  }
  const pipeline::Stage& layers = plan_.stages[stage];
  saved.pre_gradient.resize(static_cast<size_t>(layers.end_layer - layers.first_layer));
  for (int32_t layer = layers.end_layer - 1; layer >= layers.first_layer; --layer) {
    const auto local = static_cast<size_t>(layer - layers.first_layer);
    const Matrix& y = saved.values[local + 1];
    const Matrix& w = weights_.at(layer);
    for (size_t i = 0; i < gradient.size(); ++i) gradient[i] *= 1 - y[i] * y[i];
    saved.pre_gradient[local] = gradient;
    Matrix before(gradient.size(), 0);
    for (int r = 0; r < kRows; ++r) {
      for (int k = 0; k < kWidth; ++k) {
        for (int c = 0; c < kWidth; ++c)
          before[r * kWidth + k] += gradient[r * kWidth + c] * w[k * kWidth + c];
      }
    }
    gradient = std::move(before);
  }
  if (input_gradient.data != nullptr)
    std::memcpy(input_gradient.data, gradient.data(), input_gradient.bytes);
  return Status();
}

Status Chain::WeightGradient(int32_t stage, int32_t microbatch) {
  auto saved = saved_.find({stage, microbatch});
  if (saved == saved_.end()) return Internal("W without I");
  const int32_t first = plan_.stages[stage].first_layer;
  for (size_t local = 0; local < saved->second.pre_gradient.size(); ++local) {
    const Matrix& x = saved->second.values[local];
    const Matrix& pre = saved->second.pre_gradient[local];
    Matrix& gradient = parts_[{first + static_cast<int32_t>(local), microbatch}];
    gradient.resize(kWidth * kWidth, 0);
    for (int r = 0; r < kRows; ++r) {
      for (int k = 0; k < kWidth; ++k) {
        for (int c = 0; c < kWidth; ++c)
          gradient[k * kWidth + c] += x[r * kWidth + k] * pre[r * kWidth + c];
      }
    }
  }
  saved_.erase(saved);
  return Status();
}

Status Chain::Backward(int32_t stage, int32_t microbatch, Buffer output_gradient,
                       Buffer input_gradient) {
  PILLION_RETURN_IF_ERROR(InputGradient(stage, microbatch, output_gradient, input_gradient));
  return WeightGradient(stage, microbatch);
}

void RunReference(Chain* chain, const Plan& plan, uint64_t iteration) {
  const auto stages = static_cast<int32_t>(plan.stages.size());
  PILLION_CHECK(chain->BeginIteration(iteration).ok(), "reference");
  std::vector<Matrix> activations(stages + 1, Matrix(kRows * kWidth)), gradients = activations;
  auto at = [&](std::vector<Matrix>* of, int32_t boundary) -> Buffer {
    if (boundary == 0 || boundary == stages) return {};
    return {(*of)[boundary].data(), Chain::kBoundaryBytes};
  };
  for (int32_t m = 0; m < plan.microbatches; ++m) {
    for (int32_t s = 0; s < stages; ++s) {
      PILLION_CHECK(chain->Forward(s, m, at(&activations, s), at(&activations, s + 1)).ok(),
                    "reference");
    }
    for (int32_t s = stages - 1; s >= 0; --s) {
      PILLION_CHECK(chain->Backward(s, m, at(&gradients, s + 1), at(&gradients, s)).ok(),
                    "reference");
    }
  }
  PILLION_CHECK(chain->EndIteration(iteration).ok(), "reference");
}

Plan RandomPlan(std::mt19937_64* random) {
  auto pick = [&](int32_t least, int32_t most) {
    return std::uniform_int_distribution<int32_t>(least, most)(*random);
  };
  Plan plan;
  plan.name = "random";
  plan.devices = pick(2, 8);
  plan.microbatches = pick(1, 6);
  const int32_t stages = pick(1, 4 * plan.devices);
  int32_t layer = 0;
  for (int32_t s = 0; s < stages; ++s) {
    pipeline::Stage stage;
    stage.first_layer = layer;
    stage.end_layer = layer += pick(0, 2);  // empty stages as well
    stage.device = pick(0, plan.devices - 1);
    plan.stages.push_back(stage);
  }
  plan.order.resize(plan.devices);
  // Any topological order of all actions, restricted to each device, completes.
  std::vector<Action> ready;
  std::vector<bool> split(static_cast<size_t>(stages) * plan.microbatches);
  for (size_t i = 0; i < split.size(); ++i) split[i] = pick(0, 1) == 1;
  auto backward_of = [&](int32_t stage, int32_t microbatch) {
    const bool is_split = split[static_cast<size_t>(stage) * plan.microbatches + microbatch];
    return Action{is_split ? ActionType::kInputGradient : ActionType::kBackward, false, stage,
                  microbatch};
  };
  for (int32_t m = 0; m < plan.microbatches; ++m)
    ready.push_back({ActionType::kForward, false, 0, m});
  while (!ready.empty()) {
    std::swap(ready[pick(0, static_cast<int32_t>(ready.size()) - 1)], ready.back());
    const Action action = ready.back();
    ready.pop_back();
    plan.order[plan.stages[action.stage].device].push_back(action);
    const int32_t s = action.stage, m = action.microbatch;
    if (action.type == ActionType::kForward) {
      ready.push_back(s + 1 < stages ? Action{ActionType::kForward, false, s + 1, m}
                                     : backward_of(s, m));
    } else if (action.type != ActionType::kWeightGradient) {
      if (s > 0) ready.push_back(backward_of(s - 1, m));
      if (action.type == ActionType::kInputGradient)
        ready.push_back({ActionType::kWeightGradient, false, s, m});
    }
  }
  return plan;
}

}  // namespace pillion::executor
