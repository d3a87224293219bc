#include "tests/sim/sim_client.h"

namespace pillion::sim {

SimClient::SimClient(World* world, Network* network, std::vector<const SimJob*> jobs) : world_(world), network_(network) {
  for (const SimJob* job : jobs) {
    Progress progress;
    progress.job = job;
    progress.start_ns = world->random.Between(0, world->faults_end_ns / kMs * 2 / 3) * kMs;
    if (world->random.Chance(world->scenario.cancels)) {
      progress.cancel_at_ns = progress.start_ns + world->random.Between(0, 20'000) * kMs;
    }
    jobs_.push_back(progress);
  }
}

bool SimClient::done() const {
  for (const Progress& progress : jobs_) {
    if (progress.phase != Phase::kDone) return false;
  }
  return true;
}

void SimClient::Start() {
  Connect();
  Tick();
}

void SimClient::Connect() {
  connection_ = network_->Connect(this, wire::Role::kClient);
  welcome_ = false;
  for (Progress& progress : jobs_) progress.request = progress.cancel_request = 0;
  if (connection_ != 0) network_->ToHead(connection_, {next_request_++, wire::Hello{}});
}

void SimClient::OnDisconnected() { Connect(); }

uint64_t SimClient::Send(wire::Body body) {
  uint64_t id = next_request_++;
  network_->ToHead(connection_, {id, std::move(body)});
  return id;
}

void SimClient::Tick() {
  if (done()) return;
  world_->After(world_->random.Between(200, 600) * kMs, [this] { Tick(); });
  if (connection_ == 0) return Connect();
  if (!welcome_) {
    network_->ToHead(connection_, {next_request_++, wire::Hello{}});
    return;
  }
  for (Progress& progress : jobs_) {
    if (progress.phase == Phase::kNotYet && world_->now_ns >= progress.start_ns) progress.phase = Phase::kSubmitting;
    bool waited = world_->now_ns - progress.sent_ns > 8 * kSecond;
    if (progress.request == 0 || waited) Ask(&progress);
  }
}

void SimClient::Ask(Progress* progress) {
  progress->sent_ns = world_->now_ns;
  const SimJob& job = *progress->job;
  if (progress->phase == Phase::kWaiting && !progress->cancelled && world_->now_ns >= progress->cancel_at_ns) {
    wire::CancelTasks cancel;
    cancel.job = job.id;
    if (job.id.low % 2 == 0) cancel.indices = {static_cast<uint32_t>(job.specs.size() / 2)};
    progress->cancel_request = Send(std::move(cancel));
  }
  switch (progress->phase) {
    case Phase::kNotYet:
    case Phase::kDone:
      break;
    case Phase::kSubmitting:
      progress->request = Send(job.chunks[progress->chunk]);
      break;
    case Phase::kWaiting:
      progress->request = Send(wire::WaitJob{job.id, progress->version, 3'000});
      break;
    case Phase::kAsking:
      progress->request = Send(wire::GetTask{{job.id, progress->next_task}});
      break;
  }
}

void SimClient::OnMessage(wire::Message message) {
  if (std::holds_alternative<wire::Welcome>(message.body)) welcome_ = true;
  for (Progress& progress : jobs_) {
    if (message.request_id == progress.cancel_request && progress.cancel_request != 0) {
      progress.cancel_request = 0;
      progress.cancelled = progress.cancelled || std::holds_alternative<wire::CountReply>(message.body);
    }
    if (message.request_id != progress.request || progress.request == 0) continue;
    progress.request = 0;
    OnReply(&progress, message.body);
    if (progress.phase == Phase::kAsking && connection_ != 0) Ask(&progress);
    return;
  }
}

void SimClient::OnReply(Progress* progress, const wire::Body& body) {
  if (auto* error = std::get_if<wire::ErrorReply>(&body)) {
    // "Start again from chunk 0" is the only refusal that is not simply tried again.
    if (progress->phase == Phase::kSubmitting && error->status.code() == StatusCode::kFailedPrecondition) {
      progress->chunk = 0;
    }
    return;
  }
  if (std::holds_alternative<wire::SubmitReply>(body) && progress->phase == Phase::kSubmitting) {
    if (++progress->chunk == progress->job->chunks.size()) progress->phase = Phase::kWaiting;
  } else if (auto* reply = std::get_if<wire::JobReply>(&body)) {
    progress->version = reply->job.version;
    bool cancel_open = progress->cancel_at_ns != INT64_MAX && !progress->cancelled;
    if (reply->job.finished() && !cancel_open) progress->phase = Phase::kAsking;
  } else if (std::holds_alternative<wire::TaskReply>(body)) {
    if (++progress->next_task == progress->job->specs.size()) progress->phase = Phase::kDone;
  }
}

void SimOperator::Send(wire::Body body) {
  if (connection_ == 0) {
    connection_ = network_->Connect(this, wire::Role::kOperator);
    if (connection_ == 0) return;
    wire::Hello hello;
    hello.role = wire::Role::kOperator;
    network_->ToHead(connection_, {next_request_++, hello});
  }
  network_->ToHead(connection_, {next_request_++, std::move(body)});
}

}  // namespace pillion::sim
