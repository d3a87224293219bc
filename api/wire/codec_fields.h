// The fields of every message struct, for codec.cc: F(struct, kind, member, name in pillion.capnp, limit).
//   PLAIN number or bool    ENUM last value instead of a limit    TEXT, DATA limit of the bytes
//   CUT text that is cut at its limit when sent    LIST limit of the elements    STRUCT    ID job or worker id
//   TASK task id
#ifndef PILLION_API_WIRE_CODEC_FIELDS_H_
#define PILLION_API_WIRE_CODEC_FIELDS_H_

#define PILLION_WIRE_Dependency(F)     \
  F(Dependency, PLAIN, index, Index, ) \
  F(Dependency, PLAIN, argument, Argument, )

#define PILLION_WIRE_TaskOptions(F)                            \
  F(TaskOptions, PLAIN, priority, Priority, )                  \
  F(TaskOptions, PLAIN, memory_bytes, MemoryBytes, )           \
  F(TaskOptions, PLAIN, device_kind, DeviceKind, )             \
  F(TaskOptions, PLAIN, minimum_bubble_us, MinimumBubbleUs, )  \
  F(TaskOptions, PLAIN, app_retries, AppRetries, )             \
  F(TaskOptions, PLAIN, deadline_ms, DeadlineMs, )             \
  F(TaskOptions, PLAIN, wait_for_device, WaitForDevice, )

#define PILLION_WIRE_TaskSpec(F)                                              \
  F(TaskSpec, PLAIN, index, Index, )                                          \
  F(TaskSpec, TEXT, name, Name, kTextBytes)                                   \
  F(TaskSpec, ENUM, kind, Kind, TaskKind::kCommand)                           \
  F(TaskSpec, TEXT, program, Program, kTextBytes)                             \
  F(TaskSpec, TEXT, library, Library, kTextBytes)                             \
  F(TaskSpec, DATA, arguments, Arguments, kArgumentBytes)                     \
  F(TaskSpec, LIST, dependencies, Dependencies, kDependenciesPerTask)         \
  F(TaskSpec, PLAIN, max_steps, MaxSteps, )                                   \
  F(TaskSpec, STRUCT, options, Options, )

#define PILLION_WIRE_JobOptions(F)               \
  F(JobOptions, TEXT, name, Name, kTextBytes)    \
  F(JobOptions, TEXT, owner, Owner, kTextBytes)  \
  F(JobOptions, PLAIN, priority, Priority, )

#define PILLION_WIRE_TaskInfo(F)                               \
  F(TaskInfo, TASK, task, Task, )                              \
  F(TaskInfo, TEXT, name, Name, kTextBytes)                    \
  F(TaskInfo, TEXT, program, Program, kTextBytes)              \
  F(TaskInfo, ENUM, kind, Kind, TaskKind::kCommand)            \
  F(TaskInfo, ENUM, state, State, TaskState::kSkipped)         \
  F(TaskInfo, ENUM, host_state, HostState, HostState::kStopped) \
  F(TaskInfo, PLAIN, epoch, Epoch, )                           \
  F(TaskInfo, PLAIN, step, Step, )                             \
  F(TaskInfo, PLAIN, committed_step, CommittedStep, )          \
  F(TaskInfo, PLAIN, items_done, ItemsDone, )                  \
  F(TaskInfo, PLAIN, items_total, ItemsTotal, )                \
  F(TaskInfo, TEXT, worker, Worker, kTextBytes)                \
  F(TaskInfo, CUT, error, Error, kTextBytes)                   \
  F(TaskInfo, PLAIN, app_failures, AppFailures, )              \
  F(TaskInfo, PLAIN, worker_losses, WorkerLosses, )            \
  F(TaskInfo, PLAIN, out_of_memory, OutOfMemory, )             \
  F(TaskInfo, PLAIN, preemptions, Preemptions, )               \
  F(TaskInfo, PLAIN, planned_moves, PlannedMoves, )            \
  F(TaskInfo, DATA, result, Result, kInlineResultBytes)        \
  F(TaskInfo, TEXT, result_file, ResultFile, kTextBytes)

#define PILLION_WIRE_JobInfo(F)                         \
  F(JobInfo, ID, job, Job, )                            \
  F(JobInfo, TEXT, name, Name, kTextBytes)              \
  F(JobInfo, TEXT, owner, Owner, kTextBytes)            \
  F(JobInfo, PLAIN, tasks, Tasks, )                     \
  F(JobInfo, PLAIN, waiting, Waiting, )                 \
  F(JobInfo, PLAIN, queued, Queued, )                   \
  F(JobInfo, PLAIN, leased, Leased, )                   \
  F(JobInfo, PLAIN, succeeded, Succeeded, )             \
  F(JobInfo, PLAIN, failed, Failed, )                   \
  F(JobInfo, PLAIN, cancelled, Cancelled, )             \
  F(JobInfo, PLAIN, skipped, Skipped, )                 \
  F(JobInfo, PLAIN, version, Version, )                 \
  F(JobInfo, PLAIN, submitted_wall_ns, SubmittedWallNs, )

