// keygen, version, completion, and the verbs that are programs of their own.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "api/wire/keys.h"
#include "base/file.h"
#include "cli/commands.h"

namespace pillion::cli {

namespace {

struct KeygenOptions {
  std::string role;
  std::string name;
  std::string out;
  std::string public_key;
};

// Makes a key pair for another machine or user, and lets it in.
int RunKeygen(const Context& context, const KeygenOptions& options) {
  auto role = wire::ParseRole(options.role);
  if (!role.ok()) return FailUsage(context, role.status());
  const std::string directory =
      context.runtime_directory.empty() ? DefaultRuntimeDirectory() : context.runtime_directory;
  if (!FileExists(directory + "/allowed.keys")) {
    return FailUsage(context, NotFound("no file " + directory + "/allowed.keys: start pillion-head once, it makes it"));
  }
  wire::KeyPair pair;
  if (options.public_key.empty()) {
    if (options.out.empty()) return FailUsage(context, InvalidArgument("--out FILE or --public KEY is needed"));
    if (FileExists(options.out)) return FailUsage(context, AlreadyExists(options.out + " exists; it is not overwritten"));
    auto made = wire::GenerateKeyPair();
    if (!made.ok()) return Fail(context, made.status(), true);
    pair = *made;
    Status written = wire::WriteKeyFile(options.out, pair);
    if (!written.ok()) return Fail(context, written, true);
  } else {
    pair.public_key = options.public_key;
  }
  Status allowed = wire::AddAllowedKey(directory, {*role, options.name, pair.public_key});
  if (!allowed.ok()) return Fail(context, allowed, true);
  if (context.json) {
    PrintJson({{"schema", 1}, {"role", options.role}, {"name", options.name}, {"public_key", pair.public_key},
               {"file", options.out}});
  } else {
    std::printf("%s\n", pair.public_key.c_str());
    std::fprintf(stderr, "pillion: allowed as %s '%s' from the head's next start on\n", options.role.c_str(),
                 options.name.c_str());
  }
  return kDone;
}

int RunVersion(const Context& context) {
  if (context.json) {
    PrintJson({{"schema", 1}, {"version", PILLION_VERSION}, {"wire_schema", wire::kSchemaVersion}});
  } else {
    std::printf("pillion %s (wire schema %u)\n", PILLION_VERSION, wire::kSchemaVersion);
  }
  return kDone;
}

// Completes verbs, and what `list` takes.
int RunCompletion(const CLI::App& app) {
  std::string verbs;
  for (const CLI::App* command : app.get_subcommands({})) verbs += command->get_name() + " ";
  std::printf(
      "_pillion() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
      "  case $before in\n"
      "    pillion) COMPREPLY=($(compgen -W '%s' -- \"$word\"));;\n"
      "    list) COMPREPLY=($(compgen -W 'jobs tasks workers bubbles' -- \"$word\"));;\n"
      "    *) COMPREPLY=($(compgen -W '--json --timeout --runtime-dir --key --help' -- \"$word\") $(compgen -f -- \"$word\"));;\n"
      "  esac\n"
      "}\n"
      "complete -F _pillion pillion\n",
      verbs.c_str());
  return kDone;
}

}  // namespace

void AddLocalCommands(CLI::App* app, const Context* context, Run* run) {
  auto options = std::make_shared<KeygenOptions>();
  CLI::App* keygen = app->add_subcommand("keygen", "make a key for another machine or user and allow it");
  keygen->add_option("role", options->role, "client, worker or operator")
      ->required()
      ->check(CLI::IsMember({"client", "worker", "operator"}));
  keygen->add_option("name", options->name, "shows up as the owner of its jobs")->required();
  keygen->add_option("--out", options->out, "file for the new pair (mode 0600); hand it to its user");
  keygen->add_option("--public", options->public_key, "allow this public key instead of making one");
  keygen->footer("Examples:\n  pillion keygen worker node7 --out node7.key\n  pillion keygen client ada --public KEY");
  keygen->callback([=] { *run = [=] { return RunKeygen(*context, *options); }; });

  CLI::App* version = app->add_subcommand("version", "print the version");
  version->footer("Examples:\n  pillion version --json");
  version->callback([=] { *run = [=] { return RunVersion(*context); }; });

  CLI::App* completion = app->add_subcommand("completion", "print a completion script for bash");
  completion->footer("Examples:\n  source <(pillion completion)");
  completion->callback([=] { *run = [=] { return RunCompletion(*app); }; });
}

const std::vector<ForeignVerb>& ForeignVerbs() {
  static const std::vector<ForeignVerb> verbs = {
      {"demo", "pillion-demo", false, "the main job on real components (pillion-demo)"},
      {"bench", "pillion-bench", false, "measure (pillion-bench)"},
      {"test-program", "pillion-test-program", false, "try a side-task program outside of a cluster"},
      {"tune", "pillion-plan", true, "search a pipeline plan (pillion-plan)"},
      {"simulate", "pillion-plan", true, "simulate a pipeline plan (pillion-plan)"},
      {"check", "pillion-plan", true, "check that a pipeline plan completes (pillion-plan)"},
  };
  return verbs;
}

int ExecForeign(const ForeignVerb& verb, int argc, char** argv) {
  char own[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
  std::string program = verb.program;
  if (length > 0) {
    own[length] = 0;
    const std::string directory = std::string(own).substr(0, std::string(own).rfind('/') + 1);
    program = directory + verb.program;
  }
  std::vector<char*> arguments = {program.data()};
  for (int i = verb.pass_verb ? 1 : 2; i < argc; ++i) arguments.push_back(argv[i]);
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  Context context;
  for (int i = 1; i < argc; ++i) context.json = context.json || std::string(argv[i]) == "--json";
  return FailUsage(context, ErrnoStatus("run " + program));
}

}  // namespace pillion::cli
