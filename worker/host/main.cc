// pillion-host: the process in which side tasks run. Started by pillion-worker only, except for --list-programs.
#include <getopt.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/cpu.h"
#include "base/log.h"
#include "worker/host/calls_host.h"
#include "worker/host/programs.h"
#include "worker/host/steps_host.h"

namespace pillion::worker {
namespace {

constexpr int kExitOk = 0;
constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;

constexpr char kUsage[] =
    "usage: pillion-host --list-programs [--json]\n"
    "       pillion-host --socket-fd N --control-fd N --doorbell-fd N --board UUID --device NAME --mode steps|calls\n"
    "The second form is for pillion-worker, whose descriptors it inherits.\n";

struct Options {
  bool list_programs = false, json = false;
  int socket_fd = -1, control_fd = -1, doorbell_fd = -1;
  std::string board, device, mode;
};

bool ParseDescriptor(const char* text, int* fd) {
  auto [end, error] = std::from_chars(text, text + std::strlen(text), *fd);
  return error == std::errc() && *end == 0 && *fd >= 0;
}

std::optional<Options> ParseOptions(int argc, char** argv) {
  enum { kList = 1, kJson, kSocket, kControl, kDoorbell, kBoard, kDevice, kMode, kHelp };
  static const option kLong[] = {{"list-programs", no_argument, nullptr, kList},
                                 {"json", no_argument, nullptr, kJson},
                                 {"socket-fd", required_argument, nullptr, kSocket},
                                 {"control-fd", required_argument, nullptr, kControl},
                                 {"doorbell-fd", required_argument, nullptr, kDoorbell},
                                 {"board", required_argument, nullptr, kBoard},
                                 {"device", required_argument, nullptr, kDevice},
                                 {"mode", required_argument, nullptr, kMode},
                                 {nullptr, 0, nullptr, 0}};
  Options options;
  while (true) {
    int which = getopt_long(argc, argv, "", kLong, nullptr);
    bool good = true;
    switch (which) {
      case -1: {
        bool serves = options.socket_fd >= 0 && options.control_fd >= 0 && options.doorbell_fd >= 0 &&
                      !options.device.empty() && (options.mode == "steps" || options.mode == "calls");
        if (optind == argc && (options.list_programs || serves)) return options;
        return std::nullopt;
      }
      case kList: options.list_programs = true; break;
      case kJson: options.json = true; break;
      case kSocket: good = ParseDescriptor(optarg, &options.socket_fd); break;
      case kControl: good = ParseDescriptor(optarg, &options.control_fd); break;
      case kDoorbell: good = ParseDescriptor(optarg, &options.doorbell_fd); break;
      case kBoard: options.board = optarg; break;
      case kDevice: options.device = optarg; break;
      case kMode: options.mode = optarg; break;
      default: return std::nullopt;
    }
    if (!good) return std::nullopt;
  }
}

void PrintPrograms(bool json) {
  nlohmann::json programs = nlohmann::json::array();
  for (const ListedProgram& program : ListPrograms()) {
    if (json) {
      programs.push_back(
          {{"name", program.name}, {"kind", program.kind}, {"devices", program.devices}, {"help", program.help}});
    } else {
      std::printf("%-28s %-6s %s\n", program.name.c_str(), program.kind.c_str(), program.devices.c_str());
    }
  }
  if (json) std::cout << nlohmann::json{{"schema", 1}, {"programs", programs}}.dump() << "\n";
}

Result<int> Serve(const Options& options) {
  PILLION_ASSIGN_OR_RETURN(auto control, host::ControlPage::Open(FileDescriptor(options.control_fd)));
  PILLION_ASSIGN_OR_RETURN(auto doorbell, host::DoorbellPage::Open(FileDescriptor(options.doorbell_fd)));
  PILLION_ASSIGN_OR_RETURN(DeviceInfo device, FindDevice(options.device));
  std::unique_ptr<board::Board> board;
  if (!options.board.empty()) {
    PILLION_ASSIGN_OR_RETURN(board, board::Board::Open(options.board, board::Board::Access::kReadOnly));
  }
  const board::Layout* layout = board ? board->layout() : nullptr;
  // Everything before the first turn shares the trainer's core, so it runs there and only when the core is idle.
  if (device.kind == DeviceKind::kCpu) PILLION_RETURN_IF_ERROR(PinThisThread(device.index));
  (void)SetSchedulingClass(SchedulingClass::kIdle);
  HostSocket socket(options.socket_fd);
  if (options.mode == "calls") return CallsHost(&socket, &**control, &**doorbell, layout).Run();
  return StepsHost(&socket, &**control, &**doorbell, layout).Run();
}

int Main(int argc, char** argv) {
  log::Configure("pillion-host", log::Level::kInfo, log::Format::kText);
  auto options = ParseOptions(argc, argv);
  if (!options) {
    std::fputs(kUsage, stderr);
    return kExitUsage;
  }
  if (options->list_programs) {
    PrintPrograms(options->json);
    return kExitOk;
  }
  auto code = Serve(*options);
  if (!code.ok()) {
    log::Error("host failed", {{"error", code.status().ToString()}});
    return kExitFailed;
  }
  return *code;
}

}  // namespace
}  // namespace pillion::worker

int main(int argc, char** argv) { return pillion::worker::Main(argc, argv); }