#define PILLION_WIRE_SlotForecast(F)       \
  F(SlotForecast, PLAIN, p10_us, P10Us, )  \
  F(SlotForecast, PLAIN, p50_us, P50Us, )  \
  F(SlotForecast, PLAIN, p90_us, P90Us, )

#define PILLION_WIRE_Capacity(F)                                \
  F(Capacity, PLAIN, iteration_period_us, IterationPeriodUs, )  \
  F(Capacity, LIST, slots, Slots, kSlotsPerIteration)           \
  F(Capacity, PLAIN, free_memory_bytes, FreeMemoryBytes, )      \
  F(Capacity, PLAIN, guard_us, GuardUs, )                       \
  F(Capacity, PLAIN, trainer_attached, TrainerAttached, )

#define PILLION_WIRE_DeviceInfo(F)                        \
  F(DeviceInfo, ENUM, kind, Kind, DeviceKind::kSimulated) \
  F(DeviceInfo, PLAIN, index, Index, )                    \
  F(DeviceInfo, TEXT, name, Name, kTextBytes)             \
  F(DeviceInfo, TEXT, uuid, Uuid, kTextBytes)             \
  F(DeviceInfo, PLAIN, memory_bytes, MemoryBytes, )

#define PILLION_WIRE_WorkerInfo(F)                                  \
  F(WorkerInfo, ID, worker, Worker, )                               \
  F(WorkerInfo, TEXT, name, Name, kTextBytes)                       \
  F(WorkerInfo, STRUCT, device, Device, )                           \
  F(WorkerInfo, STRUCT, capacity, Capacity, )                       \
  F(WorkerInfo, PLAIN, connected, Connected, )                      \
  F(WorkerInfo, PLAIN, draining, Draining, )                        \
  F(WorkerInfo, LIST, leases, Leases, kListItems)                   \
  F(WorkerInfo, PLAIN, bubble_share, BubbleShare, )                 \
  F(WorkerInfo, PLAIN, harvest_share, HarvestShare, )               \
  F(WorkerInfo, PLAIN, eligible_harvest_share, EligibleHarvestShare, ) \
  F(WorkerInfo, PLAIN, slowdown_mean, SlowdownMean, )               \
  F(WorkerInfo, PLAIN, slowdown_low, SlowdownLow, )                 \
  F(WorkerInfo, PLAIN, slowdown_high, SlowdownHigh, )               \
  F(WorkerInfo, PLAIN, iterations, Iterations, )

#define PILLION_WIRE_CheckpointRef(F)                            \
  F(CheckpointRef, PLAIN, epoch, Epoch, )                        \
  F(CheckpointRef, PLAIN, step, Step, )                          \
  F(CheckpointRef, PLAIN, length_bytes, LengthBytes, )           \
  F(CheckpointRef, PLAIN, checksum, Checksum, )                  \
  F(CheckpointRef, DATA, bytes, Bytes, kInlineCheckpointBytes)   \
  F(CheckpointRef, TEXT, path, Path, kTextBytes)

#define PILLION_WIRE_Hello(F)                                       \
  F(Hello, ENUM, role, Role, Role::kOperator)                       \
  F(Hello, TEXT, software_version, SoftwareVersion, kTextBytes)     \
  F(Hello, TEXT, name, Name, kTextBytes)

#define PILLION_WIRE_Welcome(F)                                     \
  F(Welcome, PLAIN, incarnation, Incarnation, )                     \
  F(Welcome, TEXT, software_version, SoftwareVersion, kTextBytes)   \
  F(Welcome, PLAIN, heartbeat_ms, HeartbeatMs, )                    \
  F(Welcome, LIST, drop, Drop, kListItems)

#define PILLION_WIRE_SubmitChunk(F)                   \
  F(SubmitChunk, ID, job, Job, )                      \
  F(SubmitChunk, PLAIN, chunk, Chunk, )               \
  F(SubmitChunk, PLAIN, last, Last, )                 \
  F(SubmitChunk, STRUCT, options, Options, )          \
  F(SubmitChunk, LIST, tasks, Tasks, kTasksPerChunk)

