// ServerState: what the listener and all connections of one HttpServer share, and own together. Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "server/http/access.h"
#include "server/http/body_budget.h"
#include "server/http/connection_set.h"
#include "server/http/request_id.h"
#include "server/http/server.h"

namespace twostroke::http {

struct ServerState {
  ServerState(const HttpLimits& limits_in, Router router_in, std::function<void(const AccessRecord&)> on_access_in,
              AccessPolicy access_in)
      : limits(limits_in),
        router(std::move(router_in)),
        on_access(std::move(on_access_in)),
        access(std::move(access_in)),
        connections(limits_in.connections_max, limits_in.idle_grace),
        bodies(limits_in.bodies_bytes_max) {}

  const HttpLimits limits;
  const Router router;
  const std::function<void(const AccessRecord&)> on_access;  // may be null
  const AccessPolicy access;
  RequestIds request_ids;
  ConnectionSet connections;
  BodyBudget bodies;
  std::atomic<size_t> exchanges{0};
};

}  // namespace twostroke::http
