// Two experiments that decide how side tasks start and live on a GPU beside a trainer (ARCHITECTURE.md, "What the
// GPU experiments showed"). A trainer process computes for about 20 ms (250 µs kernels), opens a bubble with a
// stream-written edge word, parks its stream on a stream memory operation for 20 ms, and closes the bubble.
//   1  Start of the first step: a side process that spins on the edge word, against a first step enqueued behind
//      cuStreamWaitValue32 for exactly that sequence (armed); what a missed armed wait does; disarming.
//   2  Once a second beside the running trainer, from other processes: context creation, cudaMalloc and cudaFree,
//      module load, SIGKILL of an endless kernel, nothing. Does the driver's lock disturb the trainer's p99?
// usage: driver_probe [seconds per condition, default 12]; prints one JSON object. Needs one GPU and no MPS.
#include <cuda.h>
#include <cuda_runtime.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define CUDA_OK(call)                                                                               \
  do {                                                                                              \
    cudaError_t error_ = (call);                                                                    \
    if (error_ != cudaSuccess) {                                                                    \
      std::fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_)); \
      _exit(1);                                                                                     \
    }                                                                                               \
  } while (0)
#define DRIVER_OK(call)                                                               \
  do {                                                                                \
    CUresult error_ = (call);                                                         \
    if (error_ != CUDA_SUCCESS) {                                                     \
      std::fprintf(stderr, "%s:%d %s: error %d\n", __FILE__, __LINE__, #call, error_); \
      _exit(1);                                                                       \
    }                                                                                 \
  } while (0)

namespace {

constexpr int kMaxSamples = 4096;
constexpr int kKernelsPerPhase = 80;
constexpr int64_t kBubbleNs = 20'000'000;

struct Shared {
  alignas(128) std::atomic<uint32_t> edge;     // sequence · 2 + open, written by the trainer's stream
  alignas(128) std::atomic<uint32_t> release;  // the trainer's host ends the bubble of this sequence
  alignas(128) std::atomic<uint32_t> stop;     // the trainer ends
  std::atomic<uint32_t> trainer_ready, side_stop;
  std::atomic<int64_t> open_seen_ns[kMaxSamples];
  std::atomic<int> iterations;
  float compute_ms[kMaxSamples];
  int samples;
  float first_step_us[kMaxSamples];
  int first_steps, steps, late_starts;
  float solo_step_us;
};

int64_t NowNs() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

__global__ void Spin(int64_t nanoseconds) {
  uint64_t start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < static_cast<uint64_t>(nanoseconds));
}

__global__ void Work(int rounds, float* sink) {  // work, not time: it takes longer when it shares the GPU
  float x = threadIdx.x;
  for (int i = 0; i < rounds; ++i) x = x * 1.0001f + 0.5f;
  if (x == 12345.678f) *sink = x;
}

__global__ void Endless(volatile int* never) {
  while (*never == 0) {
  }
}

struct Rounds {
  int blocks, rounds;
};
Rounds Calibrate(float target_us, cudaStream_t stream, float* sink) {
  cudaDeviceProp properties;
  CUDA_OK(cudaGetDeviceProperties(&properties, 0));
  Rounds made{properties.multiProcessorCount * 8, 20000};
  cudaEvent_t begin, end;
  CUDA_OK(cudaEventCreate(&begin));
  CUDA_OK(cudaEventCreate(&end));
  for (int pass = 0; pass < 6; ++pass) {
    for (int warm = 0; warm < 200; ++warm) Work<<<made.blocks, 256, 0, stream>>>(made.rounds, sink);
    CUDA_OK(cudaEventRecord(begin, stream));
    for (int i = 0; i < 20; ++i) Work<<<made.blocks, 256, 0, stream>>>(made.rounds, sink);
    CUDA_OK(cudaEventRecord(end, stream));
    CUDA_OK(cudaEventSynchronize(end));
    float ms = 0;
    CUDA_OK(cudaEventElapsedTime(&ms, begin, end));
    made.rounds = std::max(1, static_cast<int>(made.rounds * target_us / (ms * 50.0f)));
  }
  return made;
}

CUdeviceptr Map(void* word) {
  void* pointer = nullptr;
  CUDA_OK(cudaHostGetDevicePointer(&pointer, word, 0));
  return reinterpret_cast<CUdeviceptr>(pointer);
}

void Trainer(Shared* shared) {
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaHostRegister(shared, sizeof *shared, cudaHostRegisterMapped));
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  float* sink;
  CUDA_OK(cudaMalloc(&sink, 4));
  Rounds work = Calibrate(250, stream, sink);
  cudaEvent_t begin[2], end[2];
  for (int i = 0; i < 2; ++i) {
    CUDA_OK(cudaEventCreate(&begin[i]));
    CUDA_OK(cudaEventCreate(&end[i]));
  }
  std::thread releaser([&] {  // ends every bubble 20 ms after its edge
    uint32_t last = 0;
    while (shared->stop.load() == 0) {
      uint32_t edge = shared->edge.load(std::memory_order_acquire);
      if ((edge & 1) == 0 || edge >> 1 == last) continue;
      int64_t open = NowNs();
      last = edge >> 1;
      shared->open_seen_ns[last % kMaxSamples].store(open);
      while (NowNs() - open < kBubbleNs) {
      }
      shared->release.store(last, std::memory_order_release);
    }
  });
  shared->trainer_ready.store(1);
  uint32_t sequence = 0;
  auto enqueue = [&](int slot) {
    ++sequence;
    CUDA_OK(cudaEventRecord(begin[slot], stream));
    for (int i = 0; i < kKernelsPerPhase; ++i) Work<<<work.blocks, 256, 0, stream>>>(work.rounds, sink);
    CUDA_OK(cudaEventRecord(end[slot], stream));
    DRIVER_OK(cuStreamWriteValue32(stream, Map(&shared->edge), sequence << 1 | 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    DRIVER_OK(cuStreamWaitValue32(stream, Map(&shared->release), sequence, CU_STREAM_WAIT_VALUE_GEQ));
    DRIVER_OK(cuStreamWriteValue32(stream, Map(&shared->edge), sequence << 1, CU_STREAM_WRITE_VALUE_DEFAULT));
  };
  enqueue(0);
  for (int i = 1; shared->stop.load() == 0; ++i) {
    enqueue(i % 2);  // one iteration ahead of the device
    CUDA_OK(cudaEventSynchronize(end[(i + 1) % 2]));
    float ms = 0;
    CUDA_OK(cudaEventElapsedTime(&ms, begin[(i + 1) % 2], end[(i + 1) % 2]));
    if (shared->samples < kMaxSamples) shared->compute_ms[shared->samples++] = ms;
    shared->iterations.store(i);
  }
  shared->stop.store(2);
  releaser.join();
  shared->release.store(UINT32_MAX / 4);
  CUDA_OK(cudaStreamSynchronize(stream));
  _exit(0);
}

// armed: the first step waits on the device. Both go on with host-checked steps until 1.5 steps before the end.
void Side(Shared* shared, bool armed) {
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaHostRegister(shared, sizeof *shared, cudaHostRegisterMapped));
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  constexpr int64_t kStepNs = 500'000;
  auto edge = [&] { return shared->edge.load(std::memory_order_acquire); };
  auto step = [&] { Spin<<<132, 64, 0, stream>>>(kStepNs); };
  uint32_t sequence = edge() >> 1;
  while (shared->side_stop.load() == 0) {
    uint32_t target = sequence + 1;
    if (armed) {
      DRIVER_OK(cuStreamWaitValue32(stream, Map(&shared->edge), target << 1 | 1, CU_STREAM_WAIT_VALUE_EQ));
      step();
    }
    while (edge() >> 1 < target && shared->side_stop.load() == 0) {
    }
    if (shared->side_stop.load() != 0) break;
    int64_t open = NowNs();
    if (!armed) step();
    CUDA_OK(cudaStreamSynchronize(stream));
    if (shared->first_steps < kMaxSamples) shared->first_step_us[shared->first_steps++] = (NowNs() - open) / 1000.0f;
    ++shared->steps;
    while (edge() == (target << 1 | 1) && NowNs() - open < kBubbleNs - kStepNs * 3 / 2) {
      step();
      CUDA_OK(cudaStreamSynchronize(stream));
      ++shared->steps;
    }
    sequence = target;
  }
  _exit(0);
}

const char kPtx[] = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry probe() { ret; }\n";

// One offence a second, each from a process of its own that began before (all but "context").
void Disturb(Shared* shared, const std::string& kind) {
  if (kind == "context" || kind == "kill") {
    while (shared->side_stop.load() == 0) {
      pid_t child = fork();
      if (child == 0) {
        CUDA_OK(cudaFree(nullptr));
        if (kind == "kill") {
          int* never;
          CUDA_OK(cudaMalloc(&never, 4));
          CUDA_OK(cudaMemset(never, 0, 4));
          CUDA_OK(cudaDeviceSynchronize());
          Endless<<<132, 64>>>(never);
          timespec five{0, 5'000'000};
          nanosleep(&five, nullptr);
          kill(getpid(), SIGKILL);
        }
        _exit(0);
      }
      waitpid(child, nullptr, 0);
      timespec rest{0, 500'000'000};
      nanosleep(&rest, nullptr);
    }
    _exit(0);
  }
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaFree(nullptr));
  while (shared->side_stop.load() == 0) {
    if (kind == "malloc") {
      void* memory;
      CUDA_OK(cudaMalloc(&memory, size_t{1} << 30));
      CUDA_OK(cudaFree(memory));
    } else if (kind == "module") {
      CUmodule module;
      DRIVER_OK(cuModuleLoadData(&module, kPtx));
      DRIVER_OK(cuModuleUnload(module));
    }
    timespec rest{0, 1'000'000'000 - 1};
    nanosleep(&rest, nullptr);
  }
  _exit(0);
}

float Quantile(std::vector<float> values, double q) {
  if (values.empty()) return -1;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(q * values.size()))];
}

