// pillion-metronome: the trainer stand-in as a program. Prints one JSON line when it starts to iterate, one per
// iteration, and one at the end. Ends by itself after --iterations or --seconds, or cleanly on SIGTERM and SIGINT.
#include <sched.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include "examples/metronome/metronome.h"

namespace {

volatile std::sig_atomic_t leave = 0;
void OnSignal(int) { leave = 1; }

bool Pin(const std::string& device) {
  int core = device.rfind("cpu", 0) == 0 ? std::atoi(device.c_str() + 3) : -1;
  if (core < 0) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  return sched_setaffinity(0, sizeof set, &set) == 0;
}

struct Arguments {
  pillion::metronome::Options metronome;
  std::string device = "cpu0";
  uint64_t run_id = 1;
  int rank = 0, ranks = 1;
  uint64_t iterations = 0;
  double seconds = 0;
  int64_t warm_up_ms = 1000;
  bool no_board = false;
};

void AddOptions(CLI::App* app, Arguments* arguments) {
  app->add_option("--device", arguments->device, "cpuN: the core to run on, and the board")->capture_default_str();
  app->add_option("--busy-ms", arguments->metronome.busy_ms, "compute before each bubble")
      ->check(CLI::NonNegativeNumber)->capture_default_str();
  app->add_option("--bubbles", arguments->metronome.bubbles, "bubbles per iteration")
      ->check(CLI::Range(0, 1024))->capture_default_str();
  app->add_option("--bubble-ms", arguments->metronome.bubble_ms, "length of a bubble")
      ->check(CLI::NonNegativeNumber)->capture_default_str();
  app->add_option("--jitter", arguments->metronome.jitter, "standard deviation of bubbles, as a share of their length")
      ->check(CLI::Range(0.0, 1.0))->capture_default_str();
  app->add_option("--drift", arguments->metronome.drift, "growth of bubbles per iteration, as a share")
      ->check(CLI::Range(-0.5, 0.5))->capture_default_str();
  app->add_option("--seed", arguments->metronome.seed, "of the jitter")->capture_default_str();
  app->add_option("--run-id", arguments->run_id, "the same on all ranks of a run")->capture_default_str();
  app->add_option("--rank", arguments->rank, "of this stage")->capture_default_str();
  app->add_option("--ranks", arguments->ranks, "stages of the run")->capture_default_str();
  app->add_option("--iterations", arguments->iterations, "end after so many (0: no limit)")->capture_default_str();
  app->add_option("--seconds", arguments->seconds, "end after so long (0: no limit)")->capture_default_str();
  app->add_option("--warm-up-ms", arguments->warm_up_ms, "before the busy loop is calibrated")->capture_default_str();
  app->add_flag("--no-board", arguments->no_board, "run without marking bubbles");
  app->footer("Example: pillion-metronome --device cpu1 --busy-ms 20 --bubble-ms 20 --jitter 0.02 --seconds 30");
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("A stand-in for a pipeline-parallel trainer: computes, waits in bubbles, marks them on the board");
  Arguments arguments;
  AddOptions(&app, &arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (!Pin(arguments.device)) {
    std::fprintf(stderr, "pillion-metronome: there is no core for device %s\n", arguments.device.c_str());
    return 2;
  }
  std::signal(SIGTERM, OnSignal);
  std::signal(SIGINT, OnSignal);
  double loops_per_ms = pillion::metronome::LoopsPerMs(arguments.warm_up_ms);
  pillion_board* board = nullptr;
  if (!arguments.no_board) {
    pillion_board_options options = PILLION_BOARD_OPTIONS_INIT;
    options.device = arguments.device.c_str();
    options.run_id = arguments.run_id;
    options.rank = arguments.rank;
    options.ranks = arguments.ranks;
    board = pillion_board_open(&options);
    if (board == nullptr) std::fprintf(stderr, "pillion-metronome: without a board: %s\n", pillion_board_error());
  }
  // Written in bubbles only, about once a second: a trainer's own output is not what is measured here.
  static char buffer[1 << 20];
  std::setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  std::printf("{\"metronome\":\"started\",\"device\":\"%s\",\"board\":%s,\"loops_per_ms\":%.1f}\n",
              arguments.device.c_str(), board != nullptr ? "true" : "false", loops_per_ms);
  std::fflush(stdout);
  pillion::metronome::Metronome metronome(arguments.metronome, loops_per_ms, board);
  auto start = std::chrono::steady_clock::now();
  double flushed_s = 0;
  auto flush = [&](int64_t, int64_t) {
    if (double now_s = SecondsSince(start); now_s - flushed_s > 1) {
      std::fflush(stdout);
      flushed_s = now_s;
    }
  };
  uint64_t done = 0;
  while (leave == 0 && (arguments.iterations == 0 || done < arguments.iterations) &&
         (arguments.seconds == 0 || SecondsSince(start) < arguments.seconds)) {
    pillion::metronome::Iteration iteration = metronome.Next(flush);
    ++done;
    std::printf("{\"iteration\":%llu,\"start_ns\":%lld,\"duration_ms\":%.4f,\"quiet\":%s}\n",
                static_cast<unsigned long long>(iteration.index), static_cast<long long>(iteration.start_ns),
                static_cast<double>(iteration.end_ns - iteration.start_ns) / 1e6, iteration.quiet ? "true" : "false");
  }
  std::printf("{\"metronome\":\"ended\",\"iterations\":%llu,\"seconds\":%.3f}\n", static_cast<unsigned long long>(done),
              SecondsSince(start));
  std::fflush(stdout);
  pillion_board_close(board);
  return 0;
}
