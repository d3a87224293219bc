#include "pillion/serialize.h"

#include <bit>

namespace pillion {

namespace {

constexpr uint8_t kFalse = 0xf4, kTrue = 0xf5, kNull = 0xf6, kUndefined = 0xf7, kFloat = 0xfa, kDouble = 0xfb;
constexpr int kNesting = 64;

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t at) { return at < text.size() ? static_cast<uint8_t>(text[at]) : 0; };
    const uint8_t lead = byte(i);
    size_t length = lead < 0x80 ? 1 : lead >= 0xc2 && lead < 0xe0 ? 2 : lead >= 0xe0 && lead < 0xf0 ? 3
                    : lead >= 0xf0 && lead < 0xf5 ? 4 : 0;
    if (length == 0) return false;
    for (size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    }
    // Overlong forms, surrogates, and what lies beyond the last code point.
    const uint8_t second = byte(i + 1);
    if ((lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) || (lead == 0xf0 && second < 0x90) ||
        (lead == 0xf4 && second > 0x8f)) {
      return false;
    }
    i += length;
  }
  return true;
}

void AppendBigEndian(uint64_t number, int bytes, std::string* out) {
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) out->push_back(static_cast<char>(number >> shift));
}

}  // namespace

void ValueWriter::Head(ValueMajor major, uint64_t number) {
  const auto first = static_cast<uint8_t>(static_cast<uint8_t>(major) << 5);
  if (number < 24) {
    bytes_.push_back(static_cast<char>(first | number));
    return;
  }
  const int size = number <= 0xff ? 0 : number <= 0xffff ? 1 : number <= 0xffffffff ? 2 : 3;
  bytes_.push_back(static_cast<char>(first | (24 + size)));
  AppendBigEndian(number, 1 << size, &bytes_);
}

void ValueWriter::Integer(int64_t value) {
  if (value >= 0) {
    Head(ValueMajor::kUnsigned, static_cast<uint64_t>(value));
  } else {
    Head(ValueMajor::kNegative, ~static_cast<uint64_t>(value));
  }
}

void ValueWriter::Bool(bool value) { bytes_.push_back(static_cast<char>(value ? kTrue : kFalse)); }
void ValueWriter::Null() { bytes_.push_back(static_cast<char>(kNull)); }
void ValueWriter::Undefined() { bytes_.push_back(static_cast<char>(kUndefined)); }
void ValueWriter::Float(float value) {
  bytes_.push_back(static_cast<char>(kFloat));
  AppendBigEndian(std::bit_cast<uint32_t>(value), 4, &bytes_);
}
void ValueWriter::Double(double value) {
  bytes_.push_back(static_cast<char>(kDouble));
  AppendBigEndian(std::bit_cast<uint64_t>(value), 8, &bytes_);
}
void ValueWriter::Text(std::string_view text) {
  Head(IsUtf8(text) ? ValueMajor::kText : ValueMajor::kBytes, text.size());
  bytes_.append(text);
}

Result<ValueReader::Head> ValueReader::ReadHead() {
  if (left() == 0) return InvalidArgument("the value ends too early");
  const auto first = static_cast<uint8_t>(bytes_[at_]);
  Head head{static_cast<ValueMajor>(first >> 5), static_cast<uint8_t>(first & 31), 0};
  if (head.info < 24) {
    ++at_;
    head.number = head.info;
    return head;
  }
  if (head.info > 27) return InvalidArgument("a value of unknown form at byte " + std::to_string(at_));
  const size_t size = size_t{1} << (head.info - 24);
  if (left() < 1 + size) return InvalidArgument("the value ends too early");
  for (size_t i = 0; i < size; ++i) head.number = head.number << 8 | static_cast<uint8_t>(bytes_[at_ + 1 + i]);
  at_ += 1 + size;
  return head;
}

Status ValueReader::Unexpected(const char* expected, size_t at) const {
  static constexpr const char* kNames[] = {"an integer", "a negative integer", "bytes", "a text",
                                           "a list",     "a map",              "a tag", "a simple value or float"};
  const char* found = at < bytes_.size() ? kNames[static_cast<uint8_t>(bytes_[at]) >> 5] : "the end";
  return InvalidArgument(std::string(expected) + " is expected, but " + found + " was found");
}

Result<int64_t> ValueReader::Integer() {
  const size_t at = at_;
  PILLION_ASSIGN_OR_RETURN(Head head, ReadHead());
  if (head.major != ValueMajor::kUnsigned && head.major != ValueMajor::kNegative) return Unexpected("an integer", at);
  if (head.number > static_cast<uint64_t>(INT64_MAX)) {
    return InvalidArgument("an integer of more than 63 bits does not fit");
  }
  const auto number = static_cast<int64_t>(head.number);
  return head.major == ValueMajor::kUnsigned ? number : -1 - number;
}

