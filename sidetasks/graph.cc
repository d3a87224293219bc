#include "sidetasks/graph.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <unordered_map>

#include "base/checksum.h"
#include "base/file.h"

namespace pillion::sidetasks {
namespace {

constexpr const char* kDpkgStatus = "/var/lib/dpkg/status";
constexpr const char* kAptLists = "/var/lib/apt/lists";
constexpr const char* kAptHelper =
    "/usr/lib/apt/apt-helper";                       // unpacks whatever apt packs its lists with
constexpr uint64_t kGraphBytes = uint64_t{4} << 30;  // of text
constexpr uint32_t kVertices = 1u << 30;

std::string_view Trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// Cuts the first part off `rest`, up to `separator` or the end.
std::string_view NextPart(std::string_view* rest, char separator) {
  size_t end = rest->find(separator);
  std::string_view part = rest->substr(0, end);
  *rest = end == std::string_view::npos ? std::string_view() : rest->substr(end + 1);
  return part;
}

// "libc6 (>= 2.34) [amd64]", "python3:any" → the bare name.
std::string_view PackageName(std::string_view relation) {
  relation = Trim(relation);
  return relation.substr(0, relation.find_first_of(" \t:(["));
}

struct Package {
  std::string_view name;
  std::string_view depends, pre_depends, provides;
  bool installed = true;  // lists without Status fields say nothing against it
};

// Stanzas of "Field: value" lines, separated by empty lines; lines that begin with a blank continue
// a field and are not needed here.
std::vector<Package> ParseStanzas(std::string_view text) {
  std::vector<Package> packages;
  Package package;
  auto end_stanza = [&] {
    if (!package.name.empty() && package.installed) packages.push_back(package);
    package = Package();
  };
  while (!text.empty()) {
    std::string_view line = NextPart(&text, '\n');
    if (Trim(line).empty()) {
      end_stanza();
      continue;
    }
    if (line[0] == ' ' || line[0] == '\t') continue;
    std::string_view value = line;
    std::string_view field = NextPart(&value, ':');
    value = Trim(value);
    if (field == "Package") package.name = value;
    if (field == "Depends") package.depends = value;
    if (field == "Pre-Depends") package.pre_depends = value;
    if (field == "Provides") package.provides = value;
    if (field == "Status")
      package.installed = value.size() > 10 && value.substr(value.size() - 10) == " installed";
  }
  end_stanza();
  return packages;
}

using Index = std::unordered_map<std::string_view, uint32_t>;

// "a | b, c": for each comma the first alternative that there is.
void AddDependencies(std::string_view relations, uint32_t from, const Index& index,
                     std::vector<std::pair<uint32_t, uint32_t>>* edges) {
  while (!relations.empty()) {
    std::string_view alternatives = NextPart(&relations, ',');
    while (!alternatives.empty()) {
      auto found = index.find(PackageName(NextPart(&alternatives, '|')));
      if (found == index.end()) continue;
      if (found->second != from) edges->emplace_back(from, found->second);
      break;
    }
  }
}

struct PipeCloser {
  void operator()(FILE* pipe) const { pclose(pipe); }
};

Result<std::string> ReadAptList(const std::string& path) {
  std::string command = std::string(kAptHelper) + " cat-file '" + path + "' 2>/dev/null";
  std::unique_ptr<FILE, PipeCloser> pipe(popen(command.c_str(), "re"));
  if (pipe == nullptr) return ErrnoStatus("run " + command);
  std::string text;
  char buffer[1 << 16];
  for (size_t got; (got = fread(buffer, 1, sizeof buffer, pipe.get())) > 0;)
    text.append(buffer, got);
  if (pclose(pipe.release()) != 0) return IoError("'" + command + "' failed: is apt installed?");
  return text;
}

Result<std::string> ReadAptLists() {
  PILLION_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(kAptLists));
  std::string all;
  for (const std::string& name : names) {
    if (name.find("_Packages") == std::string::npos || name.find('\'') != std::string::npos)
      continue;
    PILLION_ASSIGN_OR_RETURN(std::string text, ReadAptList(std::string(kAptLists) + "/" + name));
    all += text + "\n\n";
  }
  return all;
}

struct GzCloser {
  void operator()(gzFile file) const { gzclose(file); }
};

// Reads gzip and plain files alike.
Result<std::string> ReadPackedFile(const std::string& path) {
  errno = 0;
  std::unique_ptr<gzFile_s, GzCloser> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return errno == ENOENT ? NotFound("no file " + path) : ErrnoStatus("open " + path);
  }
  std::string text;
  char buffer[1 << 16];
  while (true) {
    int got = gzread(file.get(), buffer, sizeof buffer);
    if (got < 0) {
      int code = 0;
      return Corruption("read " + path + ": " + gzerror(file.get(), &code));
    }
    if (got == 0) break;
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kGraphBytes)
      return ResourceExhausted(path + " holds more than 4 GiB of text");
  }
  int code = Z_OK;
  gzerror(file.get(), &code);
  if (code != Z_OK && code != Z_STREAM_END)
    return Corruption("read " + path + ": the file is cut off");
  return text;
}

Status LineError(const std::string& name, size_t number, std::string_view line, const char* what) {
  return InvalidArgument(name + ":" + std::to_string(number) + ": '" +
                         std::string(line.substr(0, 80)) + "' " + what);
}

