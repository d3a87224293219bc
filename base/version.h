// The version of this build; the project() line of CMakeLists.txt says the same.
#ifndef PILLION_BASE_VERSION_H_
#define PILLION_BASE_VERSION_H_

#include <string_view>

namespace pillion {
inline constexpr std::string_view kVersion = "0.1.0";
}  // namespace pillion

#endif  // PILLION_BASE_VERSION_H_
