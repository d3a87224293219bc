// The few CUDA driver calls of the trainer library, found at run time, so that it loads on machines without a GPU.
#ifndef PILLION_TRAINER_CUDA_H_
#define PILLION_TRAINER_CUDA_H_

#include <cstdint>
#include <string>

#include "base/status.h"

namespace pillion::trainer {

// The UUID that names the board of CUDA device `ordinal`, as the driver counts them: "GPU-…".
Result<std::string> CudaUuid(int ordinal);

// Makes [page, page + bytes) known to the current context; kFailedPrecondition when there is none. Returns the
// address under which streams reach `page`.
Result<uint64_t> CudaRegister(void* page, size_t bytes);
void CudaUnregister(void* page);

// Enqueues the write of one word behind what the stream has been given so far. False when the driver refused.
bool CudaStreamWrite(void* stream, uint64_t address, uint32_t value);

}  // namespace pillion::trainer

#endif  // PILLION_TRAINER_CUDA_H_
