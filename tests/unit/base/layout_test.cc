// Rooms include only along the arrows of DESIGN §4.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace {

namespace fs = std::filesystem;

const std::map<std::string, std::set<std::string>>& Arrows() {
  static const std::map<std::string, std::set<std::string>> arrows = {
      {"base", {}},
      {"store", {}},
      {"scheduler", {}},
      {"pipeline", {"api"}},  // only pipeline/executor; checked below
      {"api", {}},
      {"head", {"store", "scheduler", "api"}},
      {"worker", {"scheduler", "api", "store"}},
      {"sidetasks", {"api"}},
      {"cli", {"api", "pipeline"}},
  };
  return arrows;
}

std::string RoomOf(const std::string& include) {
  if (include.rfind("pillion/", 0) == 0) return "api";
  size_t slash = include.find('/');
  return slash == std::string::npos ? "" : include.substr(0, slash);
}

TEST(Layout, IncludesFollowTheArrows) {
  const fs::path root = PILLION_SOURCE_DIR;
  int files = 0;
  for (const auto& [room, allowed] : Arrows()) {
    for (const auto& entry : fs::recursive_directory_iterator(root / room)) {
      std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc" && extension != ".cu") continue;
      ++files;
      std::ifstream in(entry.path());
      for (std::string line; std::getline(in, line);) {
        if (line.rfind("#include \"", 0) != 0) continue;
        std::string include = line.substr(10, line.find('"', 10) - 10);
        std::string target = RoomOf(include);
        if (target.empty() || target == room || target == "base" || Arrows().count(target) == 0) continue;
        std::string relative = fs::relative(entry.path(), root).string();
        EXPECT_TRUE(allowed.count(target)) << relative << " includes " << include;
        if (room == "pipeline") {
          EXPECT_EQ(relative.rfind("pipeline/executor/", 0), 0u) << relative << " includes " << include;
        }
        if (room == "worker" && target == "store") {
          EXPECT_EQ(include.rfind("store/checkpoint", 0), 0u) << relative << " includes " << include;
        }
      }
    }
  }
  EXPECT_GT(files, 10);
}

}  // namespace
