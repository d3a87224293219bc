// The worker's figures and timeline as files.
#ifndef PILLION_WORKER_REPORT_H_
#define PILLION_WORKER_REPORT_H_

#include <string>
#include <vector>

#include "api/wire/messages.h"
#include "worker/turns/figures.h"

namespace pillion::worker {

// {"schema":1, "device", "iterations", …}: all of DeviceFigures; atomically replaced.
Status WriteReport(const std::string& path, const std::string& device, const turns::DeviceFigures& figures);
// Chrome trace: lanes trainer, bubbles, and one per task.
Status WriteTimeline(const std::string& path, const std::string& device,
                     const std::vector<turns::TimelineEvent>& events);
// The live figures that a heartbeat carries.
void FillFigures(const turns::DeviceFigures& figures, wire::WorkerInfo* info);

}  // namespace pillion::worker

#endif  // PILLION_WORKER_REPORT_H_
