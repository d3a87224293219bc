#include "base/status.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace pillion {

void CheckFailed(const char* file, int line, const char* condition, const char* message) {
  std::fprintf(stderr, "level=fatal check=\"%s\" at=%s:%d message=\"%s\"\n", condition, file, line, message);
  std::abort();
}

std::string_view StatusCodeName(StatusCode code) {
  static constexpr std::string_view kNames[kStatusCodeCount] = {
      "ok",          "invalid_argument", "not_found",         "already_exists",
      "failed_precondition", "stale",    "resource_exhausted", "unavailable",
      "deadline_exceeded",   "cancelled", "permission_denied", "corruption",
      "unsupported", "io_error",         "task_failed",       "internal"};
  auto index = static_cast<size_t>(code);
  return index < kStatusCodeCount ? kNames[index] : "unknown";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(StatusCodeName(code_)) + ": " + message_;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return Status(code_, std::string(context) + ": " + message_);
}

Status InvalidArgument(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
Status NotFound(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
Status AlreadyExists(std::string message) { return {StatusCode::kAlreadyExists, std::move(message)}; }
Status FailedPrecondition(std::string message) { return {StatusCode::kFailedPrecondition, std::move(message)}; }
Status Stale(std::string message) { return {StatusCode::kStale, std::move(message)}; }
Status ResourceExhausted(std::string message) { return {StatusCode::kResourceExhausted, std::move(message)}; }
Status Unavailable(std::string message) { return {StatusCode::kUnavailable, std::move(message)}; }
Status DeadlineExceeded(std::string message) { return {StatusCode::kDeadlineExceeded, std::move(message)}; }
Status Cancelled(std::string message) { return {StatusCode::kCancelled, std::move(message)}; }
Status PermissionDenied(std::string message) { return {StatusCode::kPermissionDenied, std::move(message)}; }
Status Corruption(std::string message) { return {StatusCode::kCorruption, std::move(message)}; }
Status Unsupported(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
Status IoError(std::string message) { return {StatusCode::kIoError, std::move(message)}; }
Status TaskFailed(std::string message) { return {StatusCode::kTaskFailed, std::move(message)}; }
Status Internal(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

Status ErrnoStatus(std::string_view what, int error_number) {
  return IoError(std::string(what) + ": " + std::strerror(error_number));
}
Status ErrnoStatus(std::string_view what) { return ErrnoStatus(what, errno); }

}  // namespace pillion
