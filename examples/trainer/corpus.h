// Text to train on, as bytes.
#ifndef PILLION_EXAMPLES_TRAINER_CORPUS_H_
#define PILLION_EXAMPLES_TRAINER_CORPUS_H_

#include <cstdint>
#include <string>

#include "base/status.h"

namespace pillion::trainer {

// The licence texts that every Debian machine has.
inline constexpr char kDefaultText[] = "/usr/share/common-licenses";

// A file, or the files of a directory in the order of their names (links left out), one after the
// other.
Result<std::string> ReadText(const std::string& path);

// Where the sample `row` of a micro-batch begins: `length` bytes of `text` are there. The same on
// all ranks.
size_t SampleOffset(const std::string& text, size_t length, uint64_t seed, uint64_t iteration,
                    int32_t microbatch, int32_t row);

}  // namespace pillion::trainer

#endif  // PILLION_EXAMPLES_TRAINER_CORPUS_H_
