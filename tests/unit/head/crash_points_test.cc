#include "head/crash_points.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <regex>
#include <set>

#include "base/file.h"

namespace pillion::head {
namespace {

// "kSpecs" → "specs", "after_commit" → "after-commit"
std::string Dashed(std::string name) {
  if (name[0] == 'k') name.erase(0, 1);
  for (char& c : name)
    c = c == '_' ? '-' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

// All matches of the first group.
std::vector<std::string> Matches(const std::string& text, const std::string& pattern) {
  std::vector<std::string> found;
  std::regex regex(pattern);
  for (std::sregex_iterator match(text.begin(), text.end(), regex), end; match != end; ++match) {
    found.push_back((*match)[1]);
  }
  return found;
}

// The effect interface itself says what there is; a new record kind or list of effects without its
// points fails here.
TEST(CrashPoints, EveryEffectOfTheInterfaceHasItsPoints) {
  std::string header = *ReadFile(std::string(PILLION_SOURCE_DIR) + "/head/effects.h");
  std::set<std::string> expected = {"delete"};

  std::string kinds = Matches(header, "enum class RecordKind : uint8_t \\{([^}]*)\\}").at(0);
  for (const std::string& kind : Matches(kinds, "(k[A-Z][A-Za-z]*) = \\d+"))
    expected.insert("put-" + Dashed(kind));

  const std::map<std::string, std::set<std::string>> lists = {
      {"now", {"send-now"}},
      {"records", {}},  // by kind, above
      {"after_commit", {"send-after-commit"}},
      {"cleanups", {"clean-task", "clean-job"}},
      {"disconnects", {"disconnect"}}};
  std::vector<std::string> members = Matches(header, "\\n  std::vector<[A-Za-z]+> ([a-z_]+);");
  EXPECT_GE(members.size(), lists.size());
  for (const std::string& member : members) {
    if (member == "keep") continue;  // of Cleanup
    auto known = lists.find(member);
    ASSERT_NE(known, lists.end()) << "Effects::" << member << " has no crash points";
    expected.insert(known->second.begin(), known->second.end());
  }

  std::set<std::string> points;
  for (const std::string& effect : expected) {
    points.insert("before-" + effect);
    points.insert("after-" + effect);
  }
  std::vector<std::string> all = AllCrashPoints();
  EXPECT_EQ(std::set<std::string>(all.begin(), all.end()), points);
  EXPECT_EQ(all.size(), points.size());
}

TEST(CrashPoints, NamesParseAndOthersAreRefused) {
  for (const std::string& name : AllCrashPoints()) {
    EXPECT_TRUE(CrashPoints::Parse(name).ok()) << name;
    EXPECT_TRUE(CrashPoints::Parse(name + ":3").ok()) << name;
  }
  for (const char* bad : {"", "before-", "before-nothing", "after-put-task:0", "after-put-task:x",
                          "after-put-task:"}) {
    EXPECT_EQ(CrashPoints::Parse(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

// The signal that ended a child which did `what`; 0 when it survived.
int SignalOf(const std::function<void()>& what) {
  pid_t child = fork();
  if (child == 0) {
    what();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(CrashPoints, KillAtTheNamedPlaceTheNthTime) {
  auto run = [](const std::string& name, int times) {
    return SignalOf([&] {
      CrashPoints points = *CrashPoints::Parse(name);
      for (int i = 0; i < times; ++i) {
        points.BeforeWrite({{RecordKind::kJob, false, "a", ""},
                            {RecordKind::kTask, false, "b", ""},
                            {RecordKind::kTask, false, "c", ""}});
        points.After(DurableEffect::kCleanJob);
      }
    });
  };
  EXPECT_EQ(run("before-put-task", 1), SIGKILL);
  EXPECT_EQ(run("before-put-task:2", 1), 0);
  EXPECT_EQ(run("before-put-task:2", 2), SIGKILL);
  EXPECT_EQ(run("after-put-task", 2), 0);
  EXPECT_EQ(run("before-delete", 2), 0);
  EXPECT_EQ(run("after-clean-job", 1), SIGKILL);
  EXPECT_EQ(run("before-clean-job", 1), 0);
  EXPECT_EQ(SignalOf([] { CrashPoints().Before(DurableEffect::kSendNow); }), 0);
}

}  // namespace
}  // namespace pillion::head
