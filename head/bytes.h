// Compact bytes for stored records: varints (seven bits a byte, low first), zigzag for signed numbers, length-prefixed
// texts. The reader never reads past its end: after a failure ok() is false and everything reads as 0 or "".
#ifndef PILLION_HEAD_BYTES_H_
#define PILLION_HEAD_BYTES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace pillion::head {

class ByteWriter {
 public:
  void Number(uint64_t value) {
    while (value >= 0x80) {
      bytes_.push_back(static_cast<char>(value | 0x80));
      value >>= 7;
    }
    bytes_.push_back(static_cast<char>(value));
  }
  void Signed(int64_t value) { Number((static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63)); }
  void Text(std::string_view text) {
    Number(text.size());
    bytes_.append(text);
  }
  void Fixed64(uint64_t value) {  // little endian
    for (int i = 0; i < 8; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void Id(uint64_t high, uint64_t low) {
    Fixed64(high);
    Fixed64(low);
  }
  size_t size() const { return bytes_.size(); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : begin_(bytes.data()), next_(begin_), end_(begin_ + bytes.size()) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return next_ == end_; }
  size_t position() const { return static_cast<size_t>(next_ - begin_); }

  uint64_t Number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && next_ != end_; shift += 7) {
      uint8_t byte = static_cast<uint8_t>(*next_++);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }
  int64_t Signed() {
    uint64_t value = Number();
    return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  std::string_view Text() {
    uint64_t size = Number();
    if (size > static_cast<uint64_t>(end_ - next_)) {
      Fail();
      return {};
    }
    std::string_view text(next_, size);
    next_ += size;
    return text;
  }
  uint64_t Fixed64() {
    if (end_ - next_ < 8) {
      Fail();
      return 0;
    }
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(next_[i])) << (8 * i);
    next_ += 8;
    return value;
  }

 private:
  void Fail() {
    ok_ = false;
    next_ = end_;
  }
  const char* begin_;
  const char* next_;
  const char* end_;
  bool ok_ = true;
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_BYTES_H_
