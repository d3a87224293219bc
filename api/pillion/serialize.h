// Values of call tasks as bytes: integers, floats, bool, text, vector, pair, tuple, optional, map, and structs that say
// what they consist of. Self-describing (a subset of CBOR, RFC 8949), so that tools print them as JSON, and checked:
// decoding a value of another type, or one that does not fit, is kInvalidArgument.
//
//   struct Point { double x, y; };
//   inline auto PillionFields(Point& p) { return std::tie(p.x, p.y); }   // in Point's namespace
//
// Format. bool: true, false. Integers: the shortest CBOR integer. float, double: 32 or 64 bits. std::string: text
// when it is UTF-8, else a byte string. vector: array. pair, tuple, struct: array of its members. optional: null or
// the value. map: map for text keys, else an array of pairs. The arguments of a call are one array; `undefined` in it
// stands for the result of another task until FillArguments puts it there.
#ifndef PILLION_SERIALIZE_H_
#define PILLION_SERIALIZE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"

namespace pillion {

// CBOR's major types and the simple values that are used.
enum class ValueMajor : uint8_t { kUnsigned = 0, kNegative = 1, kBytes = 2, kText = 3, kArray = 4, kMap = 5, kSimple = 7 };

class ValueWriter {
 public:
  void Head(ValueMajor major, uint64_t number);
  void Integer(int64_t value);
  void Bool(bool value);
  void Null();
  void Undefined();
  void Float(float value);
  void Double(double value);
  void Text(std::string_view text);
  void Encoded(std::string_view value) { bytes_.append(value); }  // one value, encoded before
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ValueReader {
 public:
  explicit ValueReader(std::string_view bytes) : bytes_(bytes) {}
  size_t left() const { return bytes_.size() - at_; }
  size_t position() const { return at_; }

  // Each reads one value or head of the expected kind; kInvalidArgument names what was found instead.
  Result<int64_t> Integer();
  Result<uint64_t> Unsigned();  // for values above the signed range
  Result<double> Number();      // floats and integers
  Result<bool> Bool();
  Result<std::string_view> Text();
  // Number of elements, which never exceeds left().
  Result<uint64_t> Array();
  Result<uint64_t> Map();
  bool NextIsNull() const;
  bool NextIsUndefined() const;
  // Passes over one whole value.
  Status Skip();

 private:
  struct Head {
    ValueMajor major;
    uint8_t info;  // low five bits of the first byte
    uint64_t number;
  };
  Result<Head> ReadHead();
  Status SkipNested(int depth);
  Status Unexpected(const char* expected, size_t at) const;

  std::string_view bytes_;
  size_t at_ = 0;
};

template <typename T>
void WriteValue(const T& value, ValueWriter* out);
template <typename T>
Status ReadValue(ValueReader* in, T* value);

// One value as bytes, and back; nothing may follow it.
template <typename T>
std::string EncodeValue(const T& value) {
  ValueWriter out;
  WriteValue(value, &out);
  return out.Take();
}
template <typename T>
Result<T> DecodeValue(std::string_view bytes) {
  ValueReader in(bytes);
  T value{};
  PILLION_RETURN_IF_ERROR(ReadValue(&in, &value));
  if (in.left() != 0) return InvalidArgument(std::to_string(in.left()) + " bytes follow the value");
  return value;
}

// Replaces `undefined` at position `argument` of an encoded argument array by an encoded value.
struct FilledArgument {
  uint32_t argument;
  std::string_view value;
};
Result<std::string> FillArguments(std::string_view arguments, const std::vector<FilledArgument>& values);

// ---- how each type is done --------------------------------------------------------------------------------

namespace serialize_internal {

template <typename T, template <typename...> class Template>
struct IsA : std::false_type {};
template <template <typename...> class Template, typename... Args>
struct IsA<Template<Args...>, Template> : std::true_type {};

template <typename T, typename = void>
struct HasFields : std::false_type {};
template <typename T>
struct HasFields<T, std::void_t<decltype(PillionFields(std::declval<T&>()))>> : std::true_type {};

template <typename Tuple>
void WriteTuple(const Tuple& values, ValueWriter* out) {
  out->Head(ValueMajor::kArray, std::tuple_size_v<Tuple>);
  std::apply([&](const auto&... each) { (WriteValue(each, out), ...); }, values);
}

// Works on a tuple of values and on one of references.
template <typename Tuple>
Status ReadTuple(ValueReader* in, Tuple& values) {
  constexpr size_t kSize = std::tuple_size_v<std::decay_t<Tuple>>;
  PILLION_ASSIGN_OR_RETURN(uint64_t count, in->Array());
  if (count != kSize) {
    return InvalidArgument(std::to_string(kSize) + " values are expected, there are " + std::to_string(count));
  }
  Status status;
  size_t index = 0;
  std::apply(
      [&](auto&... each) {
        ((status.ok() ? void(status = ReadValue(in, &each).WithContext("value " + std::to_string(++index))) : void()),
         ...);
      },
      values);
  return status;
}

template <typename T>
Status ReadInteger(ValueReader* in, T* value) {
  if constexpr (std::is_unsigned_v<T>) {
    PILLION_ASSIGN_OR_RETURN(uint64_t number, in->Unsigned());
    *value = static_cast<T>(number);
    if (*value == number) return Status();
    return InvalidArgument(std::to_string(number) + " does not fit into an unsigned integer of " +
                           std::to_string(8 * sizeof(T)) + " bits");
  } else {
    PILLION_ASSIGN_OR_RETURN(int64_t number, in->Integer());
    *value = static_cast<T>(number);
    if (*value == number) return Status();
    return InvalidArgument(std::to_string(number) + " does not fit into an integer of " +
                           std::to_string(8 * sizeof(T)) + " bits");
  }
}

template <typename T>
Status ReadVector(ValueReader* in, T* value) {
  PILLION_ASSIGN_OR_RETURN(uint64_t count, in->Array());
  value->clear();
  value->reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    typename T::value_type element{};
    PILLION_RETURN_IF_ERROR(ReadValue(in, &element).WithContext("element " + std::to_string(i)));
    value->push_back(std::move(element));
  }
  return Status();
}

template <typename T>
void WriteMap(const T& value, ValueWriter* out) {
  constexpr bool kTextKeys = std::is_same_v<typename T::key_type, std::string>;
  out->Head(kTextKeys ? ValueMajor::kMap : ValueMajor::kArray, value.size());
  for (const auto& [key, mapped] : value) {
    if constexpr (!kTextKeys) out->Head(ValueMajor::kArray, 2);
    WriteValue(key, out);
    WriteValue(mapped, out);
  }
}

template <typename T>
Status ReadMap(ValueReader* in, T* value) {
  constexpr bool kTextKeys = std::is_same_v<typename T::key_type, std::string>;
  auto count = kTextKeys ? in->Map() : in->Array();
  if (!count.ok()) return count.status();
  value->clear();
  for (uint64_t i = 0; i < *count; ++i) {
    std::pair<typename T::key_type, typename T::mapped_type> entry;
    if constexpr (kTextKeys) {
      PILLION_RETURN_IF_ERROR(ReadValue(in, &entry.first));
      PILLION_RETURN_IF_ERROR(ReadValue(in, &entry.second).WithContext("entry '" + entry.first + "'"));
    } else {
      PILLION_RETURN_IF_ERROR(ReadValue(in, &entry));
    }
    value->insert(std::move(entry));
  }
  return Status();
}

template <typename T>
inline constexpr bool kUnknownType = false;

}  // namespace serialize_internal

template <typename T>
void WriteValue(const T& value, ValueWriter* out) {
  using namespace serialize_internal;  // NOLINT: these templates only
  if constexpr (std::is_same_v<T, bool>) {
    out->Bool(value);
  } else if constexpr (std::is_enum_v<T>) {
    WriteValue(static_cast<std::underlying_type_t<T>>(value), out);
  } else if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>) {
    out->Head(ValueMajor::kUnsigned, value);
  } else if constexpr (std::is_integral_v<T>) {
    out->Integer(value);
  } else if constexpr (std::is_same_v<T, float>) {
    out->Float(value);
  } else if constexpr (std::is_same_v<T, double>) {
    out->Double(value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out->Text(value);
  } else if constexpr (IsA<T, std::vector>::value) {
    out->Head(ValueMajor::kArray, value.size());
    for (const typename T::value_type& each : value) WriteValue(each, out);
  } else if constexpr (IsA<T, std::pair>::value) {
    WriteTuple(std::tie(value.first, value.second), out);
  } else if constexpr (IsA<T, std::tuple>::value) {
    WriteTuple(value, out);
  } else if constexpr (IsA<T, std::optional>::value) {
    value ? WriteValue(*value, out) : out->Null();
  } else if constexpr (IsA<T, std::map>::value) {
    WriteMap(value, out);
  } else if constexpr (HasFields<T>::value) {
    WriteTuple(PillionFields(const_cast<T&>(value)), out);
  } else {
    static_assert(kUnknownType<T>, "say what this type consists of: PillionFields in pillion/serialize.h");
  }
}

template <typename T>
Status ReadValue(ValueReader* in, T* value) {
  using namespace serialize_internal;  // NOLINT: these templates only
  if constexpr (std::is_same_v<T, bool>) {
    PILLION_ASSIGN_OR_RETURN(*value, in->Bool());
    return Status();
  } else if constexpr (std::is_enum_v<T>) {
    std::underlying_type_t<T> number{};
    PILLION_RETURN_IF_ERROR(ReadInteger(in, &number));
    *value = static_cast<T>(number);
    return Status();
  } else if constexpr (std::is_integral_v<T>) {
    return ReadInteger(in, value);
  } else if constexpr (std::is_floating_point_v<T>) {
    PILLION_ASSIGN_OR_RETURN(double number, in->Number());
    *value = static_cast<T>(number);
    return Status();
  } else if constexpr (std::is_same_v<T, std::string>) {
    PILLION_ASSIGN_OR_RETURN(std::string_view text, in->Text());
    value->assign(text);
    return Status();
  } else if constexpr (IsA<T, std::vector>::value) {
    return ReadVector(in, value);
  } else if constexpr (IsA<T, std::pair>::value) {
    auto members = std::tie(value->first, value->second);
    return ReadTuple(in, members);
  } else if constexpr (IsA<T, std::tuple>::value) {
    return ReadTuple(in, *value);
  } else if constexpr (IsA<T, std::optional>::value) {
    if (in->NextIsNull()) {
      value->reset();
      return in->Skip();
    }
    return ReadValue(in, &value->emplace());
  } else if constexpr (IsA<T, std::map>::value) {
    return ReadMap(in, value);
  } else if constexpr (HasFields<T>::value) {
    auto members = PillionFields(*value);
    return ReadTuple(in, members);
  } else {
    static_assert(kUnknownType<T>, "say what this type consists of: PillionFields in pillion/serialize.h");
  }
}

}  // namespace pillion

#endif  // PILLION_SERIALIZE_H_
