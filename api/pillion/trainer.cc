// The trainer C ABI on the board. Nothing here blocks, allocates (after opening) or fails the trainer.
#pragma GCC visibility push(default)
#include "pillion/trainer.h"
#pragma GCC visibility pop

#include <charconv>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/futex.h"
#include "api/board/board.h"
#include "pillion/trainer_cuda.h"

namespace {

using pillion::board::Board;
using pillion::board::EdgeWord;
using pillion::board::Layout;

thread_local std::string last_error;

}  // namespace

struct pillion_board {
  std::unique_ptr<Board> board;
  Layout* layout = nullptr;
  bool cuda = false;
  uint64_t cuda_edge = 0;      // address of the edge word for streams; 0: not registered yet
  bool cuda_refused = false;   // registering or writing failed: edges are no longer marked
  uint32_t sequence = 0;       // of the last bubble
  bool open = false;
  uint64_t next_iteration = 0;
  uint32_t next_slot = 0;
};

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kRelease = std::memory_order_release;

bool IndexAfter(std::string_view name, std::string_view prefix, int* index) {
  if (name.size() <= prefix.size() || name.substr(0, prefix.size()) != prefix) return false;
  auto [stop, error] = std::from_chars(name.data() + prefix.size(), name.data() + name.size(), *index);
  return error == std::errc() && stop == name.data() + name.size() && *index >= 0;
}

pillion::Result<std::string> BoardName(std::string_view device, bool* cuda) {
  int index = 0;
  *cuda = false;
  if (IndexAfter(device, "cpu", &index)) return "cpu-" + std::to_string(index);
  *cuda = true;
  if (IndexAfter(device, "cuda", &index)) return pillion::trainer::CudaUuid(index);
  if (device.substr(0, 4) == "GPU-") return std::string(device);
  return pillion::InvalidArgument("'" + std::string(device) + "' is no device: cpuN, cudaN or a GPU's UUID is expected");
}

// Closes what a trainer that died left open, and makes the new run known.
void Attach(pillion_board* self, const pillion_board_options& options) {
  Layout* layout = self->layout;
  self->sequence = pillion::board::SequenceOf(layout->edge.load(std::memory_order_acquire));
  for (auto& entry : layout->iterations) entry.iteration.store(pillion::board::kNoIteration, kRelaxed);
  layout->iteration.store(pillion::board::kNoIteration, kRelaxed);
  layout->run_id.store(options.run_id, kRelaxed);
  layout->rank.store(options.rank, kRelaxed);
  layout->ranks.store(options.ranks, kRelaxed);
  layout->slots_per_iteration.store(0, kRelaxed);
  layout->memory_claim_bytes.store(0, kRelaxed);
  layout->expected_slots.store(0, kRelaxed);
  layout->edge.store(EdgeWord(self->sequence, false), kRelease);
  layout->trainer_generation.fetch_add(1, kRelease);
  pillion::FutexWakeAll(&layout->edge);
}

bool ReadyForStream(pillion_board* self) {
  if (self->cuda_edge != 0) return true;
  if (self->cuda_refused) return false;
  auto address = pillion::trainer::CudaRegister(self->layout, sizeof(Layout));
  if (!address.ok()) {
    last_error = address.status().message();
    self->cuda_refused = true;
    return false;
  }
  self->cuda_edge = *address + offsetof(Layout, edge);
  return true;
}

void WriteEdge(pillion_board* self, void* stream, bool open) {
  if (self->cuda) {
    if (!pillion::trainer::CudaStreamWrite(stream, self->cuda_edge, EdgeWord(self->sequence, open))) {
      self->cuda_refused = true;
    }
    return;
  }
  self->layout->edge.store(EdgeWord(self->sequence, open), kRelease);
  if (open) pillion::FutexWakeAll(&self->layout->edge);
}

}  // namespace

