# The byte format of every message (api/wire/messages.h says what they mean). Fields and union members are only ever
# appended; a change that older programs would misread raises kSchemaVersion. Text is for people and names, Data for
# encoded values. Ids are two words; a task is (job, index), spread into the fields taskHigh, taskLow, taskIndex
# where it is a message's own.
@0xc5a2d47be3fd47d6;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("pillion::wire::schema");

struct TaskId { high @0 :UInt64; low @1 :UInt64; index @2 :UInt32; }

struct Failure { code @0 :UInt8; message @1 :Text; }

struct Dependency { index @0 :UInt32; argument @1 :Int32 = -1; }

struct TaskOptions {
  priority @0 :Int32;
  memoryBytes @1 :UInt64;
  deviceKind @2 :UInt8 = 255;
  minimumBubbleUs @3 :UInt32;
  appRetries @4 :UInt32 = 3;
  deadlineMs @5 :Int64;
  waitForDevice @6 :Bool;
}

struct TaskSpec {
  index @0 :UInt32;
  name @1 :Text;
  kind @2 :UInt8;
  program @3 :Text;
  library @4 :Text;
  arguments @5 :Data;
  dependencies @6 :List(Dependency);
  maxSteps @7 :UInt64;
  options @8 :TaskOptions;
}

struct JobOptions { name @0 :Text; owner @1 :Text; priority @2 :Int32; }

struct TaskInfo {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  name @3 :Text;
  program @4 :Text;
  kind @5 :UInt8;
  state @6 :UInt8;
  hostState @7 :UInt8;
  epoch @8 :UInt64;
  step @9 :UInt64;
  committedStep @10 :UInt64;
  itemsDone @11 :UInt64;
  itemsTotal @12 :UInt64;
  worker @13 :Text;
  error @14 :Text;
  appFailures @15 :UInt32;
  workerLosses @16 :UInt32;
  outOfMemory @17 :UInt32;
  preemptions @18 :UInt32;
  plannedMoves @19 :UInt32;
  result @20 :Data;
  resultFile @21 :Text;
}

struct JobInfo {
  jobHigh @0 :UInt64;
  jobLow @1 :UInt64;
  name @2 :Text;
  owner @3 :Text;
  tasks @4 :UInt64;
  waiting @5 :UInt64;
  queued @6 :UInt64;
  leased @7 :UInt64;
  succeeded @8 :UInt64;
  failed @9 :UInt64;
  cancelled @10 :UInt64;
  skipped @11 :UInt64;
  version @12 :UInt64;
  submittedWallNs @13 :Int64;
}

struct SlotForecast { p10Us @0 :UInt32; p50Us @1 :UInt32; p90Us @2 :UInt32; }

struct Capacity {
  iterationPeriodUs @0 :UInt32;
  slots @1 :List(SlotForecast);
  freeMemoryBytes @2 :UInt64;
  guardUs @3 :UInt32;
  trainerAttached @4 :Bool;
}

struct DeviceInfo {
  kind @0 :UInt8;
  index @1 :Int32;
  name @2 :Text;
  uuid @3 :Text;
  memoryBytes @4 :UInt64;
}

struct WorkerInfo {
  workerHigh @0 :UInt64;
  workerLow @1 :UInt64;
  name @2 :Text;
  device @3 :DeviceInfo;
  capacity @4 :Capacity;
  connected @5 :Bool;
  draining @6 :Bool;
  leases @7 :List(TaskId);
  bubbleShare @8 :Float64 = -1;
  harvestShare @9 :Float64 = -1;
  eligibleHarvestShare @10 :Float64 = -1;
  slowdownMean @11 :Float64 = -1;
  slowdownLow @12 :Float64 = -1;
  slowdownHigh @13 :Float64 = -1;
  iterations @14 :UInt64;
}

struct CheckpointRef {
  epoch @0 :UInt64;
  step @1 :UInt64;
  lengthBytes @2 :UInt64;
  checksum @3 :UInt64;
  bytes @4 :Data;
  path @5 :Text;
}

