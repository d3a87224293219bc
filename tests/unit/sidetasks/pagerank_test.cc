#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/file.h"
#include "harness.h"
#include "sidetasks/graph.h"

namespace pillion::sidetasks {
namespace {

using nlohmann::json;
using testing::RunOptions;
using testing::RunProgram;
using testing::RunReport;
using testing::TemporaryFolder;

using EdgeSet = std::set<std::pair<int, int>>;

// A graph with hubs, dangling vertices and a self-loop, as an edge list.
EdgeSet SomeEdges(uint32_t seed, int vertices, int edges) {
  std::mt19937 random(seed);
  EdgeSet set;
  for (int i = 0; i < edges; ++i) {
    int from = static_cast<int>(random() % static_cast<unsigned>(vertices));
    int to = random() % 3 == 0 ? 0 : static_cast<int>(random() % static_cast<unsigned>(vertices));
    if (from % 10 != 7) set.insert({from, to});  // every tenth has no outgoing edge
  }
  set.insert({1, 1});
  return set;
}

std::string Text(const EdgeSet& edges) {
  std::string text = "# from to\n";
  for (const auto& [from, to] : edges)
    text += std::to_string(from) + "\t" + std::to_string(to) + "\n";
  return text;
}

// The plainest way: push along every edge, no order, no cuts.
std::map<int, double> Reference(const EdgeSet& edges, int iterations, double damping) {
  std::map<int, double> rank, degree;
  for (const auto& [from, to] : edges) {
    rank[from] = rank[to] = 0;
    degree[from] += 1;
  }
  double n = static_cast<double>(rank.size());
  for (auto& [vertex, value] : rank) value = 1 / n;
  for (int i = 0; i < iterations; ++i) {
    double dangling = 0;
    std::map<int, double> next;
    for (const auto& [vertex, value] : rank) {
      if (degree.count(vertex) == 0) dangling += value;
    }
    for (const auto& [vertex, value] : rank)
      next[vertex] = (1 - damping) / n + damping * dangling / n;
    for (const auto& [from, to] : edges) next[to] += damping * rank[from] / degree[from];
    rank = next;
  }
  return rank;
}

TEST(PageRank, AgreesWithAPlainReference) {
  TemporaryFolder folder;
  for (uint32_t seed : {1u, 2u, 3u}) {
    EdgeSet edges = SomeEdges(seed, 400, 5000);
    std::string path = folder.File("edges.txt", Text(edges));
    RunReport report = RunProgram(
        "graph.pagerank", json({{"graph", path}, {"iterations", 20}, {"tolerance", 0}}).dump());
    ASSERT_TRUE(report.status.ok()) << report.status.ToString();
    json result = json::parse(report.result);
    std::map<int, double> expected = Reference(edges, 20, 0.85);
    EXPECT_EQ(result["vertices"], expected.size());
    EXPECT_EQ(result["edges"], edges.size());
    EXPECT_EQ(result["iterations"], 20);
    std::vector<std::pair<double, int>> order;
    for (const auto& [vertex, value] : expected) order.emplace_back(-value, vertex);
    std::sort(order.begin(), order.end());
    ASSERT_EQ(result["top"].size(), 10u);
    for (size_t i = 0; i < 10; ++i) {
      EXPECT_NEAR(result["top"][i]["rank"].get<double>(), -order[i].first, 1e-13) << i;
      EXPECT_NEAR(expected[std::stoi(result["top"][i]["name"].get<std::string>())], -order[i].first,
                  1e-13)
          << i;
    }
    EXPECT_EQ(report.items, report.declared_items);
  }
}

TEST(PageRank, RanksAreADistributionAndConverge) {
  TemporaryFolder folder;
  std::string path = folder.File("edges.txt", Text(SomeEdges(4, 8, 12)));
  RunReport report = RunProgram(
      "graph.pagerank", json({{"graph", path}, {"iterations", 1000}, {"tolerance", 1e-12}}).dump());
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  json result = json::parse(report.result);
  EXPECT_TRUE(result["converged"].get<bool>());
  EXPECT_LT(result["iterations"].get<int>(), 1000);
  double sum = 0;
  for (const json& entry : result["top"]) sum += entry["rank"].get<double>();
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(PageRank, CutsAtAnyStepChangeNothing) {
  TemporaryFolder folder;
  std::string path = folder.File("edges.txt", Text(SomeEdges(5, 1000, 20'000)));
  auto arguments = [&](int items) {
    return json({{"graph", path}, {"iterations", 12}, {"items_per_step", items}}).dump();
  };
  RunReport whole = RunProgram("graph.pagerank", arguments(1'000'000));
  ASSERT_TRUE(whole.status.ok()) << whole.status.ToString();
  EXPECT_EQ(whole.steps, 1u);
  for (int items : {1, 3, 7}) {
    for (uint64_t k : {1, 2, 5}) {
      RunOptions options;
      options.move_every = k;
      RunReport moved = RunProgram("graph.pagerank", arguments(items), options);
      ASSERT_TRUE(moved.status.ok()) << moved.status.ToString();
      EXPECT_GT(moved.moves, 0u);
      EXPECT_EQ(moved.result, whole.result) << items << " items per step, moved every " << k;
    }
  }
  RunOptions hurried;
  hurried.time_left_ns = 1;
  hurried.move_every = 7;
  RunReport elastic =
      RunProgram("graph.pagerank", json({{"graph", path}, {"iterations", 12}}).dump(), hurried);
  ASSERT_TRUE(elastic.status.ok()) << elastic.status.ToString();
  EXPECT_TRUE(elastic.elastic);
  EXPECT_EQ(elastic.result, whole.result);
  RunOptions stopped;
  stopped.stop_at_once = true;
  EXPECT_EQ(
      RunProgram("graph.pagerank", json({{"graph", path}, {"iterations", 12}}).dump(), stopped)
          .result,
      whole.result);
}

TEST(PageRank, OneVertexWithManyEdgesIsCutToo) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 1; i < 50'000; ++i) text += std::to_string(i) + " 0\n";
  std::string path = folder.File("star.txt", text);
  std::string arguments = json({{"graph", path}, {"iterations", 2}, {"items_per_step", 1}}).dump();
  RunReport cut = RunProgram("graph.pagerank", arguments);
  ASSERT_TRUE(cut.status.ok()) << cut.status.ToString();
  EXPECT_GT(cut.steps, 2 * 50'000 / 2048u);
  RunOptions options;
  options.move_every = 11;
  EXPECT_EQ(RunProgram("graph.pagerank", arguments, options).result, cut.result);
}

TEST(PageRank, RunsOverThePackagesOfThisMachine) {
  if (!FileExists("/var/lib/dpkg/status")) GTEST_SKIP() << "no dpkg here";
  RunReport report = RunProgram("graph.pagerank", "{}");
  ASSERT_TRUE(report.status.ok()) << report.status.ToString();
  json result = json::parse(report.result);
  EXPECT_GT(result["vertices"].get<int>(), 50);
  EXPECT_GT(result["edges"].get<int>(), 50);
  EXPECT_EQ(result["top"][0]["name"], "libc6");
}

TEST(PageRank, BadArgumentsAreNamed) {
  TemporaryFolder folder;
  std::string good = folder.File("good.txt", "1 2\n");
  struct Case {
    json arguments;
    StatusCode code;
    std::string part;
  };
  const std::vector<Case> cases = {
      {{{"graph", folder / "none.txt"}}, StatusCode::kNotFound, "none.txt"},
      {{{"graph", folder.File("empty.txt", "# nothing\n")}}, StatusCode::kInvalidArgument, "empty"},
      {{{"graph", folder.File("negative.txt", "1 2\n3 -4\n")}},
       StatusCode::kInvalidArgument,
       "negative.txt:2: '3 -4'"},
      {{{"graph", folder.File("text.txt", "1 2\n\nfoo bar\n")}},
       StatusCode::kInvalidArgument,
       "text.txt:3: 'foo bar'"},
      {{{"graph", folder.File("half.txt", "1\n")}}, StatusCode::kInvalidArgument, "half.txt:1"},
      {{{"graph", folder.File("huge.txt", "1 99999999999999999999\n")}},
       StatusCode::kInvalidArgument,
       "huge.txt:1"},
      {{{"graph", good}, {"iterations", 0}}, StatusCode::kInvalidArgument, "iterations"},
      {{{"graph", good}, {"damping", 1.0}}, StatusCode::kInvalidArgument, "damping"},
      {{{"graph", good}, {"tolerance", -1}}, StatusCode::kInvalidArgument, "tolerance"},
      {{{"graph", good}, {"iteration", 5}},
       StatusCode::kInvalidArgument,
       "did you mean 'iterations'"},
      {{{"graph", good}, {"step_us", 0}}, StatusCode::kInvalidArgument, "step_us"},
  };
  for (const Case& c : cases) {
    Status status = RunProgram("graph.pagerank", c.arguments.dump()).status;
    EXPECT_EQ(status.code(), c.code) << c.arguments << ": " << status.ToString();
    EXPECT_NE(status.message().find(c.part), std::string::npos)
        << c.arguments << ": " << status.ToString();
  }
}

TEST(PageRank, AChangedGraphAndADamagedCheckpointAreRefused) {
  TemporaryFolder folder;
  std::string path = folder.File("edges.txt", Text(SomeEdges(6, 100, 500)));
  std::string arguments = json({{"graph", path}, {"items_per_step", 1}}).dump();
  Result<std::string> state = testing::SaveAfter("graph.pagerank", arguments, 1);
  ASSERT_TRUE(state.ok());
  EXPECT_TRUE(testing::LoadFrom("graph.pagerank", arguments, *state).ok());
  EXPECT_EQ(testing::LoadFrom("graph.pagerank", arguments, state->substr(0, 60)).code(),
            StatusCode::kCorruption);
  EXPECT_EQ(testing::LoadFrom("graph.pagerank", arguments, "").code(), StatusCode::kCorruption);
  folder.File("edges.txt", Text(SomeEdges(7, 100, 500)));
  EXPECT_EQ(testing::LoadFrom("graph.pagerank", arguments, *state).code(),
            StatusCode::kFailedPrecondition);
}

TEST(Graph, ReadsGzipAndNoticesACutFile) {
  TemporaryFolder folder;
  std::string text = Text(SomeEdges(8, 500, 4000));
  std::string path = folder / "edges.txt.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  gzclose(file);
  Result<Graph> packed = LoadGraph(path);
  ASSERT_TRUE(packed.ok()) << packed.status().ToString();
  EXPECT_EQ(packed->Fingerprint(), ParseEdgeList(text, "plain")->Fingerprint());
  std::string bytes = *ReadFile(path);
  std::string cut = folder.File("cut.gz", bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(LoadGraph(cut).status().code(), StatusCode::kCorruption);
}

TEST(Graph, PackagesAlternativesAndVirtualPackages) {
  Result<Graph> graph = ParsePackages(
      "Package: app\nStatus: install ok installed\nDepends: missing | lib (>= 1), mail-agent,\n  "
      "continued\n"
      "Pre-Depends: lib:any\n\n"
      "Package: lib\nStatus: install ok installed\n\n"
      "Package: exim\nStatus: install ok installed\nProvides: mail-agent (= 1), other\nDepends: "
      "exim\n\n"
      "Package: gone\nStatus: deinstall ok config-files\nDepends: lib\n",
      "test");
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  EXPECT_EQ(graph->names, (std::vector<std::string>{"app", "exim", "lib"}));
  EXPECT_EQ(graph->out_degree, (std::vector<uint32_t>{2, 0, 0}));
  EXPECT_EQ(graph->sources, (std::vector<uint32_t>{0, 0}));
  EXPECT_EQ(graph->first_source, (std::vector<uint64_t>{0, 0, 1, 2}));
  EXPECT_FALSE(ParsePackages("", "test").ok());
  EXPECT_FALSE(ParsePackages("no stanza at all\n\n\n", "test").ok());
}

TEST(Graph, EdgeListsOfEveryShape) {
  Result<Graph> graph = ParseEdgeList("% comment\n7 3\n3,7\r\n 7\t3  \n3 3", "test");
  ASSERT_TRUE(graph.ok()) << graph.status().ToString();
  EXPECT_EQ(graph->ids, (std::vector<int64_t>{3, 7}));
  EXPECT_EQ(graph->sources, (std::vector<uint32_t>{0, 1, 0}));
  EXPECT_EQ(graph->Name(1), "7");
}

}  // namespace
}  // namespace pillion::sidetasks
