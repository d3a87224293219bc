// Each struct's fields are listed once, in codec_fields.h; here is what happens to each kind of field in each
// direction. C++17: Cap'n Proto's headers. Refusals (a limit, a damaged value) travel as an exception of our own up
// to Encode and Decode, which also stop Cap'n Proto's.
#include "api/wire/codec.h"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <kj/io.h>

#include <cstring>
#include <vector>

#include "api/wire/codec_fields.h"
#include "base/limits.h"
#include "pillion.capnp.h"

namespace pillion::wire {

namespace {

struct Refusal {
  Status status;
};

[[noreturn]] void RefuseSize(const char* field, const char* unit, uint64_t size, const char* limit_name,
                             uint64_t limit) {
  throw Refusal{ResourceExhausted(std::string(field) + " has " + std::to_string(size) + " " + unit + ", more than " +
                                  limit_name + " = " + std::to_string(limit))};
}

inline void CheckSize(const char* field, const char* unit, uint64_t size, const char* limit_name, uint64_t limit) {
  if (__builtin_expect(size > limit, 0)) RefuseSize(field, unit, size, limit_name, limit);
}

capnp::Text::Reader AsText(const std::string& text) { return {text.c_str(), text.size()}; }
capnp::Data::Reader AsData(const std::string& bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}
std::string FromText(capnp::Text::Reader text) { return std::string(text.begin(), text.size()); }
std::string FromData(capnp::Data::Reader bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
}

// Every struct of messages.h has a Put and a Get; declared first, because they use each other.
#define PILLION_DECLARE(Type)                               \
  void Put(const Type& x, schema::Type::Builder b);         \
  void Get(schema::Type::Reader r, Type* x);
PILLION_WIRE_STRUCTS(PILLION_DECLARE)
#undef PILLION_DECLARE

// Those whose shape differs from their struct.
void Put(const TaskId& x, schema::TaskId::Builder b) {
  b.setHigh(x.job.high);
  b.setLow(x.job.low);
  b.setIndex(x.index);
}
void Get(schema::TaskId::Reader r, TaskId* x) { *x = TaskId{{r.getHigh(), r.getLow()}, r.getIndex()}; }

void Put(const std::pair<std::string, double>& x, schema::Metric::Builder b) {
  CheckSize("Progress.metrics.name", "bytes", x.first.size(), "limits::kTextBytes", limits::kTextBytes);
  b.setName(AsText(x.first));
  b.setValue(x.second);
}
void Get(schema::Metric::Reader r, std::pair<std::string, double>* x) {
  CheckSize("Progress.metrics.name", "bytes", r.getName().size(), "limits::kTextBytes", limits::kTextBytes);
  *x = {FromText(r.getName()), r.getValue()};
}

// A status's text is for people: one that is too long is cut rather than refused.
void Put(const Status& x, schema::Failure::Builder b) {
  b.setCode(static_cast<uint8_t>(x.code()));
  if (x.message().size() <= limits::kTextBytes) {
    if (!x.message().empty()) b.setMessage(AsText(x.message()));
  } else {
    b.setMessage(AsText(x.message().substr(0, limits::kTextBytes)));
  }
}
void Get(schema::Failure::Reader r, Status* x) {
  CheckSize("Status.message", "bytes", r.getMessage().size(), "limits::kTextBytes", limits::kTextBytes);
  if (r.getCode() >= kStatusCodeCount) {
    throw Refusal{Corruption("Status.code is " + std::to_string(r.getCode()) + ", which is no status code")};
  }
  if (r.getCode() != 0) *x = Status(static_cast<StatusCode>(r.getCode()), FromText(r.getMessage()));
}

// Elements of lists.
template <typename List, typename T>
void PutElement(List list, uint32_t i, const T& x, const char* /*field*/) {
  Put(x, list[i]);
}
inline void PutElement(capnp::List<uint32_t>::Builder list, uint32_t i, uint32_t x, const char*) { list.set(i, x); }
inline void PutElement(capnp::List<capnp::Text>::Builder list, uint32_t i, const std::string& x, const char* field) {
  CheckSize(field, "bytes", x.size(), "limits::kTextBytes", limits::kTextBytes);
  list.set(i, AsText(x));
}
inline void PutElement(capnp::List<capnp::Data>::Builder list, uint32_t i, const std::string& x, const char* field) {
  CheckSize(field, "bytes", x.size(), "limits::kInlineResultBytes", limits::kInlineResultBytes);
  list.set(i, AsData(x));
}
template <typename Reader, typename T>
void GetElement(Reader r, T* x, const char* /*field*/) {
  Get(r, x);
}
inline void GetElement(uint32_t r, uint32_t* x, const char*) { *x = r; }
inline void GetElement(capnp::Text::Reader r, std::string* x, const char* field) {
  CheckSize(field, "bytes", r.size(), "limits::kTextBytes", limits::kTextBytes);
  *x = FromText(r);
}
inline void GetElement(capnp::Data::Reader r, std::string* x, const char* field) {
  CheckSize(field, "bytes", r.size(), "limits::kInlineResultBytes", limits::kInlineResultBytes);
  *x = FromData(r);
}

template <typename E>
E CheckEnum(uint8_t value, E last, const char* field) {
  if (value > static_cast<uint8_t>(last)) {
    throw Refusal{Corruption(std::string(field) + " is " + std::to_string(value) + ", which is none of its values")};
  }
  return static_cast<E>(value);
}

// ---- one direction: struct → builder ------------------------------------------------------------------
#define PUT_PLAIN(Type, member, Name, limit) b.set##Name(x.member);
#define PUT_ENUM(Type, member, Name, last) b.set##Name(static_cast<uint8_t>(x.member));
#define PUT_TEXT(Type, member, Name, limit)                                                             \
  if (!x.member.empty()) {                                                                              \
    CheckSize(#Type "." #member, "bytes", x.member.size(), "limits::" #limit, limits::limit);           \
    b.set##Name(AsText(x.member));                                                                      \
  }
#define PUT_CUT(Type, member, Name, limit)                                                              \
  if (!x.member.empty()) b.set##Name(AsText(x.member.size() <= limits::limit ? x.member : x.member.substr(0, limits::limit)));
#define PUT_DATA(Type, member, Name, limit)                                                             \
  if (!x.member.empty()) {                                                                              \
    CheckSize(#Type "." #member, "bytes", x.member.size(), "limits::" #limit, limits::limit);           \
    b.set##Name(AsData(x.member));                                                                      \
  }
#define PUT_LIST(Type, member, Name, limit)                                                             \
  if (!x.member.empty()) {                                                                              \
    CheckSize(#Type "." #member, "elements", x.member.size(), "limits::" #limit, limits::limit);        \
    auto list = b.init##Name(static_cast<uint32_t>(x.member.size()));                                   \
    for (uint32_t i = 0; i < list.size(); ++i) PutElement(list, i, x.member[i], #Type "." #member);     \
  }
#define PUT_STRUCT(Type, member, Name, limit) Put(x.member, b.init##Name());
#define PUT_ID(Type, member, Name, limit) \
  b.set##Name##High(x.member.high);       \
  b.set##Name##Low(x.member.low);
#define PUT_TASK(Type, member, Name, limit) \
  b.set##Name##High(x.member.job.high);     \
  b.set##Name##Low(x.member.job.low);       \
  b.set##Name##Index(x.member.index);

#define PUT_FIELD(Type, KIND, member, Name, limit) PUT_##KIND(Type, member, Name, limit)
#define PILLION_DEFINE_PUT(Type)                                                  \
  void Put([[maybe_unused]] const Type& x, [[maybe_unused]] schema::Type::Builder b) { \
    PILLION_WIRE_##Type(PUT_FIELD)                                                \
  }
PILLION_WIRE_STRUCTS(PILLION_DEFINE_PUT)

// ---- the other: reader → struct -----------------------------------------------------------------------
#define GET_PLAIN(Type, member, Name, limit) x->member = r.get##Name();
#define GET_ENUM(Type, member, Name, last) x->member = CheckEnum(r.get##Name(), last, #Type "." #member);
#define GET_TEXT(Type, member, Name, limit)                                                             \
  if (r.has##Name()) {                                                                                  \
    auto text = r.get##Name();                                                                          \
    CheckSize(#Type "." #member, "bytes", text.size(), "limits::" #limit, limits::limit);               \
    x->member.assign(text.begin(), text.size());                                                        \
  }
#define GET_CUT GET_TEXT
#define GET_DATA(Type, member, Name, limit)                                                             \
  if (r.has##Name()) {                                                                                  \
    auto bytes = r.get##Name();                                                                         \
    CheckSize(#Type "." #member, "bytes", bytes.size(), "limits::" #limit, limits::limit);              \
    x->member.assign(reinterpret_cast<const char*>(bytes.begin()), bytes.size());                       \
  }
#define GET_LIST(Type, member, Name, limit)                                                             \
  if (r.has##Name()) {                                                                                  \
    auto list = r.get##Name();                                                                          \
    CheckSize(#Type "." #member, "elements", list.size(), "limits::" #limit, limits::limit);            \
    x->member.resize(list.size());                                                                      \
    for (uint32_t i = 0; i < list.size(); ++i) GetElement(list[i], &x->member[i], #Type "." #member);   \
  }
#define GET_STRUCT(Type, member, Name, limit) Get(r.get##Name(), &x->member);
#define GET_ID(Type, member, Name, limit)   \
  x->member.high = r.get##Name##High();     \
  x->member.low = r.get##Name##Low();
#define GET_TASK(Type, member, Name, limit)  \
  x->member.job.high = r.get##Name##High();  \
  x->member.job.low = r.get##Name##Low();    \
  x->member.index = r.get##Name##Index();

#define GET_FIELD(Type, KIND, member, Name, limit) GET_##KIND(Type, member, Name, limit)
#define PILLION_DEFINE_GET(Type)                                                  \
  void Get([[maybe_unused]] schema::Type::Reader r, [[maybe_unused]] Type* x) {   \
    PILLION_WIRE_##Type(GET_FIELD)                                                \
  }
PILLION_WIRE_STRUCTS(PILLION_DEFINE_GET)

struct BodyPutter {
  schema::Message::Builder message;
#define PILLION_PUT_BODY(Type, ENUMERATOR) \
  void operator()(const Type& x) { Put(x, message.init##Type()); }
  PILLION_WIRE_BODIES(PILLION_PUT_BODY)
#undef PILLION_PUT_BODY
};

void GetBody(schema::Message::Reader r, Body* body) {
  switch (r.which()) {
#define PILLION_GET_BODY(Type, ENUMERATOR) \
  case schema::Message::ENUMERATOR: return Get(r.get##Type(), &body->emplace<Type>());
    PILLION_WIRE_BODIES(PILLION_GET_BODY)
#undef PILLION_GET_BODY
  }
  throw Refusal{Unsupported("message of kind " + std::to_string(static_cast<int>(r.which())) +
                            " is unknown to this version")};
}

// The text of what Cap'n Proto threw, on one line and without its source paths.
std::string Describe(const kj::Exception& exception) {
  std::string text(exception.getDescription().cStr());
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text.substr(0, 200);
}

Message DecodeWords(kj::ArrayPtr<const capnp::word> words) {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 4 * words.size() + 4096;
  options.nestingLimit = limits::kWireNesting;
  capnp::FlatArrayMessageReader reader(words, options);
  schema::Message::Reader root = reader.getRoot<schema::Message>();
  if (root.getSchemaVersion() != kSchemaVersion) {
    throw Refusal{Unsupported("message of schema version " + std::to_string(root.getSchemaVersion()) +
                              ", but this program speaks version " + std::to_string(kSchemaVersion) +
                              ": use the same release of Pillion on both sides")};
  }
  Message message;
  message.request_id = root.getRequestId();
  GetBody(root, &message.body);
  return message;
}

// Scratch that Cap'n Proto builds in; it has to be zero before and is zeroed after.
constexpr size_t kScratchWords = 4096;

}  // namespace

Result<std::string> Encode(const Message& message) {
  try {
    thread_local capnp::word scratch[kScratchWords];
    capnp::MallocMessageBuilder builder(kj::arrayPtr(scratch, kScratchWords));
    schema::Message::Builder root = builder.initRoot<schema::Message>();
    root.setSchemaVersion(kSchemaVersion);
    root.setRequestId(message.request_id);
    std::visit(BodyPutter{root}, message.body);
    auto segments = builder.getSegmentsForOutput();
    const uint64_t bytes = capnp::computeSerializedSizeInWords(segments) * sizeof(capnp::word);
    CheckSize("message", "bytes", bytes, "limits::kMessageBytes", limits::kMessageBytes);
    std::string out(bytes, '\0');
    kj::ArrayOutputStream stream(kj::arrayPtr(reinterpret_cast<kj::byte*>(out.data()), out.size()));
    capnp::writeMessage(stream, segments);
    return out;
  } catch (const Refusal& refusal) {
    return refusal.status;
  } catch (const kj::Exception& exception) {
    return ResourceExhausted("message cannot be encoded: " + Describe(exception));
  }
}

Result<Message> Decode(std::string_view bytes) {
  if (bytes.size() > limits::kMessageBytes) {
    return ResourceExhausted("message has " + std::to_string(bytes.size()) +
                             " bytes, more than limits::kMessageBytes = " + std::to_string(limits::kMessageBytes));
  }
  if (bytes.empty() || bytes.size() % sizeof(capnp::word) != 0) {
    return Corruption("message of " + std::to_string(bytes.size()) + " bytes is no whole number of words");
  }
  const size_t count = bytes.size() / sizeof(capnp::word);
  try {
    if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(uint64_t) == 0) {
      return DecodeWords(kj::arrayPtr(reinterpret_cast<const capnp::word*>(bytes.data()), count));
    }
    std::vector<uint64_t> aligned(count);
    std::memcpy(aligned.data(), bytes.data(), bytes.size());
    return DecodeWords(kj::arrayPtr(reinterpret_cast<const capnp::word*>(aligned.data()), count));
  } catch (const Refusal& refusal) {
    return refusal.status;
  } catch (const kj::Exception& exception) {
    return Corruption("message is damaged: " + Describe(exception));
  }
}

}  // namespace pillion::wire
