// Directories that vanish with the test, and a small full disk.
#ifndef PILLION_TESTS_UNIT_STORE_TEMPORARY_H_
#define PILLION_TESTS_UNIT_STORE_TEMPORARY_H_

#include <sys/mount.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace pillion::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    char name[] = "/tmp/pillion-test-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~TemporaryDirectory() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A file system of `megabytes` in memory; mounted() is false where the user may not mount.
class SmallDisk {
 public:
  explicit SmallDisk(int megabytes) {
    std::string options = "mode=0700,size=" + std::to_string(megabytes) + "m";
    mounted_ = mount("pillion-test", directory_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(directory_.path().c_str(), MNT_DETACH);
  }
  bool mounted() const { return mounted_; }
  std::string operator/(const std::string& name) const { return directory_ / name; }

 private:
  TemporaryDirectory directory_;
  bool mounted_ = false;
};

}  // namespace pillion::testing

#endif  // PILLION_TESTS_UNIT_STORE_TEMPORARY_H_