struct Hello { role @0 :UInt8; softwareVersion @1 :Text; name @2 :Text; }
struct Welcome {
  incarnation @0 :UInt64;
  softwareVersion @1 :Text;
  heartbeatMs @2 :Int64;
  drop @3 :List(TaskId);
}

struct SubmitChunk {
  jobHigh @0 :UInt64;
  jobLow @1 :UInt64;
  chunk @2 :UInt32;
  last @3 :Bool = true;
  options @4 :JobOptions;
  tasks @5 :List(TaskSpec);
}
struct SubmitReply { jobHigh @0 :UInt64; jobLow @1 :UInt64; }

struct WaitJob { jobHigh @0 :UInt64; jobLow @1 :UInt64; knownVersion @2 :UInt64; timeoutMs @3 :UInt32; }
struct JobReply { job @0 :JobInfo; }
struct GetTask { taskHigh @0 :UInt64; taskLow @1 :UInt64; taskIndex @2 :UInt32; }
struct TaskReply { task @0 :TaskInfo; }
struct CancelTasks { jobHigh @0 :UInt64; jobLow @1 :UInt64; indices @2 :List(UInt32); }
struct CountReply { count @0 :UInt64; }
struct ListJobs { limit @0 :UInt32 = 100; owner @1 :Text; }
struct JobsReply { jobs @0 :List(JobInfo); }
struct ListTasks { jobHigh @0 :UInt64; jobLow @1 :UInt64; firstIndex @2 :UInt32; limit @3 :UInt32 = 1000; }
struct TasksReply { tasks @0 :List(TaskInfo); }
struct ListWorkers {}
struct WorkersReply { workers @0 :List(WorkerInfo); }
struct GetStatus {}
struct StatusReply {
  incarnation @0 :UInt64;
  softwareVersion @1 :Text;
  uptimeS @2 :Float64;
  jobs @3 :UInt64;
  waiting @4 :UInt64;
  queued @5 :UInt64;
  leased @6 :UInt64;
  succeeded @7 :UInt64;
  failed @8 :UInt64;
  cancelled @9 :UInt64;
  skipped @10 :UInt64;
  workersConnected @11 :UInt32;
  workersKnown @12 :UInt32;
  storeError @13 :Text;
  storeWriteMsP50 @14 :Float64;
  storeWriteMsP99 @15 :Float64;
  storeBytes @16 :UInt64;
  hostileMessages @17 :UInt64;
}
struct ExplainTask { taskHigh @0 :UInt64; taskLow @1 :UInt64; taskIndex @2 :UInt32; }
struct ExplainLine { worker @0 :Text; eligible @1 :Bool; stepsPerS @2 :Float64; reason @3 :Text; }
struct ExplainReply { state @0 :UInt8; summary @1 :Text; workers @2 :List(ExplainLine); }
struct MigrateTask { taskHigh @0 :UInt64; taskLow @1 :UInt64; taskIndex @2 :UInt32; toWorker @3 :Text; }
struct DrainWorker { worker @0 :Text; drain @1 :Bool = true; }
struct ErrorReply { status @0 :Failure; }

