// The endpoints of operators: GET /livez, /readyz, /health (an alias of /readyz), /version, /metrics. The first three
// are probes and need no API key; the others do when the server has keys.
#pragma once

#include <functional>
#include <string>

#include "server/http/server.h"
#include "server/ops/health.h"
#include "server/ops/metrics.h"

namespace twostroke {

// All references must outlive the server. `before_metrics` brings gauges up to date at each scrape.
void add_ops_routes(http::Router& router, const Health& health, Metrics& metrics, std::string version,
                    std::function<void()> before_metrics);

}  // namespace twostroke
