// Graphs from files and from the command line.
#ifndef PILLION_CLI_GRAPH_FILE_H_
#define PILLION_CLI_GRAPH_FILE_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "pillion/graph.h"

namespace pillion::cli {

// The format stands at the top of graph_file.cc. Errors name the file, the task and the key.
Result<Graph> ReadGraphFile(const std::string& path);
// The same from its text; `name` is used in messages.
Result<Graph> ParseGraph(const std::string& name, const std::string& text);

// {"a=1", "b=x"} → {"a":1,"b":"x"}. A value that reads as a JSON number, true, false or "text" is that, else a text.
Result<std::string> ArgumentsFromPairs(const std::vector<std::string>& pairs);

}  // namespace pillion::cli

#endif  // PILLION_CLI_GRAPH_FILE_H_