struct HeldLease {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  epoch @3 :UInt64;
  step @4 :UInt64;
  state @5 :UInt8;
}
struct WorkerHello {
  workerHigh @0 :UInt64;
  workerLow @1 :UInt64;
  name @2 :Text;
  softwareVersion @3 :Text;
  device @4 :DeviceInfo;
  pid @5 :Int64;
  programs @6 :List(Text);
  held @7 :List(HeldLease);
}
struct Heartbeat { info @0 :WorkerInfo; }
struct Announce { device @0 :Text; capacity @1 :Capacity; }
struct Pull {
  held @0 :UInt32 = 0xffffffff;
  want @1 :UInt32;
  callSlots @2 :UInt32;
  freeMemoryBytes @3 :UInt64;
}
struct Grant {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  spec @3 :TaskSpec;
  epoch @4 :UInt64;
  checkpoint @5 :CheckpointRef;
  previousCheckpoint @6 :CheckpointRef;
  inputs @7 :List(Data);
  inputFiles @8 :List(Text);
}
struct Grants { grants @0 :List(Grant); }
struct Metric { name @0 :Text; value @1 :Float64; }
struct Progress {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  epoch @3 :UInt64;
  step @4 :UInt64;
  itemsDone @5 :UInt64;
  itemsTotal @6 :UInt64;
  state @7 :UInt8;
  stepTimeP50Us @8 :UInt64;
  stepTimeP99Us @9 :UInt64;
  peakMemoryBytes @10 :UInt64;
  metrics @11 :List(Metric);
}
struct Commit {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  checkpoint @3 :CheckpointRef;
  itemsDone @4 :UInt64;
  itemsTotal @5 :UInt64;
}
struct Finish {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  epoch @3 :UInt64;
  step @4 :UInt64;
  outcome @5 :Failure;
  cause @6 :UInt8;
  result @7 :Data;
  resultFile @8 :Text;
}
struct FinishBatch { finishes @0 :List(Finish); }
struct Release {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  epoch @3 :UInt64;
  cause @4 :UInt8 = 4;
  detail @5 :Text;
}
struct Verdict {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  epoch @3 :UInt64;
  step @4 :UInt64;
  status @5 :Failure;
}
struct VerdictBatch { verdicts @0 :List(Verdict); }
struct Revoke {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  epoch @3 :UInt64;
  cause @4 :UInt8 = 4;
  discard @5 :Bool;
}
struct Drain { drain @0 :Bool = true; }
struct TaskLog {
  taskHigh @0 :UInt64;
  taskLow @1 :UInt64;
  taskIndex @2 :UInt32;
  epoch @3 :UInt64;
  lines @4 :List(Text);
}
struct NestedSubmit {
  parentHigh @0 :UInt64;
  parentLow @1 :UInt64;
  parentIndex @2 :UInt32;
  epoch @3 :UInt64;
  batch @4 :UInt32;
  tasks @5 :List(TaskSpec);
}
struct NestedReply { firstIndex @0 :UInt32; }

struct Message {
  schemaVersion @0 :UInt16;
  requestId @1 :UInt64;
  union {
    hello @2 :Hello;
    welcome @3 :Welcome;
    submitChunk @4 :SubmitChunk;
    submitReply @5 :SubmitReply;
    waitJob @6 :WaitJob;
    jobReply @7 :JobReply;
    getTask @8 :GetTask;
    taskReply @9 :TaskReply;
    cancelTasks @10 :CancelTasks;
    countReply @11 :CountReply;
    listJobs @12 :ListJobs;
    jobsReply @13 :JobsReply;
    listTasks @14 :ListTasks;
    tasksReply @15 :TasksReply;
    listWorkers @16 :ListWorkers;
    workersReply @17 :WorkersReply;
    getStatus @18 :GetStatus;
    statusReply @19 :StatusReply;
    explainTask @20 :ExplainTask;
    explainReply @21 :ExplainReply;
    migrateTask @22 :MigrateTask;
    drainWorker @23 :DrainWorker;
    errorReply @24 :ErrorReply;
    workerHello @25 :WorkerHello;
    heartbeat @26 :Heartbeat;
    announce @27 :Announce;
    pull @28 :Pull;
    grants @29 :Grants;
    progress @30 :Progress;
    commit @31 :Commit;
    finish @32 :Finish;
    finishBatch @33 :FinishBatch;
    release @34 :Release;
    verdict @35 :Verdict;
    verdictBatch @36 :VerdictBatch;
    revoke @37 :Revoke;
    drain @38 :Drain;
    taskLog @39 :TaskLog;
    nestedSubmit @40 :NestedSubmit;
    nestedReply @41 :NestedReply;
  }
}
