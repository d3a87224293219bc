#include "pillion/serialize.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>

#include "pillion/function.h"

namespace pillion {

struct Point {
  double x = 0;
  std::vector<int> tags;
  bool operator==(const Point&) const = default;
};
inline auto PillionFields(Point& p) { return std::tie(p.x, p.tags); }

namespace {

template <typename T>
void ExpectRoundTrip(const T& value) {
  auto decoded = DecodeValue<T>(EncodeValue(value));
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(*decoded, value);
}

TEST(Serialize, RoundTrips) {
  for (int64_t n : {int64_t{0}, int64_t{23}, int64_t{24}, int64_t{255}, int64_t{256}, int64_t{70'000},
                    int64_t{5'000'000'000}, INT64_MAX}) {
    ExpectRoundTrip<int64_t>(n);
    ExpectRoundTrip<int64_t>(-n);
    ExpectRoundTrip<uint64_t>(static_cast<uint64_t>(n));
  }
  ExpectRoundTrip<int64_t>(INT64_MIN);
  ExpectRoundTrip<uint64_t>(UINT64_MAX);
  ExpectRoundTrip<int8_t>(-128);
  ExpectRoundTrip<float>(0.1f);
  ExpectRoundTrip<double>(-1e300);
  ExpectRoundTrip<bool>(true);
  ExpectRoundTrip<std::string>("grüße");
  ExpectRoundTrip<std::string>(std::string("\xff\x00\xfe", 3));
  ExpectRoundTrip<std::vector<bool>>({true, false, true});
  ExpectRoundTrip<std::vector<std::vector<int>>>({{}, {1, -2}, {3}});
  ExpectRoundTrip<std::pair<int, std::string>>({4, "x"});
  ExpectRoundTrip<std::tuple<>>({});
  ExpectRoundTrip<std::tuple<int, double, std::optional<int>>>({1, 2.5, std::nullopt});
  ExpectRoundTrip<std::optional<std::string>>("y");
  ExpectRoundTrip<std::map<std::string, int>>({{"a", 1}, {"b", 2}});
  ExpectRoundTrip<std::map<int, Point>>({{7, Point{1.5, {1, 2}}}});
}

TEST(Serialize, WrongTypesAndRangesSayWhatTheyFound) {
  EXPECT_NE(DecodeValue<int>(EncodeValue(std::string("x"))).status().message().find("a text"), std::string::npos);
  EXPECT_NE(DecodeValue<int8_t>(EncodeValue(300)).status().message().find("300"), std::string::npos);
  EXPECT_FALSE(DecodeValue<uint32_t>(EncodeValue(-1)).ok());
  EXPECT_FALSE(DecodeValue<std::string>(EncodeValue(1)).ok());
  EXPECT_FALSE(DecodeValue<bool>(EncodeValue(1)).ok());
  EXPECT_FALSE((DecodeValue<std::tuple<int, int>>(EncodeValue(std::make_tuple(1)))).ok());
  EXPECT_FALSE(DecodeValue<int>(EncodeValue(1) + "x").ok());
  EXPECT_EQ(DecodeValue<double>(EncodeValue(3)).value(), 3.0);
}

TEST(Serialize, AnyBytesDecodeOrFail) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  int failed = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes(random() % 24, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    failed += DecodeValue<std::map<std::string, std::vector<std::optional<int>>>>(bytes).ok() ? 0 : 1;
    failed += DecodeValue<std::vector<std::pair<std::string, double>>>(bytes).ok() ? 0 : 1;
    ValueReader reader(bytes);
    (void)reader.Skip().ok();
    (void)FillArguments(bytes, {{0, "x"}}).ok();
  }
  EXPECT_GT(failed, 1000);
  EXPECT_FALSE(DecodeValue<std::vector<int>>(std::string("\x9b\xff\xff\xff\xff\xff\xff\xff\xff", 9)).ok());
  std::string nested(1000, '\x81');
  EXPECT_FALSE(ValueReader(nested).Skip().ok());
}

TEST(Serialize, ArgumentsAreFilledWhereTheyWereLeftOpen) {
  ValueWriter out;
  out.Head(ValueMajor::kArray, 3);
  WriteValue(std::vector<int>{1, 2}, &out);
  out.Undefined();
  WriteValue(std::string("end"), &out);
  const std::string open = out.Take();
  const std::string value = EncodeValue(42);
  std::string filled = FillArguments(open, {{1, value}}).value();
  EXPECT_EQ((DecodeValue<std::tuple<std::vector<int>, int, std::string>>(filled).value()),
            std::make_tuple(std::vector<int>{1, 2}, 42, std::string("end")));
  EXPECT_FALSE(FillArguments(open, {{3, value}}).ok());
  EXPECT_FALSE(FillArguments(open, {{0, value}}).ok());
}

int Square(int x) { return x * x; }
Result<int> Half(int x) {
  if (x % 2 != 0) return InvalidArgument(std::to_string(x) + " is odd");
  return x / 2;
}
std::string Throws(const std::string& what) { throw std::runtime_error(what); }
PILLION_FUNCTION(Square);
PILLION_FUNCTION(Half);
PILLION_FUNCTION(Throws);

TEST(Function, RegisteredFunctionIsACallProgram) {
  const Program* square = ProgramRegistry::Global().Find("Square").value();
  EXPECT_EQ(DecodeValue<int>(square->call(EncodeValue(std::make_tuple(5))).value()).value(), 25);
  EXPECT_EQ(square->call(EncodeValue(std::make_tuple(std::string("x")))).status().code(),
            StatusCode::kInvalidArgument);
  const Program* half = ProgramRegistry::Global().Find("Half").value();
  EXPECT_EQ(half->call(EncodeValue(std::make_tuple(3))).status().message(), "3 is odd");
  const Program* throws = ProgramRegistry::Global().Find("Throws").value();
  Status thrown = throws->call(EncodeValue(std::make_tuple(std::string("boom")))).status();
  EXPECT_EQ(thrown.code(), StatusCode::kTaskFailed);
  EXPECT_EQ(thrown.message(), "boom");
}

TEST(Function, NamesAreFoundByAddress) {
  FunctionName name = FindFunction(reinterpret_cast<const void*>(&Square)).value();
  EXPECT_EQ(name.program, "Square");
  EXPECT_EQ(name.library, "");  // it is in the main program
  EXPECT_EQ(FindFunction(nullptr).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace pillion
