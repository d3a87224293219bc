// Directed graphs for the graph programs: Debian's package dependencies, or an edge list.
#ifndef PILLION_SIDETASKS_GRAPH_H_
#define PILLION_SIDETASKS_GRAPH_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace pillion::sidetasks {

struct Graph {
  std::vector<std::string> names;  // of packages, sorted; empty for edge lists
  std::vector<int64_t> ids;        // of edge lists, sorted; empty for packages
  std::vector<uint64_t>
      first_source;  // vertex v's incoming edges: sources[first_source[v] … first_source[v + 1])
  std::vector<uint32_t> sources;  // sorted within a vertex
  std::vector<uint32_t> out_degree;

  uint32_t vertices() const { return static_cast<uint32_t>(out_degree.size()); }
  std::string Name(uint32_t vertex) const;
  // Of the structure: the same input gives the same number on every machine.
  uint64_t Fingerprint() const;
};

// "dpkg": the packages installed here; "apt": all packages that apt knows here; anything else: the
// path of an edge list, one "from to" per line in whole numbers ≥ 0, '#' or '%' begins a comment,
// gzip or plain. Repeated edges count once. kInvalidArgument names file, line and what is wrong, or
// says that the graph is empty.
Result<Graph> LoadGraph(const std::string& source);

// The parsers on text, for tests and fuzzing. `name` is for messages.
Result<Graph> ParsePackages(std::string_view control_file, const std::string& name);
Result<Graph> ParseEdgeList(std::string_view text, const std::string& name);

// Edges between vertices 0 … vertices - 1, in any order.
Graph BuildGraph(uint32_t vertices, std::vector<std::pair<uint32_t, uint32_t>> edges);

}  // namespace pillion::sidetasks

#endif  // PILLION_SIDETASKS_GRAPH_H_
