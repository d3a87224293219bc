// PILLION_CHECK: for what cannot happen. It stays on in release builds and aborts with a message.
#ifndef PILLION_BASE_CHECK_H_
#define PILLION_BASE_CHECK_H_

namespace pillion {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const char* message);
}  // namespace pillion

#define PILLION_CHECK(condition, message)                                             \
  do {                                                                                \
    if (!(condition)) ::pillion::CheckFailed(__FILE__, __LINE__, #condition, message); \
  } while (false)

#endif  // PILLION_BASE_CHECK_H_
