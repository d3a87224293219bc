// Every limit of Pillion, by name. A module that needs another adds it here, with its relation to the others.
#ifndef PILLION_BASE_LIMITS_H_
#define PILLION_BASE_LIMITS_H_

#include <cstdint>

namespace pillion::limits {

// Wire.
inline constexpr uint64_t kMessageBytes = 1 << 20;          // one frame on a control socket
inline constexpr uint32_t kFramesPerMessage = 4;
inline constexpr uint32_t kWireNesting = 16;
inline constexpr uint32_t kTextBytes = 4096;                // names, paths, one error text
inline constexpr uint32_t kArgumentBytes = 64 << 10;        // arguments of one task
inline constexpr uint32_t kListItems = 16384;               // elements of one list in a message
inline constexpr uint32_t kTasksPerChunk = 4096;            // of one submit message

// Transport.
inline constexpr uint32_t kServerConnections = 32768;       // open connections of one server socket
inline constexpr uint64_t kUnreadBytesPerPeer = 64 << 20;   // received from one peer and not yet read by us
inline constexpr uint64_t kUnreadBytesLeast = 4 << 20;      // what each peer may have, however many there are
inline constexpr uint64_t kUnreadBytesTotal = 1 << 30;
inline constexpr uint32_t kQueuedMessagesPerPeer = 4096;    // in each direction
inline constexpr uint32_t kHostileMessagesPerPeer = 16;     // after which its connection is closed
inline constexpr uint32_t kReservedDescriptors = 40;        // not for connections: store, files, sockets' own
inline constexpr int32_t kHandshakeMs = 5'000;
inline constexpr uint64_t kKeyFileBytes = 1 << 20;

// Head.
inline constexpr uint32_t kTasksPerJob = 4'000'000;
inline constexpr uint32_t kDependenciesPerTask = 1024;
inline constexpr uint32_t kOpenJobs = 100'000;
inline constexpr uint64_t kQueuedTasks = 8'000'000;
inline constexpr uint32_t kInlineResultBytes = 64 << 10;    // larger results are files
inline constexpr uint32_t kInlineCheckpointBytes = 64 << 10;  // larger checkpoints are files
inline constexpr uint32_t kWatchersPerClient = 64;
inline constexpr uint32_t kWorkers = 16384;
inline constexpr uint64_t kMessagesPerTurn = 1024;          // of the loop: one synced batch
inline constexpr uint64_t kBytesPerTurn = 16 << 20;
inline constexpr int64_t kHeartbeatMs = 2'000;
inline constexpr int64_t kWorkerLostMs = 15'000;            // silence after which a worker's leases are requeued
inline constexpr int64_t kReattachGraceMs = 60'000;         // a restarted head waits so long for a lease's worker
inline constexpr uint32_t kQuarantineWorkerLosses = 3;      // different workers killed by one task
inline constexpr uint32_t kInvoluntaryEnds = 16;            // of each: out of memory, hosts killed from outside
inline constexpr uint64_t kQueuedPayloadBytes = uint64_t{8} << 30;  // specs and results that the head holds
inline constexpr uint32_t kSpecPageBytes = 32 << 10;        // about so much in one stored page of task specs
inline constexpr uint32_t kTaskClasses = 65'536;            // different demands among the tasks held
inline constexpr int64_t kAbandonedSubmissionMs = 600'000;  // without its next chunk
inline constexpr uint32_t kGrantsPerTurn = 4096;            // then the head looks at its messages again
inline constexpr uint32_t kGrantsPerPull = 4096;            // what one worker may ask for at once

// Worker.
inline constexpr uint32_t kSlotsPerIteration = 1024;
inline constexpr uint32_t kBoardRing = 256;
inline constexpr uint32_t kResidentsPerDevice = 16;
inline constexpr int64_t kStopGraceUs = 2'000;              // overrun after which a host is stopped
inline constexpr int64_t kHostStartMs = 60'000;             // Init and load of one task
inline constexpr uint64_t kLogLineBytes = 4096;
inline constexpr uint32_t kMetricsPerTask = 64;             // names that one task may report
inline constexpr uint64_t kHostMessageBytes = 128 << 10;    // one SOCK_SEQPACKET message to or from a host

// Files.
inline constexpr uint64_t kStoreReserveBytes = 80 << 20;     // ≥ RocksDB log (64 MiB) + write buffer (16 MiB)
inline constexpr uint64_t kCheckpointFileBytes = uint64_t{1} << 40;
inline constexpr uint32_t kCheckpointsKept = 2;
inline constexpr uint64_t kConfigBytes = 1 << 20;

// Planner.
inline constexpr int32_t kPlanDevices = 4096;
inline constexpr int32_t kPlanStages = 65'536;
inline constexpr int32_t kPlanMicrobatches = 65'536;
inline constexpr int64_t kPlanActions = 16'000'000;
inline constexpr int32_t kModelLayers = 65'536;
inline constexpr int64_t kLayerTicks = int64_t{1} << 36;    // one operation of one layer
inline constexpr uint64_t kPlanFileBytes = 512 << 20;       // schedule tables, plans, profiles

static_assert(kInlineCheckpointBytes + kArgumentBytes + kTextBytes < kMessageBytes);
static_assert(kUnreadBytesLeast > 2 * kMessageBytes && kWorkers < kServerConnections);
static_assert(kInlineResultBytes + kTextBytes < kHostMessageBytes);
static_assert(kHeartbeatMs * 3 < kWorkerLostMs && kWorkerLostMs < kReattachGraceMs);

}  // namespace pillion::limits

#endif  // PILLION_BASE_LIMITS_H_