#define PILLION_WIRE_SubmitReply(F) F(SubmitReply, ID, job, Job, )

#define PILLION_WIRE_WaitJob(F)                      \
  F(WaitJob, ID, job, Job, )                         \
  F(WaitJob, PLAIN, known_version, KnownVersion, )   \
  F(WaitJob, PLAIN, timeout_ms, TimeoutMs, )

#define PILLION_WIRE_JobReply(F) F(JobReply, STRUCT, job, Job, )
#define PILLION_WIRE_GetTask(F) F(GetTask, TASK, task, Task, )
#define PILLION_WIRE_TaskReply(F) F(TaskReply, STRUCT, task, Task, )

#define PILLION_WIRE_CancelTasks(F) \
  F(CancelTasks, ID, job, Job, )    \
  F(CancelTasks, LIST, indices, Indices, kListItems)

#define PILLION_WIRE_CountReply(F) F(CountReply, PLAIN, count, Count, )

#define PILLION_WIRE_ListJobs(F)      \
  F(ListJobs, PLAIN, limit, Limit, )  \
  F(ListJobs, TEXT, owner, Owner, kTextBytes)

#define PILLION_WIRE_JobsReply(F) F(JobsReply, LIST, jobs, Jobs, kListItems)

#define PILLION_WIRE_ListTasks(F)                 \
  F(ListTasks, ID, job, Job, )                    \
  F(ListTasks, PLAIN, first_index, FirstIndex, )  \
  F(ListTasks, PLAIN, limit, Limit, )

#define PILLION_WIRE_TasksReply(F) F(TasksReply, LIST, tasks, Tasks, kListItems)
#define PILLION_WIRE_ListWorkers(F)
#define PILLION_WIRE_WorkersReply(F) F(WorkersReply, LIST, workers, Workers, kListItems)
#define PILLION_WIRE_GetStatus(F)

#define PILLION_WIRE_StatusReply(F)                                   \
  F(StatusReply, PLAIN, incarnation, Incarnation, )                   \
  F(StatusReply, TEXT, software_version, SoftwareVersion, kTextBytes) \
  F(StatusReply, PLAIN, uptime_s, UptimeS, )                          \
  F(StatusReply, PLAIN, jobs, Jobs, )                                 \
  F(StatusReply, PLAIN, waiting, Waiting, )                           \
  F(StatusReply, PLAIN, queued, Queued, )                             \
  F(StatusReply, PLAIN, leased, Leased, )                             \
  F(StatusReply, PLAIN, succeeded, Succeeded, )                       \
  F(StatusReply, PLAIN, failed, Failed, )                             \
  F(StatusReply, PLAIN, cancelled, Cancelled, )                       \
  F(StatusReply, PLAIN, skipped, Skipped, )                           \
  F(StatusReply, PLAIN, workers_connected, WorkersConnected, )        \
  F(StatusReply, PLAIN, workers_known, WorkersKnown, )                \
  F(StatusReply, CUT, store_error, StoreError, kTextBytes)            \
  F(StatusReply, PLAIN, store_write_ms_p50, StoreWriteMsP50, )        \
  F(StatusReply, PLAIN, store_write_ms_p99, StoreWriteMsP99, )        \
  F(StatusReply, PLAIN, store_bytes, StoreBytes, )                    \
  F(StatusReply, PLAIN, hostile_messages, HostileMessages, )

#define PILLION_WIRE_ExplainTask(F) F(ExplainTask, TASK, task, Task, )

#define PILLION_WIRE_ExplainLine(F)                    \
  F(ExplainLine, TEXT, worker, Worker, kTextBytes)     \
  F(ExplainLine, PLAIN, eligible, Eligible, )          \
  F(ExplainLine, PLAIN, steps_per_s, StepsPerS, )      \
  F(ExplainLine, CUT, reason, Reason, kTextBytes)

#define PILLION_WIRE_ExplainReply(F)                            \
  F(ExplainReply, ENUM, state, State, TaskState::kSkipped)      \
  F(ExplainReply, CUT, summary, Summary, kTextBytes)            \
  F(ExplainReply, LIST, workers, Workers, kListItems)

#define PILLION_WIRE_MigrateTask(F)    \
  F(MigrateTask, TASK, task, Task, )   \
  F(MigrateTask, TEXT, to_worker, ToWorker, kTextBytes)

#define PILLION_WIRE_DrainWorker(F)                 \
  F(DrainWorker, TEXT, worker, Worker, kTextBytes)  \
  F(DrainWorker, PLAIN, drain, Drain, )

#define PILLION_WIRE_ErrorReply(F) F(ErrorReply, STRUCT, status, Status, )

