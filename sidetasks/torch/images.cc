#include "sidetasks/torch/images.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/checksum.h"
#include "base/file.h"

namespace pillion::sidetasks {
namespace {

constexpr char kLicences[] = "/usr/share/common-licenses";
constexpr uint64_t kFileBytes = uint64_t{4} << 30;
constexpr size_t kRecordBytes = 1 + kImageBytes;

Result<Images> FromFile(const std::string& path, size_t most) {
  PILLION_ASSIGN_OR_RETURN(std::string bytes, ReadFile(path, kFileBytes));
  if (bytes.empty() || bytes.size() % kRecordBytes != 0) {
    return Corruption(path + " has " + std::to_string(bytes.size()) + " bytes; records of " +
                      std::to_string(kRecordBytes) + " bytes are expected");
  }
  Images images;
  const size_t count = std::min(most, bytes.size() / kRecordBytes);
  for (size_t i = 0; i < count; ++i) {
    const auto* record = reinterpret_cast<const uint8_t*>(bytes.data()) + i * kRecordBytes;
    if (record[0] >= kImageClasses) {
      return Corruption(path + ": record " + std::to_string(i) + " has label " +
                        std::to_string(record[0]) + "; 0 to 9 are expected");
    }
    images.labels.push_back(record[0]);
    images.pixels.insert(images.pixels.end(), record + 1, record + kRecordBytes);
  }
  return images;
}

// Passages at equal distances in each text, the texts in turn, so that any number of them is
// balanced.
Result<Images> FromLicences(size_t most) {
  PILLION_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(kLicences));
  std::vector<std::string> texts;
  for (const std::string& name : names) {
    const std::string path = std::string(kLicences) + "/" + name;
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(path, kFileBytes));
    if (text.size() > 2 * kImageBytes && texts.size() < kImageClasses)
      texts.push_back(std::move(text));
  }
  if (texts.empty())
    return NotFound(std::string("there are no licence texts in ") + kLicences +
                    ": name a file of pictures");
  Images images;
  const size_t per_text = (most + texts.size() - 1) / texts.size();
  for (size_t i = 0; i < most; ++i) {
    const size_t label = i % texts.size();
    const std::string& text = texts[label];
    const size_t offset = (text.size() - kImageBytes) * (i / texts.size()) / per_text;
    images.labels.push_back(static_cast<uint8_t>(label));
    images.pixels.insert(images.pixels.end(), text.begin() + static_cast<ptrdiff_t>(offset),
                         text.begin() + static_cast<ptrdiff_t>(offset + kImageBytes));
  }
  return images;
}

}  // namespace

uint64_t Images::Fingerprint() const {
  return Checksum64(pixels.data(), pixels.size()) * 31 + Checksum64(labels.data(), labels.size());
}

void Images::Moments(double* mean, double* deviation) const {
  // Whole numbers, so that the order of summation does not matter.
  uint64_t sum = 0, squares = 0;
  for (uint64_t pixel : pixels) {
    sum += pixel;
    squares += pixel * pixel;
  }
  const double count = static_cast<double>(pixels.size());
  *mean = static_cast<double>(sum) / count;
  *deviation = std::sqrt(std::max(1.0, static_cast<double>(squares) / count - *mean * *mean));
}

Result<Images> LoadImages(const std::string& source, size_t most) {
  return source == "licences" ? FromLicences(most) : FromFile(source, most);
}

}  // namespace pillion::sidetasks
