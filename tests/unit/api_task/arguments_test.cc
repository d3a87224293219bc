#include "api/pillion/arguments.h"

#include <gtest/gtest.h>

namespace pillion {
namespace {

Arguments Parsed(std::string_view json) {
  Result<Arguments> arguments = Arguments::Parse(json);
  EXPECT_TRUE(arguments.ok()) << arguments.status().ToString();
  return *arguments;
}

TEST(Arguments, ReadsEachKindByName) {
  Arguments arguments = Parsed(R"({"path":"/a","count":3,"rate":0.5,"fast":true})");
  EXPECT_EQ(*arguments.Text("path"), "/a");
  EXPECT_EQ(*arguments.Integer("count"), 3);
  EXPECT_EQ(*arguments.Number("rate"), 0.5);
  EXPECT_EQ(*arguments.Number("count"), 3.0);
  EXPECT_TRUE(*arguments.Boolean("fast"));
  EXPECT_TRUE(arguments.CheckAllKnown().ok());
}

TEST(Arguments, DefaultsAndMissing) {
  Arguments arguments = Parsed("");
  EXPECT_EQ(*arguments.Text("path", "x"), "x");
  EXPECT_EQ(*arguments.Integer("count", 7), 7);
  EXPECT_EQ(arguments.Integer("count").status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(arguments.Text("path").status().message().find("'path'"), std::string::npos);
}

TEST(Arguments, WrongTypesAndRangesNameTheArgument) {
  Arguments arguments = Parsed(R"({"count":"three","rate":1.5,"huge":18446744073709551615})");
  EXPECT_NE(arguments.Integer("count").status().message().find("'count' must be an integer"), std::string::npos);
  EXPECT_FALSE(arguments.Integer("rate").ok());
  EXPECT_FALSE(arguments.Integer("huge").ok());
  EXPECT_FALSE(arguments.Boolean("rate").ok());
  Arguments small = Parsed(R"({"count":0})");
  EXPECT_NE(small.Integer("count", std::nullopt, 1, 10).status().message().find("from 1 to 10"), std::string::npos);
}

TEST(Arguments, UnknownNamesTheNearest) {
  Arguments arguments = Parsed(R"({"itertions":3})");
  EXPECT_EQ(*arguments.Integer("iterations", 1), 1);
  Status status = arguments.CheckAllKnown();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("did you mean 'iterations'"), std::string::npos) << status.ToString();
}

TEST(Arguments, RefusesWhatIsNoFlatObject) {
  for (const char* text : {"[1]", "{", "3", R"({"a":[1]})", R"({"a":null})", R"({"a":{"b":1}})", "\xff"}) {
    EXPECT_EQ(Arguments::Parse(text).status().code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(Arguments, RoundTrip) {
  std::string json = R"({"b":1.5,"a":"x\ny","c":true,"d":-4})";
  Arguments again = Parsed(Parsed(json).ToJson());
  EXPECT_EQ(*again.Text("a"), "x\ny");
  EXPECT_EQ(*again.Number("b"), 1.5);
  EXPECT_EQ(*again.Integer("d"), -4);
}

TEST(NearestName, FindsTyposOnly) {
  EXPECT_EQ(NearestName("pagernk", {"pagerank", "resize"}), "pagerank");
  EXPECT_EQ(NearestName("zzz", {"pagerank", "resize"}), "");
  EXPECT_EQ(NearestName("", {"pagerank"}), "");
}

}  // namespace
}  // namespace pillion