#define PILLION_WIRE_HeldLease(F)        \
  F(HeldLease, TASK, task, Task, )       \
  F(HeldLease, PLAIN, epoch, Epoch, )    \
  F(HeldLease, PLAIN, step, Step, )      \
  F(HeldLease, ENUM, state, State, HostState::kStopped)

#define PILLION_WIRE_WorkerHello(F)                                     \
  F(WorkerHello, ID, worker, Worker, )                                  \
  F(WorkerHello, TEXT, name, Name, kTextBytes)                          \
  F(WorkerHello, TEXT, software_version, SoftwareVersion, kTextBytes)   \
  F(WorkerHello, STRUCT, device, Device, )                              \
  F(WorkerHello, PLAIN, pid, Pid, )                                     \
  F(WorkerHello, LIST, programs, Programs, kListItems)                  \
  F(WorkerHello, LIST, held, Held, kListItems)

#define PILLION_WIRE_Heartbeat(F) F(Heartbeat, STRUCT, info, Info, )

#define PILLION_WIRE_Announce(F)                   \
  F(Announce, TEXT, device, Device, kTextBytes)    \
  F(Announce, STRUCT, capacity, Capacity, )

#define PILLION_WIRE_Pull(F)               \
  F(Pull, PLAIN, held, Held, )             \
  F(Pull, PLAIN, want, Want, )             \
  F(Pull, PLAIN, call_slots, CallSlots, )  \
  F(Pull, PLAIN, free_memory_bytes, FreeMemoryBytes, )

#define PILLION_WIRE_Grant(F)                                      \
  F(Grant, TASK, task, Task, )                                     \
  F(Grant, STRUCT, spec, Spec, )                                   \
  F(Grant, PLAIN, epoch, Epoch, )                                  \
  F(Grant, STRUCT, checkpoint, Checkpoint, )                       \
  F(Grant, STRUCT, previous_checkpoint, PreviousCheckpoint, )      \
  F(Grant, LIST, inputs, Inputs, kDependenciesPerTask)             \
  F(Grant, LIST, input_files, InputFiles, kDependenciesPerTask)

#define PILLION_WIRE_Grants(F) F(Grants, LIST, grants, Grants, kListItems)

#define PILLION_WIRE_Progress(F)                                \
  F(Progress, TASK, task, Task, )                               \
  F(Progress, PLAIN, epoch, Epoch, )                            \
  F(Progress, PLAIN, step, Step, )                              \
  F(Progress, PLAIN, items_done, ItemsDone, )                   \
  F(Progress, PLAIN, items_total, ItemsTotal, )                 \
  F(Progress, ENUM, state, State, HostState::kStopped)          \
  F(Progress, PLAIN, step_time_p50_us, StepTimeP50Us, )         \
  F(Progress, PLAIN, step_time_p99_us, StepTimeP99Us, )         \
  F(Progress, PLAIN, peak_memory_bytes, PeakMemoryBytes, )      \
  F(Progress, LIST, metrics, Metrics, kListItems)

#define PILLION_WIRE_Commit(F)                     \
  F(Commit, TASK, task, Task, )                    \
  F(Commit, STRUCT, checkpoint, Checkpoint, )      \
  F(Commit, PLAIN, items_done, ItemsDone, )        \
  F(Commit, PLAIN, items_total, ItemsTotal, )

#define PILLION_WIRE_Finish(F)                                \
  F(Finish, TASK, task, Task, )                               \
  F(Finish, PLAIN, epoch, Epoch, )                            \
  F(Finish, PLAIN, step, Step, )                              \
  F(Finish, STRUCT, outcome, Outcome, )                       \
  F(Finish, ENUM, cause, Cause, ReleaseCause::kHostLost)      \
  F(Finish, DATA, result, Result, kInlineResultBytes)         \
  F(Finish, TEXT, result_file, ResultFile, kTextBytes)

#define PILLION_WIRE_FinishBatch(F) F(FinishBatch, LIST, finishes, Finishes, kListItems)

#define PILLION_WIRE_Release(F)                               \
  F(Release, TASK, task, Task, )                              \
  F(Release, PLAIN, epoch, Epoch, )                           \
  F(Release, ENUM, cause, Cause, ReleaseCause::kHostLost)     \
  F(Release, CUT, detail, Detail, kTextBytes)

#define PILLION_WIRE_Verdict(F)        \
  F(Verdict, TASK, task, Task, )       \
  F(Verdict, PLAIN, epoch, Epoch, )    \
  F(Verdict, PLAIN, step, Step, )      \
  F(Verdict, STRUCT, status, Status, )

