// Random values for every field of every message, and field-wise comparison, from the codec's own list of fields. That
// the list is complete is checked by counting each struct's members.
#ifndef PILLION_TESTS_UNIT_WIRE_RANDOM_MESSAGE_H_
#define PILLION_TESTS_UNIT_WIRE_RANDOM_MESSAGE_H_

#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "api/wire/codec_fields.h"
#include "api/wire/messages.h"

namespace pillion::wire {

// Number of members of an aggregate: the most values that it can be initialised from.
struct AnyValue {
  template <typename T>
  operator T() const;
};
template <typename T, typename... Values>
constexpr size_t MemberCount() {
  if constexpr (requires { T{Values{}..., AnyValue{}}; }) {
    return MemberCount<T, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

class RandomMessages {
 public:
  explicit RandomMessages(uint64_t seed) : random_(seed) {}

  uint64_t Number() { return random_(); }
  // Often empty, sometimes long; any bytes.
  std::string Bytes() {
    static constexpr size_t kSizes[] = {0, 0, 1, 7, 8, 15, 16, 40, 300};
    std::string bytes(kSizes[random_() % std::size(kSizes)], '\0');
    for (char& c : bytes) c = static_cast<char>(random_());
    return bytes;
  }

  void Fill(std::string* x) { *x = Bytes(); }
  void Fill(uint32_t* x) { *x = static_cast<uint32_t>(random_()); }
  void Fill(TaskId* x) { *x = TaskId{{random_(), random_()}, static_cast<uint32_t>(random_())}; }
  void Fill(std::pair<std::string, double>* x) { *x = {Bytes(), static_cast<double>(random_() % 1000) / 7}; }
  void Fill(Status* x) {
    const auto code = static_cast<StatusCode>(random_() % kStatusCodeCount);
    *x = code == StatusCode::kOk ? Status() : Status(code, Bytes());
  }
  template <typename T>
  void FillPlain(T* x) {
    if constexpr (std::is_floating_point_v<T>) {
      *x = static_cast<double>(static_cast<int64_t>(random_())) / 1000;
    } else if constexpr (std::is_same_v<T, bool>) {
      *x = random_() % 2 == 1;
    } else {
      *x = static_cast<T>(random_());
    }
  }
  template <typename T>
  void FillList(std::vector<T>* x) {
    x->resize(random_() % 4);
    for (T& element : *x) Fill(&element);
  }

#define RANDOM_PLAIN(member, last) FillPlain(&x->member);
#define RANDOM_ENUM(member, last) \
  x->member = static_cast<decltype(x->member)>(random_() % (static_cast<uint64_t>(last) + 1));
#define RANDOM_TEXT(member, last) Fill(&x->member);
#define RANDOM_CUT RANDOM_TEXT
#define RANDOM_DATA RANDOM_TEXT
#define RANDOM_LIST(member, last) FillList(&x->member);
#define RANDOM_STRUCT(member, last) Fill(&x->member);
#define RANDOM_ID(member, last) \
  x->member.high = random_();   \
  x->member.low = random_();
#define RANDOM_TASK(member, last) Fill(&x->member);
#define RANDOM_FIELD(Type, KIND, member, Name, last) RANDOM_##KIND(member, last)
#define RANDOM_FILL(Type) \
  void Fill([[maybe_unused]] Type* x) { PILLION_WIRE_##Type(RANDOM_FIELD) }
  PILLION_WIRE_STRUCTS(RANDOM_FILL)

  // A message of alternative `index` of Body.
  Message Make(size_t index) {
    Message message;
    message.request_id = random_();
    MakeBody(index, &message.body, std::make_index_sequence<std::variant_size_v<Body>>());
    return message;
  }

 private:
  template <size_t... I>
  void MakeBody(size_t index, Body* body, std::index_sequence<I...>) {
    ((I == index ? Fill(&body->emplace<I>()) : void()), ...);
  }

  std::mt19937_64 random_;
};

template <typename T>
bool Same(const T& a, const T& b) { return a == b; }
#define SAME_DECLARE(Type) inline bool Same(const Type& a, const Type& b);
PILLION_WIRE_STRUCTS(SAME_DECLARE)
template <typename T>
bool Same(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!Same(a[i], b[i])) return false;
  }
  return true;
}
#define SAME_FIELD(Type, KIND, member, Name, last) &&Same(a.member, b.member)
#define SAME_DEFINE(Type) \
  inline bool Same([[maybe_unused]] const Type& a, [[maybe_unused]] const Type& b) { \
    return true PILLION_WIRE_##Type(SAME_FIELD);                                     \
  }
PILLION_WIRE_STRUCTS(SAME_DEFINE)

inline bool Same(const Message& a, const Message& b) {
  return a.request_id == b.request_id && a.body.index() == b.body.index() &&
         std::visit([&](const auto& x) { return Same(x, std::get<std::decay_t<decltype(x)>>(b.body)); }, a.body);
}

// The list of fields names every member of every struct.
#define COUNT_FIELD(Type, KIND, member, Name, last) +1
#define COUNT_CHECK(Type) \
  static_assert(MemberCount<Type>() == 0 PILLION_WIRE_##Type(COUNT_FIELD), #Type " has fields that do not travel");
PILLION_WIRE_STRUCTS(COUNT_CHECK)
#define COUNT_BODY(Type, ENUMERATOR) +1
static_assert(std::variant_size_v<Body> == 0 PILLION_WIRE_BODIES(COUNT_BODY));

}  // namespace pillion::wire

#endif  // PILLION_TESTS_UNIT_WIRE_RANDOM_MESSAGE_H_
