#include "examples/trainer/corpus.h"

#include <sys/stat.h>

#include <array>

#include "base/check.h"
#include "base/checksum.h"
#include "base/file.h"

namespace pillion::trainer {
namespace {

constexpr uint64_t kTextBytes = uint64_t{1} << 30;

}  // namespace

Result<std::string> ReadText(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return ErrnoStatus("training text " + path);
  if (!S_ISDIR(info.st_mode)) return ReadFile(path, kTextBytes);
  PILLION_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path));
  std::string text;
  for (const std::string& name : names) {
    const std::string file = path + "/" + name;
    if (lstat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    PILLION_ASSIGN_OR_RETURN(std::string bytes, ReadFile(file, kTextBytes - text.size()));
    text += bytes;
  }
  if (text.empty())
    return InvalidArgument("training text " + path + ": the directory has no files");
  return text;
}

size_t SampleOffset(const std::string& text, size_t length, uint64_t seed, uint64_t iteration,
                    int32_t microbatch, int32_t row) {
  PILLION_CHECK(text.size() >= length, "callers check that the text is long enough");
  const std::array<uint64_t, 4> key = {seed, iteration, static_cast<uint64_t>(microbatch),
                                       static_cast<uint64_t>(row)};
  return Checksum64(key.data(), sizeof key) % (text.size() - length + 1);
}

}  // namespace pillion::trainer
