#include "base/ids.h"

#include <sys/random.h>

#include <charconv>

namespace pillion {

void RandomWords(uint64_t* high, uint64_t* low) {
  uint64_t words[2];
  ssize_t got = getrandom(words, sizeof words, 0);
  PILLION_CHECK(got == sizeof words, "getrandom failed");
  *high = words[0];
  *low = words[1];
}

std::string FormatId128(uint64_t high, uint64_t low) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[15 - i] = kDigits[(high >> (4 * i)) & 15];
    text[31 - i] = kDigits[(low >> (4 * i)) & 15];
  }
  return text;
}

bool ParseId128(std::string_view text, uint64_t* high, uint64_t* low) {
  if (text.size() != 32) return false;
  auto parse = [](std::string_view half, uint64_t* out) {
    auto [end, error] = std::from_chars(half.data(), half.data() + half.size(), *out, 16);
    return error == std::errc() && end == half.data() + half.size();
  };
  return parse(text.substr(0, 16), high) && parse(text.substr(16), low);
}

Result<TaskId> TaskId::Parse(std::string_view text) {
  TaskId id;
  size_t dot = text.find('.');
  if (dot != std::string_view::npos) {
    auto job = JobId::Parse(text.substr(0, dot));
    std::string_view tail = text.substr(dot + 1);
    auto [end, error] = std::from_chars(tail.data(), tail.data() + tail.size(), id.index);
    if (job.ok() && error == std::errc() && end == tail.data() + tail.size()) {
      id.job = *job;
      return id;
    }
  }
  return InvalidArgument("'" + std::string(text) + "' is no task id: JOB.INDEX is expected");
}

}  // namespace pillion
