#include <gtest/gtest.h>
#include <jpeglib.h>
#include <png.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "harness.h"
#include "sidetasks/image/codec.h"

namespace pillion::sidetasks {
namespace {

using nlohmann::json;
using testing::RunOptions;
using testing::RunProgram;
using testing::RunReport;
using testing::TemporaryFolder;

constexpr char kProgram[] = "image.resize_watermark";

struct Pixels {
  ImageShape shape;
  std::vector<uint8_t> bytes;
  uint8_t At(uint32_t x, uint32_t y, uint32_t c) const {
    return bytes[(size_t{y} * shape.width + x) * shape.channels + c];
  }
};

Pixels Paint(uint32_t width, uint32_t height, uint32_t channels) {
  Pixels pixels{{width, height, channels}, {}};
  uint32_t noise = 12345;
  for (uint32_t y = 0; y < height; ++y) {
    for (uint32_t x = 0; x < width; ++x) {
      for (uint32_t c = 0; c < channels; ++c) {
        noise = noise * 1664525 + 1013904223;
        pixels.bytes.push_back(static_cast<uint8_t>((x * (c + 1) * 3 + y * 5) / 2 + (noise >> 27)));
      }
    }
  }
  return pixels;
}

std::string Encode(ImageFormat format, const Pixels& pixels, int quality = 90) {
  auto encoder = std::move(*MakeImageEncoder(format, pixels.shape, quality));
  for (uint32_t y = 0; y < pixels.shape.height; ++y) {
    EXPECT_TRUE(
        encoder->WriteRow(&pixels.bytes[size_t{y} * pixels.shape.width * pixels.shape.channels])
            .ok());
  }
  return *encoder->Finish();
}

Result<Pixels> Decode(const std::string& bytes) {
  PILLION_ASSIGN_OR_RETURN(auto decoder, OpenImage(bytes, 100'000'000));
  while (true) {
    PILLION_ASSIGN_OR_RETURN(bool ready, decoder->Prepare());
    if (ready) break;
  }
  Pixels pixels{decoder->shape(), {}};
  const size_t row_bytes = size_t{pixels.shape.width} * pixels.shape.channels;
  pixels.bytes.resize(row_bytes * pixels.shape.height);
  for (uint32_t y = 0; y < pixels.shape.height; ++y) {
    PILLION_RETURN_IF_ERROR(decoder->ReadRow(&pixels.bytes[y * row_bytes]));
  }
  return pixels;
}

std::string ProgressiveJpeg(const Pixels& pixels) {
  jpeg_compress_struct info{};
  jpeg_error_mgr error{};
  info.err = jpeg_std_error(&error);
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = pixels.shape.width;
  info.image_height = pixels.shape.height;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  for (uint32_t y = 0; y < pixels.shape.height; ++y) {
    JSAMPROW row = const_cast<uint8_t*>(&pixels.bytes[size_t{y} * pixels.shape.width * 3]);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string text(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return text;
}

std::string RawPng(uint32_t width, uint32_t height, int color_type, int interlace) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string text;
  png_set_write_fn(
      png, &text,
      [](png_structp p, png_bytep data, size_t bytes) {
        static_cast<std::string*>(png_get_io_ptr(p))->append(reinterpret_cast<char*>(data), bytes);
      },
      nullptr);
  png_set_IHDR(png, info, width, height, 8, color_type, interlace, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  if (color_type == PNG_COLOR_TYPE_PALETTE) {
    png_color palette[256];
    for (int i = 0; i < 256; ++i) palette[i] = {png_byte(i), png_byte(255 - i), png_byte(i / 2)};
    png_set_PLTE(png, info, palette, 256);
  }
  png_write_info(png, info);
  Pixels pixels = Paint(width, height, png_get_channels(png, info));
  std::vector<png_bytep> rows;
  for (uint32_t y = 0; y < height; ++y)
    rows.push_back(&pixels.bytes[y * png_get_rowbytes(png, info)]);
  png_write_image(png, rows.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return text;
}

class ImageTest : public ::testing::Test {
 protected:
  ImageTest() { std::filesystem::create_directory(in_ / "pictures"); }

  void Add(const std::string& name, const std::string& bytes) {
    in_.File("pictures/" + name, bytes);
  }
  void AddOneOfEach() {
    Add("a-baseline.jpg", Encode(ImageFormat::kJpeg, Paint(210, 133, 3)));
    Add("b-progressive.JPEG", ProgressiveJpeg(Paint(97, 160, 3)));
    Add("c-colour.png", Encode(ImageFormat::kPng, Paint(64, 50, 3)));
    Add("d-alpha.png", Encode(ImageFormat::kPng, Paint(75, 40, 4)));
    Add("e-interlaced.png", RawPng(60, 61, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_ADAM7));
    Add("f-palette.png", RawPng(31, 45, PNG_COLOR_TYPE_PALETTE, PNG_INTERLACE_NONE));
    Add("g-grey.png", RawPng(31, 45, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE));
    Add("notes.txt", "not a picture");
  }
  json Arguments(const std::string& output, json more = json::object()) {
    json all = {{"input", in_ / "pictures"}, {"output", in_ / output}, {"width", 40}};
    all.update(more);
    return all;
  }
  std::map<std::string, std::string> Files(const std::string& output) {
    std::map<std::string, std::string> files;
    const std::vector<std::string> names = *ListDirectory(in_ / output);
    for (const std::string& name : names) files[name] = *ReadFile(in_ / output + "/" + name);
    return files;
  }

  TemporaryFolder in_;
};

// The mean of the area that an output pixel covers, in doubles.
double AreaMean(const Pixels& in, uint32_t x, uint32_t y, uint32_t c, uint32_t width,
                uint32_t height) {
  double sum = 0, area = 0;
  const double sx = static_cast<double>(in.shape.width) / width,
               sy = static_cast<double>(in.shape.height) / height;
  for (uint32_t j = 0; j < in.shape.height; ++j) {
    double dy = std::min<double>((y + 1) * sy, j + 1) - std::max<double>(y * sy, j);
    if (dy <= 0) continue;
    for (uint32_t i = 0; i < in.shape.width; ++i) {
      double dx = std::min<double>((x + 1) * sx, i + 1) - std::max<double>(x * sx, i);
      if (dx <= 0) continue;
      sum += dx * dy * in.At(i, j, c);
      area += dx * dy;
    }
  }
  return sum / area;
}

TEST_F(ImageTest, AreaAveragingAgreesWithAPlainReference) {
  Pixels original = Paint(123, 77, 3);
  Add("x.png", Encode(ImageFormat::kPng, original));
  for (auto [width, height] : {std::pair{40, 0}, {123, 77}, {200, 30}, {1, 1}}) {
    json arguments = Arguments("out", {{"width", width}, {"height", height}, {"watermark", ""}});
    RunReport report = RunProgram(kProgram, arguments.dump());
    ASSERT_TRUE(report.status.ok()) << report.status.ToString();
    Pixels result = *Decode(Files("out")["x.png"]);
    ASSERT_EQ(result.shape.width, static_cast<uint32_t>(width));
    ASSERT_EQ(result.shape.height, height == 0 ? 25u : static_cast<uint32_t>(height));
    for (uint32_t y = 0; y < result.shape.height; ++y) {
      for (uint32_t x = 0; x < result.shape.width; ++x) {
        for (uint32_t c = 0; c < 3; ++c) {
          double expected = AreaMean(original, x, y, c, result.shape.width, result.shape.height);
          ASSERT_NEAR(result.At(x, y, c), expected, 1.01)
              << x << " " << y << " " << c << " at width " << width;
        }
      }
    }
  }
}

TEST_F(ImageTest, LanczosKeepsSizeAndFlatColours) {
  Pixels flat{{50, 50, 3}, std::vector<uint8_t>(7500, 200)};
  Pixels noisy = Paint(50, 50, 3);
  Add("flat.png", Encode(ImageFormat::kPng, flat));
  Add("noisy.png", Encode(ImageFormat::kPng, noisy));
  json same = Arguments("same", {{"width", 50}, {"filter", "lanczos"}, {"watermark", ""}});
  ASSERT_TRUE(RunProgram(kProgram, same.dump()).status.ok());
  EXPECT_EQ(Decode(Files("same")["noisy.png"])->bytes, noisy.bytes);
  json small = Arguments("small", {{"width", 17}, {"filter", "lanczos"}, {"watermark", ""}});
  ASSERT_TRUE(RunProgram(kProgram, small.dump()).status.ok());
  const Pixels small_flat = *Decode(Files("small")["flat.png"]);
  for (uint8_t byte : small_flat.bytes) ASSERT_EQ(byte, 200);
}

TEST_F(ImageTest, TransparentPixelsDoNotBleed) {
  Pixels pixels{{2, 1, 4}, {255, 0, 0, 0, 0, 0, 250, 255}};  // invisible red beside opaque blue
  Add("x.png", Encode(ImageFormat::kPng, pixels));
  ASSERT_TRUE(RunProgram(kProgram,
                         Arguments("out", {{"width", 1}, {"height", 1}, {"watermark", ""}}).dump())
                  .status.ok());
  Pixels result = *Decode(Files("out")["x.png"]);
  EXPECT_LE(result.At(0, 0, 0), 1);
  EXPECT_NEAR(result.At(0, 0, 2), 250, 2);
  EXPECT_NEAR(result.At(0, 0, 3), 128, 1);
}

TEST_F(ImageTest, TheWatermarkIsInTheLowerRightCornerOnly) {
  Pixels flat{{120, 90, 3}, std::vector<uint8_t>(120 * 90 * 3, 10)};
  Add("x.png", Encode(ImageFormat::kPng, flat));
  json arguments =
      Arguments("out", {{"width", 120}, {"watermark", "pillion 1.0"}, {"opacity", 1.0}});
  ASSERT_TRUE(RunProgram(kProgram, arguments.dump()).status.ok());
  Pixels result = *Decode(Files("out")["x.png"]);
  int white = 0;
  for (uint32_t y = 0; y < 90; ++y) {
    for (uint32_t x = 0; x < 120; ++x) {
      uint8_t value = result.At(x, y, 0);
      ASSERT_TRUE(value == 10 || value == 255);
      if (value == 255) {
        ++white;
        EXPECT_GE(x, 40u);
        EXPECT_GE(y, 80u);
      }
    }
  }
  EXPECT_GT(white, 100);
  EXPECT_LT(white, 400);
}

TEST_F(ImageTest, CutsAtAnyStepChangeNothing) {
  AddOneOfEach();
  RunReport whole =
      RunProgram(kProgram, Arguments("whole", {{"items_per_step", 1'000'000}}).dump());
  ASSERT_TRUE(whole.status.ok()) << whole.status.ToString();
  EXPECT_EQ(whole.items, 7u);
  EXPECT_EQ(whole.declared_items, 7u);
  json expected = json::parse(whole.result);
  EXPECT_EQ(expected["pictures"], 7);
  std::map<std::string, std::string> files = Files("whole");
  EXPECT_EQ(files.size(), 7u);
  // Moves at least 600 units apart: the interlaced picture takes 490 to decode.
  for (int items : {1, 5, 60}) {
    for (uint64_t k : {uint64_t{600} / items + 1, uint64_t{850} / items}) {
      RunOptions options;
      options.move_every = k;
      std::string output = "cut-" + std::to_string(items) + "-" + std::to_string(k);
      RunReport moved =
          RunProgram(kProgram, Arguments(output, {{"items_per_step", items}}).dump(), options);
      ASSERT_TRUE(moved.status.ok()) << moved.status.ToString();
      EXPECT_EQ(json::parse(moved.result)["checksum"], expected["checksum"]) << output;
      EXPECT_EQ(Files(output), files) << output;
    }
  }
  RunOptions hurried;
  hurried.time_left_ns = 1;
  RunReport elastic = RunProgram(kProgram, Arguments("elastic").dump(), hurried);
  EXPECT_TRUE(elastic.elastic);
  EXPECT_EQ(Files("elastic"), files);
  EXPECT_GT(elastic.steps, 133u + 160 + 50 + 40 + 61 + 45 + 45);  // never more than a row
}

TEST_F(ImageTest, EveryPlaceInAPictureCanBeResumed) {
  for (const auto& [name, bytes] : std::map<std::string, std::string>{
           {"x.jpg", Encode(ImageFormat::kJpeg, Paint(50, 30, 3))},
           {"x.png", RawPng(20, 12, PNG_COLOR_TYPE_RGB_ALPHA, PNG_INTERLACE_ADAM7)}}) {
    TemporaryFolder folder;
    std::filesystem::create_directory(folder / "in");
    folder.File("in/" + name, bytes);
    auto arguments = [&](const std::string& output) {
      return json({{"input", folder / "in"},
                   {"output", folder / output},
                   {"width", 16},
                   {"items_per_step", 1}})
          .dump();
    };
    RunReport whole = RunProgram(kProgram, arguments("whole"));
    ASSERT_TRUE(whole.status.ok()) << whole.status.ToString();
    for (uint64_t step = 1; step < whole.steps; ++step) {
      RunOptions options;
      options.move_every =
          step;  // from then on every `step` steps: the later cuts meet resumed pictures
      options.steps_at_most = 20 * whole.steps;
      RunReport moved = RunProgram(kProgram, arguments("moved"), options);
      // Decoding starts anew after each move: one that is moved before it is through never ends.
      const uint64_t decoding_steps =
          whole.steps - 2 * 10;  // all but rendering and encoding ten rows
      if (step <= decoding_steps && moved.status.code() == StatusCode::kInternal) continue;
      ASSERT_TRUE(moved.status.ok()) << step << ": " << moved.status.ToString();
      EXPECT_EQ(*ReadFile(folder / "moved/" + name), *ReadFile(folder / "whole/" + name))
          << name << " " << step;
    }
  }
}

TEST_F(ImageTest, OneMoveAnywhereChangesNothing) {
  Add("x.jpg", Encode(ImageFormat::kJpeg, Paint(50, 30, 3)));
  Add("y.png", RawPng(20, 12, PNG_COLOR_TYPE_RGB_ALPHA, PNG_INTERLACE_ADAM7));
  std::string arguments = Arguments("out", {{"items_per_step", 1}}).dump();
  RunReport whole = RunProgram(kProgram, arguments);
  ASSERT_TRUE(whole.status.ok()) << whole.status.ToString();
  for (uint64_t step = 1; step < whole.steps; ++step) {
    RunOptions options;
    options.move_after = step;
    RunReport moved = RunProgram(kProgram, arguments, options);
    ASSERT_TRUE(moved.status.ok()) << moved.status.ToString();
    EXPECT_EQ(moved.moves, 1u);
    ASSERT_EQ(moved.result, whole.result) << "moved after step " << step;
  }
}

TEST_F(ImageTest, BrokenPicturesAreSkippedAndNamedOrFailTheTask) {
  std::string jpeg = Encode(ImageFormat::kJpeg, Paint(100, 100, 3)),
              png = Encode(ImageFormat::kPng, Paint(100, 100, 3));
  std::string progressive = ProgressiveJpeg(Paint(100, 100, 3));
  Add("a-good.jpg", jpeg);
  Add("b-cut.jpg", jpeg.substr(0, jpeg.size() / 2));
  Add("c-cut.png", png.substr(0, png.size() / 2));
  Add("d-empty.png", "");
  Add("e-text.jpg", "this is no picture");
  Add("f-cut-progressive.jpg", progressive.substr(0, progressive.size() / 3));
  std::string flipped = png;
  flipped[flipped.size() / 2] ^= 0x55;
  Add("g-flipped.png", flipped);
  std::string huge = png;
  huge.replace(16, 8,
               std::string("\0\1\0\0\0\1\0\0", 8));  // 65536 x 65536; the checksum is wrong too
  Add("h-huge.png", huge);
  Add("i-header.jpg", jpeg.substr(0, 30));
  Add("j-good.png", png);
  RunReport report = RunProgram(kProgram, Arguments("out", {{"on_error", "skip"}}).dump());
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  json result = json::parse(report.result);
  EXPECT_EQ(result["pictures"], 2) << result.dump(2);
  EXPECT_EQ(result["failed"], 8);
  ASSERT_EQ(result["failures"].size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    std::string failure = result["failures"][i];
    EXPECT_EQ(failure[0], static_cast<char>('b' + i)) << failure;
    EXPECT_GT(failure.size(), failure.find(':') + 2) << failure;
  }
  EXPECT_EQ(Files("out").size(), 2u);

  RunOptions moved;
  moved.move_every = 3;
  json every = Arguments("moved", {{"on_error", "skip"}, {"items_per_step", 200}});
  EXPECT_EQ(json::parse(RunProgram(kProgram, every.dump(), moved).result)["failures"],
            result["failures"]);

  Status failed = RunProgram(kProgram, Arguments("fail").dump()).status;
  EXPECT_EQ(failed.code(), StatusCode::kTaskFailed);
  EXPECT_NE(failed.message().find("b-cut.jpg"), std::string::npos) << failed.message();
}

TEST_F(ImageTest, TooManyPixelsAreRefusedBeforeTheyAreAllocated) {
  Add("x.png", Encode(ImageFormat::kPng, Paint(1100, 1000, 3)));
  Status status = RunProgram(kProgram, Arguments("out", {{"max_megapixels", 1}}).dump()).status;
  EXPECT_EQ(status.code(), StatusCode::kTaskFailed);
  EXPECT_NE(status.message().find("1100 x 1000"), std::string::npos) << status.message();
}

TEST_F(ImageTest, BadArgumentsAreNamed) {
  Add("x.png", Encode(ImageFormat::kPng, Paint(10, 10, 3)));
  std::filesystem::create_directory(in_ / "empty");
  struct Case {
    json change;
    std::string part;
  };
  const std::vector<Case> cases = {{{{"input", in_ / "none"}}, "none"},
                                   {{{"input", in_ / "empty"}}, "no .jpg"},
                                   {{{"output", in_ / "pictures"}}, "same folder"},
                                   {{{"output", in_ / "pictures/x.png/below"}}, "x.png"},
                                   {{{"width", 0}}, "width"},
                                   {{{"filter", "cubic"}}, "area or lanczos"},
                                   {{{"on_error", "ignore"}}, "fail or skip"},
                                   {{{"opacity", 2}}, "opacity"},
                                   {{{"watermark", "\xC3\xBC"}}, "watermark"},
                                   {{{"qualty", 5}}, "did you mean 'quality'"}};
  for (const Case& c : cases) {
    Status status = RunProgram(kProgram, Arguments("out", c.change).dump()).status;
    EXPECT_FALSE(status.ok()) << c.change;
    EXPECT_NE(status.message().find(c.part), std::string::npos)
        << c.change << ": " << status.message();
  }
  EXPECT_NE(RunProgram(kProgram, "{}").status.message().find("input"), std::string::npos);
}

TEST_F(ImageTest, DamagedCheckpointsAndChangedFoldersAreRefused) {
  Add("x.png", Encode(ImageFormat::kPng, Paint(30, 30, 3)));
  std::string arguments = Arguments("out", {{"items_per_step", 1}}).dump();
  for (uint64_t steps : {1, 20, 50, 90}) {
    std::string state = *testing::SaveAfter(kProgram, arguments, steps);
    EXPECT_TRUE(testing::LoadFrom(kProgram, arguments, state).ok()) << steps;
    for (size_t length = 0; length < state.size(); length += 1 + length / 3) {
      EXPECT_FALSE(testing::LoadFrom(kProgram, arguments, state.substr(0, length)).ok())
          << steps << " " << length;
    }
  }
  std::string state = *testing::SaveAfter(kProgram, arguments, 20);
  Add("y.png", Encode(ImageFormat::kPng, Paint(30, 30, 3)));
  EXPECT_EQ(testing::LoadFrom(kProgram, arguments, state).code(), StatusCode::kFailedPrecondition);
}

TEST_F(ImageTest, ASwappedPictureStartsAnew) {
  Add("x.png", Encode(ImageFormat::kPng, Paint(30, 30, 3)));
  std::string arguments = Arguments("out", {{"items_per_step", 1}}).dump();
  std::string state = *testing::SaveAfter(kProgram, arguments, 20);
  Add("x.png", Encode(ImageFormat::kPng, Paint(20, 50, 3)));
  EXPECT_TRUE(testing::LoadFrom(kProgram, arguments, state).ok());
}

// Photographs from a small package of Debian (scripts/setup.sh).
TEST_F(ImageTest, RunsOverTheSamplePictures) {
  const std::string samples = "/usr/share/wallpapers";
  if (!FileExists(samples))
    GTEST_SKIP() << "the sample pictures are not installed: run scripts/setup.sh";
  json arguments = {
      {"input", samples}, {"output", in_ / "out"}, {"width", 96}, {"on_error", "skip"}};
  RunReport report = RunProgram(kProgram, arguments.dump());
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  json result = json::parse(report.result);
  EXPECT_GT(result["pictures"].get<int>(), 10);
  EXPECT_EQ(result["failed"], 0) << result.dump(2);
}

}  // namespace
}  // namespace pillion::sidetasks
