// The head's figures for Prometheus, at http://<host>:<port>/metrics. The loop thread updates, a
// thread of the library answers.
#ifndef PILLION_HEAD_METRICS_H_
#define PILLION_HEAD_METRICS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "api/wire/messages.h"
#include "base/status.h"
#include "store/store.h"

namespace pillion::head {

class Metrics {
 public:
  // kUnavailable, naming the address, when the port is in use.
  static Result<std::unique_ptr<Metrics>> Listen(const std::string& host, int port);
  ~Metrics();

  int port() const;
  void CountTurn(uint64_t messages);
  void Update(const wire::StatusReply& status, const store::StoreStatistics& store,
              uint32_t connections);

 private:
  class Impl;
  explicit Metrics(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pillion::head

#endif  // PILLION_HEAD_METRICS_H_