extern "C" {

pillion_board* pillion_board_open(const pillion_board_options* options) {
  if (options == nullptr || options->struct_size < sizeof(pillion_board_options) || options->device == nullptr) {
    last_error = "pillion_board_open needs options that begin with PILLION_BOARD_OPTIONS_INIT and name a device";
    return nullptr;
  }
  auto self = std::make_unique<pillion_board>();
  auto name = BoardName(options->device, &self->cuda);
  pillion::Status status = name.status();
  if (status.ok()) {
    auto board = Board::Open(*name, Board::Access::kReadWrite);
    status = board.ok() ? (*board)->TryLock(pillion::board::kLockTrainer) : board.status();
    if (status.ok()) self->board = std::move(*board);
  }
  if (!status.ok()) {
    last_error = status.message();
    return nullptr;
  }
  self->layout = self->board->layout();
  Attach(self.get(), *options);
  return self.release();
}

const char* pillion_board_error(void) { return last_error.c_str(); }

void pillion_board_close(pillion_board* self) {
  if (self == nullptr) return;
  if (self->cuda_edge != 0) pillion::trainer::CudaUnregister(self->layout);
  self->layout->edge.store(EdgeWord(self->sequence, false), kRelease);
  pillion::FutexWakeAll(&self->layout->edge);
  delete self;
}

void pillion_iteration(pillion_board* self, void* /*stream*/, uint32_t slots) {
  if (self == nullptr) return;
  Layout* layout = self->layout;
  uint64_t iteration = self->next_iteration++;
  self->next_slot = 0;
  layout->slots_per_iteration.store(slots, kRelaxed);
  auto& entry = layout->iterations[iteration % pillion::board::kIterationRing];
  entry.iteration.store(pillion::board::kNoIteration, kRelaxed);
  // On CUDA the host runs ahead of the stream, so its clock says nothing about the device.
  entry.start_ns.store(self->cuda ? 0 : pillion::MonotonicNowNs(), kRelease);
  entry.iteration.store(iteration, kRelease);
  layout->iteration.store(iteration, kRelease);
}

void pillion_bubble_begin(pillion_board* self, void* stream) {
  if (self == nullptr || (self->cuda && !ReadyForStream(self))) return;
  if (self->open) pillion_bubble_end(self, stream);
  self->sequence = pillion::board::NextSequence(self->sequence);
  auto& entry = self->layout->ring[self->sequence % pillion::limits::kBoardRing];
  // Invalid while it is rewritten: each store is ordered after the one before.
  entry.sequence.store(0, kRelaxed);
  entry.slot.store(self->next_slot++, kRelease);
  entry.iteration.store(self->next_iteration - 1, kRelease);
  entry.close_ns.store(0, kRelease);
  entry.open_ns.store(self->cuda ? 0 : pillion::MonotonicNowNs(), kRelease);
  entry.sequence.store(self->sequence, kRelease);
  self->open = true;
  WriteEdge(self, stream, true);
}

void pillion_bubble_end(pillion_board* self, void* stream) {
  if (self == nullptr || !self->open) return;
  self->open = false;
  if (!self->cuda) {
    auto& entry = self->layout->ring[self->sequence % pillion::limits::kBoardRing];
    entry.close_ns.store(pillion::MonotonicNowNs(), kRelease);
  }
  WriteEdge(self, stream, false);
}

void pillion_expect(pillion_board* self, const uint32_t* lengths_us, uint32_t slots) {
  if (self == nullptr || lengths_us == nullptr || slots > pillion::limits::kSlotsPerIteration) return;
  for (uint32_t slot = 0; slot < slots; ++slot) self->layout->expected_us[slot].store(lengths_us[slot], kRelaxed);
  self->layout->expected_slots.store(slots, kRelaxed);
  self->layout->expected_generation.fetch_add(1, kRelease);
}

void pillion_claim_memory(pillion_board* self, uint64_t bytes) {
  if (self != nullptr) self->layout->memory_claim_bytes.store(bytes, kRelaxed);
}

int pillion_iteration_is_quiet(const pillion_board* self) {
  if (self == nullptr || self->next_iteration == 0) return 0;
  const Layout* layout = self->layout;
  return pillion::board::IsQuiet(layout->run_id.load(kRelaxed), self->next_iteration - 1,
                                 layout->quiet_one_in.load(kRelaxed))
             ? 1
             : 0;
}

uint32_t pillion_trainer_abi_version(void) { return PILLION_TRAINER_ABI_VERSION; }

}  // extern "C"