bool TakeInteger(std::string_view* text, int64_t* value) {
  *text = Trim(*text);
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return text->empty() || (*text)[0] == ' ' || (*text)[0] == '\t' || (*text)[0] == ',';
}

}  // namespace

std::string Graph::Name(uint32_t vertex) const {
  if (!names.empty()) return names[vertex];
  return ids.empty() ? std::to_string(vertex) : std::to_string(ids[vertex]);
}

uint64_t Graph::Fingerprint() const {
  const uint64_t parts[3] = {
      Checksum64(first_source.data(), first_source.size() * sizeof(uint64_t)),
      Checksum64(sources.data(), sources.size() * sizeof(uint32_t)),
      Checksum64(out_degree.data(), out_degree.size() * sizeof(uint32_t))};
  return Checksum64(parts, sizeof parts);
}

Graph BuildGraph(uint32_t vertices, std::vector<std::pair<uint32_t, uint32_t>> edges) {
  for (auto& [from, to] : edges) std::swap(from, to);  // by target, then source
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  Graph graph;
  graph.out_degree.resize(vertices);
  graph.first_source.resize(size_t{vertices} + 1);
  graph.sources.reserve(edges.size());
  for (const auto& [to, from] : edges) {
    ++graph.first_source[to + 1];
    ++graph.out_degree[from];
    graph.sources.push_back(from);
  }
  for (uint32_t v = 0; v < vertices; ++v) graph.first_source[v + 1] += graph.first_source[v];
  return graph;
}

Result<Graph> ParsePackages(std::string_view control_file, const std::string& name) {
  std::vector<Package> packages = ParseStanzas(control_file);
  if (packages.empty()) return InvalidArgument(name + " names no packages: the graph is empty");
  // Several versions or architectures of a package: the first one counts.
  std::stable_sort(packages.begin(), packages.end(),
                   [](const Package& a, const Package& b) { return a.name < b.name; });
  packages.erase(std::unique(packages.begin(), packages.end(),
                             [](const Package& a, const Package& b) { return a.name == b.name; }),
                 packages.end());
  Index index;
  for (uint32_t i = 0; i < packages.size(); ++i) index.emplace(packages[i].name, i);
  // Virtual packages stand for their first provider; real ones are in the index already and stay.
  for (uint32_t i = 0; i < packages.size(); ++i) {
    for (std::string_view provides = packages[i].provides; !provides.empty();) {
      index.emplace(PackageName(NextPart(&provides, ',')), i);
    }
  }
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  for (uint32_t i = 0; i < packages.size(); ++i) {
    AddDependencies(packages[i].pre_depends, i, index, &edges);
    AddDependencies(packages[i].depends, i, index, &edges);
  }
  Graph graph = BuildGraph(static_cast<uint32_t>(packages.size()), std::move(edges));
  for (const Package& package : packages) graph.names.emplace_back(package.name);
  return graph;
}

Result<Graph> ParseEdgeList(std::string_view text, const std::string& name) {
  std::vector<std::pair<int64_t, int64_t>> lines;
  for (size_t number = 1; !text.empty(); ++number) {
    std::string_view line = Trim(NextPart(&text, '\n'));
    if (line.empty() || line[0] == '#' || line[0] == '%') continue;
    std::string_view rest = line;
    int64_t from = 0, to = 0;
    if (!TakeInteger(&rest, &from))
      return LineError(name, number, line, "does not begin with a whole number");
    if (!rest.empty() && rest[0] == ',') rest.remove_prefix(1);
    if (!TakeInteger(&rest, &to))
      return LineError(name, number, line, "has no second whole number");
    if (from < 0 || to < 0) return LineError(name, number, line, "has a negative vertex");
    lines.emplace_back(from, to);
  }
  if (lines.empty()) return InvalidArgument(name + " has no edges: the graph is empty");
  Graph graph;
  std::vector<int64_t> ids;
  ids.reserve(lines.size() * 2);
  for (const auto& [from, to] : lines) {
    ids.push_back(from);
    ids.push_back(to);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (ids.size() > kVertices) return ResourceExhausted(name + " has more than 2^30 vertices");
  auto vertex = [&](int64_t id) {
    return static_cast<uint32_t>(std::lower_bound(ids.begin(), ids.end(), id) - ids.begin());
  };
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  edges.reserve(lines.size());
  for (const auto& [from, to] : lines) edges.emplace_back(vertex(from), vertex(to));
  graph = BuildGraph(static_cast<uint32_t>(ids.size()), std::move(edges));
  graph.ids = std::move(ids);
  return graph;
}

Result<Graph> LoadGraph(const std::string& source) {
  if (source == "dpkg") {
    PILLION_ASSIGN_OR_RETURN(std::string text, ReadFile(kDpkgStatus, kGraphBytes));
    return ParsePackages(text, kDpkgStatus);
  }
  if (source == "apt") {
    PILLION_ASSIGN_OR_RETURN(std::string text, ReadAptLists());
    return ParsePackages(text, kAptLists);
  }
  PILLION_ASSIGN_OR_RETURN(std::string text, ReadPackedFile(source));
  return ParseEdgeList(text, source);
}

}  // namespace pillion::sidetasks
