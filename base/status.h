// Status and Result<T>: how every seam of Pillion reports failure. C++17-clean, so that the codec and .cu
// files can include it. Values are immutable once made and may be shared between threads.
#ifndef PILLION_BASE_STATUS_H_
#define PILLION_BASE_STATUS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace pillion {

// Named for what the caller can do about it. The numbers travel on the wire and only grow.
enum class StatusCode : uint8_t {
  kOk = 0,
  kInvalidArgument = 1,    // the request is wrong: correct it
  kNotFound = 2,           // the named thing does not exist
  kAlreadyExists = 3,      // the named thing exists with other contents
  kFailedPrecondition = 4, // the state does not allow it: change the state first
  kStale = 5,              // an old epoch, step or incarnation: drop it, newer ones exist
  kResourceExhausted = 6,  // a named limit or memory is full: free something or wait
  kUnavailable = 7,        // the other side is not there now: try again later
  kDeadlineExceeded = 8,   // time ran out; the effect may or may not have happened
  kCancelled = 9,          // somebody asked for it to stop
  kPermissionDenied = 10,  // the key or role does not allow it
  kCorruption = 11,        // stored or received bytes are damaged
  kUnsupported = 12,       // this build, device or version cannot do it
  kIoError = 13,           // the operating system refused: the message has errno's text
  kTaskFailed = 14,        // a task's own code failed; the message is its error
  kInternal = 15,          // a bug in Pillion
};
inline constexpr uint8_t kStatusCodeCount = 16;

// "invalid_argument" and so on: the names that JSON output uses.
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}
  static Status Ok() { return Status(); }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  std::string ToString() const;  // "not_found: no task 12ab…"

  // The same status with "context: " in front of its message; ok stays ok.
  Status WithContext(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

inline bool operator==(const Status& a, const Status& b) {
  return a.code() == b.code() && a.message() == b.message();
}

Status InvalidArgument(std::string message);
Status NotFound(std::string message);
Status AlreadyExists(std::string message);
Status FailedPrecondition(std::string message);
Status Stale(std::string message);
Status ResourceExhausted(std::string message);
Status Unavailable(std::string message);
Status DeadlineExceeded(std::string message);
Status Cancelled(std::string message);
Status PermissionDenied(std::string message);
Status Corruption(std::string message);
Status Unsupported(std::string message);
Status IoError(std::string message);
Status TaskFailed(std::string message);
Status Internal(std::string message);

// IoError("open /x: No such file or directory") from the current or a given errno.
Status ErrnoStatus(std::string_view what, int error_number);
Status ErrnoStatus(std::string_view what);

// A T or the Status that says why there is none. Never holds an ok Status.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit by design
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {  // NOLINT
    PILLION_CHECK(!std::get<1>(state_).ok(), "a Result needs a value or an error");
  }

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }

  T& value() & { return Checked(); }
  const T& value() const& { return const_cast<Result*>(this)->Checked(); }
  T value() && { return std::move(Checked()); }  // by value: a reference would outlive the temporary
  T& operator*() & { return Checked(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(Checked()); }
  T* operator->() { return &Checked(); }
  const T* operator->() const { return &value(); }

 private:
  T& Checked() {
    PILLION_CHECK(ok(), std::get<1>(state_).ToString().c_str());
    return std::get<0>(state_);
  }
  std::variant<T, Status> state_;
};

#define PILLION_CONCAT_INNER(a, b) a##b
#define PILLION_CONCAT(a, b) PILLION_CONCAT_INNER(a, b)

#define PILLION_RETURN_IF_ERROR(expression)                       \
  do {                                                            \
    if (::pillion::Status pillion_status = (expression); !pillion_status.ok()) return pillion_status; \
  } while (false)

// PILLION_ASSIGN_OR_RETURN(auto file, OpenFile(path));
#define PILLION_ASSIGN_OR_RETURN(declaration, expression) \
  PILLION_ASSIGN_OR_RETURN_INNER(PILLION_CONCAT(pillion_result_, __LINE__), declaration, expression)
#define PILLION_ASSIGN_OR_RETURN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                           \
  if (!temporary.ok()) return temporary.status();                          \
  declaration = std::move(*temporary)

}  // namespace pillion

#endif  // PILLION_BASE_STATUS_H_