Result<uint64_t> ValueReader::Unsigned() {
  const size_t at = at_;
  PILLION_ASSIGN_OR_RETURN(Head head, ReadHead());
  if (head.major != ValueMajor::kUnsigned) return Unexpected("an unsigned integer", at);
  return head.number;
}

Result<double> ValueReader::Number() {
  const size_t at = at_;
  PILLION_ASSIGN_OR_RETURN(Head head, ReadHead());
  if (head.major == ValueMajor::kUnsigned) return static_cast<double>(head.number);
  if (head.major == ValueMajor::kNegative) return -1.0 - static_cast<double>(head.number);
  if (head.major != ValueMajor::kSimple) return Unexpected("a number", at);
  if (head.info == (kFloat & 31)) return std::bit_cast<float>(static_cast<uint32_t>(head.number));
  if (head.info == (kDouble & 31)) return std::bit_cast<double>(head.number);
  return Unexpected("a number", at);
}

Result<bool> ValueReader::Bool() {
  const uint8_t first = left() > 0 ? static_cast<uint8_t>(bytes_[at_]) : 0;
  if (first != kFalse && first != kTrue) return Unexpected("true or false", at_);
  ++at_;
  return first == kTrue;
}

Result<std::string_view> ValueReader::Text() {
  const size_t at = at_;
  PILLION_ASSIGN_OR_RETURN(Head head, ReadHead());
  if (head.major != ValueMajor::kText && head.major != ValueMajor::kBytes) return Unexpected("a text", at);
  if (head.number > left()) return InvalidArgument("the value ends too early");
  std::string_view text = bytes_.substr(at_, head.number);
  at_ += head.number;
  return text;
}

Result<uint64_t> ValueReader::Array() {
  const size_t at = at_;
  PILLION_ASSIGN_OR_RETURN(Head head, ReadHead());
  if (head.major != ValueMajor::kArray) return Unexpected("a list", at);
  if (head.number > left()) return InvalidArgument("the value ends too early");
  return head.number;
}

Result<uint64_t> ValueReader::Map() {
  const size_t at = at_;
  PILLION_ASSIGN_OR_RETURN(Head head, ReadHead());
  if (head.major != ValueMajor::kMap) return Unexpected("a map", at);
  if (head.number > left()) return InvalidArgument("the value ends too early");
  return head.number;
}

bool ValueReader::NextIsNull() const { return left() > 0 && static_cast<uint8_t>(bytes_[at_]) == kNull; }
bool ValueReader::NextIsUndefined() const { return left() > 0 && static_cast<uint8_t>(bytes_[at_]) == kUndefined; }
Status ValueReader::Skip() { return SkipNested(0); }

Status ValueReader::SkipNested(int depth) {
  if (depth > kNesting) return InvalidArgument("the value is nested deeper than " + std::to_string(kNesting));
  PILLION_ASSIGN_OR_RETURN(Head head, ReadHead());
  switch (head.major) {
    case ValueMajor::kBytes:
    case ValueMajor::kText:
      if (head.number > left()) return InvalidArgument("the value ends too early");
      at_ += head.number;
      return Status();
    case ValueMajor::kArray:
    case ValueMajor::kMap: {
      if (head.number > left()) return InvalidArgument("the value ends too early");
      const uint64_t count = head.major == ValueMajor::kMap ? 2 * head.number : head.number;
      for (uint64_t i = 0; i < count; ++i) PILLION_RETURN_IF_ERROR(SkipNested(depth + 1));
      return Status();
    }
    default:
      return Status();
  }
}

Result<std::string> FillArguments(std::string_view arguments, const std::vector<FilledArgument>& values) {
  ValueReader in(arguments);
  PILLION_ASSIGN_OR_RETURN(uint64_t count, in.Array());
  for (const FilledArgument& each : values) {
    if (each.argument >= count) {
      return InvalidArgument("argument " + std::to_string(each.argument) + " is to be filled, but there are only " +
                             std::to_string(count));
    }
  }
  std::string filled(arguments.substr(0, in.position()));
  for (uint64_t i = 0; i < count; ++i) {
    const size_t start = in.position();
    const bool open = in.NextIsUndefined();
    PILLION_RETURN_IF_ERROR(in.Skip().WithContext("argument " + std::to_string(i)));
    const FilledArgument* value = nullptr;
    for (const FilledArgument& each : values) {
      if (each.argument == i) value = &each;
    }
    if (value == nullptr) {
      filled.append(arguments.substr(start, in.position() - start));
      continue;
    }
    if (!open) return InvalidArgument("argument " + std::to_string(i) + " has a value already");
    filled.append(value->value);
  }
  return filled;
}

}  // namespace pillion