#define PILLION_WIRE_VerdictBatch(F) F(VerdictBatch, LIST, verdicts, Verdicts, kListItems)

#define PILLION_WIRE_Revoke(F)                                \
  F(Revoke, TASK, task, Task, )                               \
  F(Revoke, PLAIN, epoch, Epoch, )                            \
  F(Revoke, ENUM, cause, Cause, ReleaseCause::kHostLost)      \
  F(Revoke, PLAIN, discard, Discard, )

#define PILLION_WIRE_Drain(F) F(Drain, PLAIN, drain, Drain, )

#define PILLION_WIRE_TaskLog(F)        \
  F(TaskLog, TASK, task, Task, )       \
  F(TaskLog, PLAIN, epoch, Epoch, )    \
  F(TaskLog, LIST, lines, Lines, kListItems)

#define PILLION_WIRE_NestedSubmit(F)       \
  F(NestedSubmit, TASK, parent, Parent, )  \
  F(NestedSubmit, PLAIN, epoch, Epoch, )   \
  F(NestedSubmit, PLAIN, batch, Batch, )   \
  F(NestedSubmit, LIST, tasks, Tasks, kTasksPerChunk)

#define PILLION_WIRE_NestedReply(F) F(NestedReply, PLAIN, first_index, FirstIndex, )

// The alternatives of Body, and their enumerators in pillion.capnp.
#define PILLION_WIRE_BODIES(B)                                                                              \
  B(Hello, HELLO) B(Welcome, WELCOME) B(SubmitChunk, SUBMIT_CHUNK) B(SubmitReply, SUBMIT_REPLY)             \
  B(WaitJob, WAIT_JOB) B(JobReply, JOB_REPLY) B(GetTask, GET_TASK) B(TaskReply, TASK_REPLY)                 \
  B(CancelTasks, CANCEL_TASKS) B(CountReply, COUNT_REPLY) B(ListJobs, LIST_JOBS) B(JobsReply, JOBS_REPLY)   \
  B(ListTasks, LIST_TASKS) B(TasksReply, TASKS_REPLY) B(ListWorkers, LIST_WORKERS)                          \
  B(WorkersReply, WORKERS_REPLY) B(GetStatus, GET_STATUS) B(StatusReply, STATUS_REPLY)                      \
  B(ExplainTask, EXPLAIN_TASK) B(ExplainReply, EXPLAIN_REPLY) B(MigrateTask, MIGRATE_TASK)                  \
  B(DrainWorker, DRAIN_WORKER) B(ErrorReply, ERROR_REPLY) B(WorkerHello, WORKER_HELLO)                      \
  B(Heartbeat, HEARTBEAT) B(Announce, ANNOUNCE) B(Pull, PULL) B(Grants, GRANTS) B(Progress, PROGRESS)       \
  B(Commit, COMMIT) B(Finish, FINISH) B(FinishBatch, FINISH_BATCH) B(Release, RELEASE) B(Verdict, VERDICT)  \
  B(VerdictBatch, VERDICT_BATCH) B(Revoke, REVOKE) B(Drain, DRAIN) B(TaskLog, TASK_LOG)                     \
  B(NestedSubmit, NESTED_SUBMIT) B(NestedReply, NESTED_REPLY)

// Every struct that has a list of fields above: the bodies, and what they contain.
#define PILLION_WIRE_STRUCTS(S)                                                                             \
  S(Dependency) S(TaskOptions) S(TaskSpec) S(JobOptions) S(TaskInfo) S(JobInfo) S(SlotForecast) S(Capacity) \
  S(DeviceInfo) S(WorkerInfo) S(CheckpointRef) S(ExplainLine) S(HeldLease) S(Grant)                         \
  S(Hello) S(Welcome) S(SubmitChunk) S(SubmitReply) S(WaitJob) S(JobReply) S(GetTask) S(TaskReply)          \
  S(CancelTasks) S(CountReply) S(ListJobs) S(JobsReply) S(ListTasks) S(TasksReply) S(ListWorkers)           \
  S(WorkersReply) S(GetStatus) S(StatusReply) S(ExplainTask) S(ExplainReply) S(MigrateTask) S(DrainWorker)  \
  S(ErrorReply) S(WorkerHello) S(Heartbeat) S(Announce) S(Pull) S(Grants) S(Progress) S(Commit) S(Finish)   \
  S(FinishBatch) S(Release) S(Verdict) S(VerdictBatch) S(Revoke) S(Drain) S(TaskLog) S(NestedSubmit)        \
  S(NestedReply)

#endif  // PILLION_API_WIRE_CODEC_FIELDS_H_
