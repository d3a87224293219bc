// A board directory of its own for one test.
#ifndef PILLION_TESTS_UNIT_BOARD_TEMPORARY_BOARD_DIRECTORY_H_
#define PILLION_TESTS_UNIT_BOARD_TEMPORARY_BOARD_DIRECTORY_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.h"

namespace pillion {

class TemporaryBoardDirectory {
 public:
  TemporaryBoardDirectory() {
    char path[] = "/tmp/pillion-board-XXXXXX";
    PILLION_CHECK(mkdtemp(path) != nullptr, "no temporary directory");
    path_ = path;
    setenv("PILLION_BOARD_DIR", path, 1);
  }
  ~TemporaryBoardDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace pillion

#endif  // PILLION_TESTS_UNIT_BOARD_TEMPORARY_BOARD_DIRECTORY_H_
