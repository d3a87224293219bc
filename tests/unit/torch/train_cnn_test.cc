// train.cnn: learns, and ends with the same parameters to the last bit however it is cut and moved.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sidetasks/torch/images.h"
#include "tests/unit/sidetasks/harness.h"

namespace pillion::testing {
namespace {

using nlohmann::json;

constexpr char kArguments[] = R"({"images": 90, "epochs": 3, "batch": 16, "sliver": 3})";

TEST(TrainCnn, LearnsToTellTheLicencesApart) {
  RunReport report = RunProgram("train.cnn", R"({"images": 400})");
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  const json result = json::parse(report.result);
  EXPECT_EQ(result["images"], 400);
  EXPECT_EQ(result["batches"], 8 * 25);
  EXPECT_NEAR(result["loss_first"].get<double>(), 2.3, 0.5);
  EXPECT_LT(result["loss_last"].get<double>(), 0.9 * result["loss_first"].get<double>());
  EXPECT_GT(result["accuracy"].get<double>(), 0.2);
  EXPECT_TRUE(report.elastic);
  EXPECT_EQ(report.items, report.declared_items);
}

TEST(TrainCnn, IsTheSameToTheLastBitHoweverItIsCutAndMoved) {
  const RunReport whole = RunProgram("train.cnn", kArguments);
  ASSERT_TRUE(whole.status.ok()) << whole.status.ToString();
  for (uint64_t every : {1, 2, 7, 31}) {
    RunOptions options;
    options.move_every = every;
    options.stop_at_once = true;
    const RunReport moved = RunProgram("train.cnn", kArguments, options);
    ASSERT_TRUE(moved.status.ok()) << moved.status.ToString();
    EXPECT_GT(moved.moves, 2u);
    EXPECT_EQ(moved.result, whole.result) << "moved every " << every << " steps";
  }
}

TEST(TrainCnn, AStepIsOneSliverWhenTimeIsShort) {
  RunOptions options;
  options.time_left_ns = 1;
  const RunReport report = RunProgram("train.cnn", kArguments, options);
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  // Per epoch 6 batches (5 of 16 images in 6 slivers, one of 10 in 4) and their 6 optimiser steps.
  EXPECT_EQ(report.steps, 3u * (5 * 6 + 4 + 6));
}

TEST(TrainCnn, RefusesForeignAndDamagedState) {
  auto state = SaveAfter("train.cnn", kArguments, 5);
  ASSERT_TRUE(state.ok()) << state.status().ToString();
  EXPECT_TRUE(LoadFrom("train.cnn", kArguments, *state).ok());
  EXPECT_EQ(
      LoadFrom("train.cnn", R"({"images": 91, "epochs": 3, "batch": 16, "sliver": 3})", *state)
          .code(),
      StatusCode::kFailedPrecondition);
  EXPECT_FALSE(LoadFrom("train.cnn", kArguments, state->substr(0, state->size() - 1)).ok());
}

TEST(TrainCnn, NamesBadInput) {
  EXPECT_EQ(RunProgram("train.cnn", R"({"data": "/nonexistent"})").status.code(),
            StatusCode::kNotFound);
  EXPECT_NE(RunProgram("train.cnn", R"({"epoch": 3})").status.message().find("epochs"),
            std::string::npos);
  EXPECT_EQ(RunProgram("train.cnn", R"({"learning_rate": -1})").status.code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(RunProgram("train.cnn", R"({"learning_rate": 1e30})").status.code(),
            StatusCode::kTaskFailed);
  TemporaryFolder folder;
  const std::string cut = folder.File("cut.bin", std::string(3072, '\1'));
  EXPECT_EQ(sidetasks::LoadImages(cut, 10).status().code(), StatusCode::kCorruption);
  const std::string label = folder.File("label.bin", std::string(3073, '\x20'));
  EXPECT_NE(sidetasks::LoadImages(label, 10).status().message().find("label 32"),
            std::string::npos);
}

TEST(TrainCnn, TrainsOnAFileInTheLayoutOfCifar) {
  TemporaryFolder folder;
  std::string bytes;
  for (int i = 0; i < 40; ++i)
    bytes += std::string(1, static_cast<char>(i % 10)) +
             std::string(3072, static_cast<char>(25 * (i % 10)));
  const std::string path = folder.File("pictures.bin", bytes);
  auto images = sidetasks::LoadImages(path, 100);
  ASSERT_TRUE(images.ok()) << images.status().ToString();
  EXPECT_EQ(images->count(), 40u);
  const RunReport report = RunProgram("train.cnn", R"({"epochs": 2, "data": ")" + path + "\"}");
  EXPECT_TRUE(report.status.ok()) << report.status.ToString();
}

}  // namespace
}  // namespace pillion::testing
