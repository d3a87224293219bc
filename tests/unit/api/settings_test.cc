#include "api/config/settings.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "base/file.h"

namespace pillion::config {
namespace {

class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() {
    char name[] = "/tmp/pillion-settings-XXXXXX";
    directory_ = mkdtemp(name);
    for (const char* variable :
         {"PILLION_CONFIG", "PILLION_STATE_DIR", "PILLION_PORT", "PILLION_REBALANCE"}) {
      unsetenv(variable);
    }
    settings_.Text("state_dir", &state_dir_, "where");
    settings_.Integer("port", &port_, 0, 65535, "number");
    settings_.Number("ratio", &ratio_, 1, 10, "factor");
    settings_.Boolean("rebalance", &rebalance_, "move");
    settings_.Choice("policy", &policy_, {"fair", "fifo"}, "order");
    settings_.Action("verify", &verify_, "check");
  }
  ~SettingsTest() override { std::filesystem::remove_all(directory_); }

  std::string File(const std::string& text) {
    std::string path = directory_ + "/pillion.toml";
    EXPECT_TRUE(WriteFileAtomically(path, text).ok());
    return path;
  }
  void ExpectError(const Status& status, const std::vector<std::string>& parts) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    for (const std::string& part : parts) {
      EXPECT_NE(status.message().find(part), std::string::npos)
          << status.message() << " lacks " << part;
    }
  }

  std::string directory_;
  std::string state_dir_ = "default", policy_ = "fair";
  int64_t port_ = 7;
  double ratio_ = 1.5;
  bool rebalance_ = true, verify_ = false;
  Settings settings_{"pillion-test", "head", "A test."};
};

TEST_F(SettingsTest, DefaultsStayWithoutSources) {
  ASSERT_TRUE(settings_.Apply({}).ok());
  EXPECT_EQ(state_dir_, "default");
  EXPECT_EQ(port_, 7);
  EXPECT_TRUE(rebalance_);
}

TEST_F(SettingsTest, FlagBeatsEnvironmentBeatsOwnTableBeatsTopBeatsDefault) {
  std::string file =
      File("state_dir = 'top'\nport = 1\nratio = 2\n[head]\nport = 2\n[worker]\nanything = 1\n");
  ASSERT_TRUE(settings_.Apply({"--config", file}).ok());
  EXPECT_EQ(state_dir_, "top");
  EXPECT_EQ(port_, 2);
  EXPECT_EQ(ratio_, 2);
  setenv("PILLION_PORT", "3", 1);
  setenv("PILLION_CONFIG", file.c_str(), 1);
  ASSERT_TRUE(settings_.Apply({}).ok());
  EXPECT_EQ(port_, 3);
  ASSERT_TRUE(settings_.Apply({"--port=4"}).ok());
  EXPECT_EQ(port_, 4);
}

TEST_F(SettingsTest, BooleansAreSwitchedOnAndOff) {
  ASSERT_TRUE(settings_.Apply({"--no-rebalance", "--verify"}).ok());
  EXPECT_FALSE(rebalance_);
  EXPECT_TRUE(verify_);
  ASSERT_TRUE(settings_.Apply({"--rebalance"}).ok());
  EXPECT_TRUE(rebalance_);
  setenv("PILLION_REBALANCE", "false", 1);
  ASSERT_TRUE(settings_.Apply({}).ok());
  EXPECT_FALSE(rebalance_);
  setenv("PILLION_REBALANCE", "perhaps", 1);
  ExpectError(settings_.Apply({}), {"PILLION_REBALANCE", "perhaps"});
}

TEST_F(SettingsTest, AnUnknownKeyIsNamedWithPlaceAndNearestKey) {
  std::string file = File("port = 1\n\n[head]\n  state_dri = 'x'\n");
  ExpectError(settings_.Apply({"--config", file}),
              {file + ":4:3", "state_dri", "did you mean state_dir?"});
  file = File("[headd]\nport = 1\n");
  ExpectError(settings_.Apply({"--config", file}), {file + ":1:", "headd", "did you mean head?"});
  file = File("verify = true\n");
  ExpectError(settings_.Apply({"--config", file}), {"verify is no setting"});
}

TEST_F(SettingsTest, WrongTypesAndRangesAreNamedWithTheirPlace) {
  std::string file = File("port = 'x'\n");
  ExpectError(settings_.Apply({"--config", file}), {file + ":1:1: port must be a whole number"});
  file = File("\nport = 65536\n");
  ExpectError(settings_.Apply({"--config", file}),
              {file + ":2:1: port", "65536 is not between 0 and 65535"});
  file = File("state_dir = 1\n");
  ExpectError(settings_.Apply({"--config", file}), {"state_dir must be a text"});
  file = File("policy = 'lifo'\n");
  ExpectError(settings_.Apply({"--config", file}), {"policy", "'lifo' is not one of fair, fifo"});
  file = File("head = 1\n");
  ExpectError(settings_.Apply({"--config", file}), {"head must be a table"});
  file = File("ratio = 0.5\n");
  ExpectError(settings_.Apply({"--config", file}), {"0.5 is not between 1 and 10"});
}

TEST_F(SettingsTest, BrokenTomlIsNamedWithItsPlace) {
  std::string file = File("port = 1\nstate_dir = 'x\n");
  ExpectError(settings_.Apply({"--config", file}), {file + ":2:"});
}

TEST_F(SettingsTest, OtherThanAsciiIsForStringsAndComments) {
  std::string file = File("# grüße \"\nstate_dir = \"ü \\\" '\" # ü\n[head]\nport = 4\n");
  ASSERT_TRUE(settings_.Apply({"--config", file}).ok());
  EXPECT_EQ(state_dir_, "ü \" '");
  EXPECT_EQ(port_, 4);
  file = File(
      "state_dir = \'\'\'a\n'ü\'\'\'\nratio = \xEF\xBB\xBF"
      "2\n");
  ExpectError(settings_.Apply({"--config", file}), {file + ":3:9", "ASCII"});
}

TEST_F(SettingsTest, AMissingFileIsAnError) {
  Status status = settings_.Apply({"--config", directory_ + "/none.toml"});
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("none.toml"), std::string::npos);
}

TEST_F(SettingsTest, WrongFlagsAreUsageErrors) {
  ExpectError(settings_.Apply({"--prot", "1"}), {"--prot"});
  ExpectError(settings_.Apply({"--port", "abc"}), {"--port", "'abc' is no whole number"});
  ExpectError(settings_.Apply({"--port", "99999999999999999999"}), {"--port"});
  ExpectError(settings_.Apply({"leftover"}), {"leftover"});
  const char* arguments[] = {"pillion-test", "--policy", "lifo"};
  EXPECT_EQ(settings_.Parse(3, arguments), std::optional<int>(2));
}

TEST_F(SettingsTest, HelpNamesEverySettingWithDefaultAndVariable) {
  const char* arguments[] = {"pillion-test", "--help"};
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(settings_.Parse(2, arguments), std::optional<int>(0));
  std::string help = ::testing::internal::GetCapturedStdout();
  for (const char* part : {"--state-dir", "PILLION_STATE_DIR", "default", "--no-rebalance",
                           "--verify", "fair, fifo"}) {
    EXPECT_NE(help.find(part), std::string::npos) << part << "\n" << help;
  }
}

}  // namespace
}  // namespace pillion::config
