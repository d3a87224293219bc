// Any text as an edge list or package list: an error, or a graph whose parts agree with each other.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sidetasks/graph.h"

namespace {
void Check(const pillion::Result<pillion::sidetasks::Graph>& graph) {
  if (!graph.ok()) return;
  if (graph->vertices() == 0 || graph->first_source.size() != graph->vertices() + size_t{1}) std::abort();
  if (graph->first_source.back() != graph->sources.size()) std::abort();
  for (uint32_t source : graph->sources) {
    if (source >= graph->vertices() || graph->out_degree[source] == 0) std::abort();
  }
  (void)graph->Name(graph->vertices() - 1);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check(pillion::sidetasks::ParseEdgeList(text, "fuzz"));
  Check(pillion::sidetasks::ParsePackages(text, "fuzz"));
  return 0;
}