void Report(const char* condition, const Shared& shared, bool first) {
  std::vector<float> compute(shared.compute_ms + std::min(10, shared.samples), shared.compute_ms + shared.samples);
  std::vector<float> starts(shared.first_step_us + std::min(5, shared.first_steps), shared.first_step_us + shared.first_steps);
  float median = Quantile(compute, 0.5);
  int disturbed = 0;
  for (float ms : compute) disturbed += ms > 1.05f * median;
  std::printf("%s\n {\"condition\":\"%s\",\"iterations\":%zu,\"compute_ms\":{\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"max\":%.3f},"
              "\"over_5_percent\":%d,\"edge_to_first_step_end_us\":{\"p50\":%.1f,\"p95\":%.1f},\"steps\":%d}",
              first ? "" : ",", condition, compute.size(), median, Quantile(compute, 0.9), Quantile(compute, 0.99),
              Quantile(compute, 1.0), disturbed, Quantile(starts, 0.5), Quantile(starts, 0.95), shared.steps);
  std::fflush(stdout);
}

void RunCondition(const char* condition, int seconds, bool first) {
  auto* shared = static_cast<Shared*>(
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pid_t trainer = fork();
  if (trainer == 0) Trainer(shared);
  while (shared->trainer_ready.load() == 0 || shared->iterations.load() < 5) {
    if (waitpid(trainer, nullptr, WNOHANG) != 0) std::exit(1);
  }
  std::string kind = condition;
  pid_t other = -1;
  if (kind != "alone") {
    other = fork();
    if (other == 0) {
      if (kind == "spinning" || kind == "armed") Side(shared, kind == "armed");
      Disturb(shared, kind);
    }
  }
  int64_t until = NowNs() + int64_t{seconds} * 1'000'000'000;
  while (NowNs() < until && shared->samples < kMaxSamples) usleep(10'000);
  shared->side_stop.store(1);
  usleep(200'000);
  if (other > 0) {
    kill(other, SIGKILL);  // an armed wait that no edge will satisfy must not outlive the condition
    waitpid(other, nullptr, 0);
  }
  shared->stop.store(1);
  waitpid(trainer, nullptr, 0);
  Report(condition, *shared, first);
  munmap(shared, sizeof(Shared));
}

}  // namespace

int main(int argc, char** argv) {
  int seconds = argc > 1 ? std::atoi(argv[1]) : 12;
  std::printf("{\"schema\":1,\"conditions\":[");
  const char* conditions[] = {"alone", "spinning", "armed", "context", "malloc", "module", "kill", "alone"};
  for (size_t i = 0; i < std::size(conditions); ++i) RunCondition(conditions[i], seconds, i == 0);
  std::printf("\n]}\n");
  return 0;
}
