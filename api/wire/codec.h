// Bytes ↔ messages. The format is Cap'n Proto (pillion.capnp), wrapped so that only codec.cc includes it.
// Thread-safe: no state.
#ifndef PILLION_API_WIRE_CODEC_H_
#define PILLION_API_WIRE_CODEC_H_

#include <string>
#include <string_view>

#include "api/wire/messages.h"

namespace pillion::wire {

// kResourceExhausted, naming field and limit, when the message would not fit limits::kMessageBytes.
Result<std::string> Encode(const Message& message);

// Hostile bytes get kCorruption (damaged), kResourceExhausted (over a limit: field and limit are named) or
// kUnsupported (another schema version: both are named); never a crash, never unbounded memory. The input may
// have any alignment.
Result<Message> Decode(std::string_view bytes);

}  // namespace pillion::wire

#endif  // PILLION_API_WIRE_CODEC_H_
