#include "server/openai/debug_format.h"

#include <array>

namespace twostroke::openai {
namespace {

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFinished:
      return "finished";
    case Outcome::kCancelled:
      return "cancelled";
    case Outcome::kFailed:
      return "failed";
  }
  return "failed";
}

bool runs(const SequenceExplanation& sequence) {
  return sequence.activity == SequenceActivity::kPrefill || sequence.activity == SequenceActivity::kDecode;
}

bool runs(const RequestExplanation& request) {
  for (const SequenceExplanation& sequence : request.sequences) {
    if (runs(sequence)) return true;
  }
  return false;
}

// Of a moment that has come: since the request's arrival. Of one that has not: null.
Json since_arrival(const RequestSummary& summary, TimeNs moment) {
  return moment < 0 ? Json() : Json(to_seconds(moment - summary.submitted));
}

void add_summary(Json& json, const RequestSummary& summary) {
  json["prompt_tokens"] = summary.prompt_tokens;
  json["cached_tokens"] = summary.cached_tokens;
  json["output_tokens"] = summary.output_tokens;
  json["recomputed_tokens"] = summary.recomputed_tokens;
  json["preemptions"] = summary.preemptions;
  json["first_scheduled_seconds"] = since_arrival(summary, summary.first_scheduled);
  json["first_token_seconds"] = since_arrival(summary, summary.first_token);
}

Json sequence_json(const SequenceExplanation& sequence) {
  Json json = {{"index", sequence.index},
               {"state", sequence_activity_name(sequence.activity)},
               {"wait", sequence.wait == WaitFor::kNone ? Json() : Json(wait_for_name(sequence.wait))},
               {"blocks_short", sequence.blocks_short},
               {"tokens", sequence.tokens},
               {"computed_tokens", sequence.computed},
               {"output_tokens", sequence.output_tokens},
               {"blocks", sequence.blocks},
               {"overtakes", sequence.overtakes}};
  const bool queued = sequence.queue_position >= 0;
  json["queue_position"] = queued ? Json(sequence.queue_position) : Json();
  json["queue_tokens_before"] = queued ? Json(sequence.queue_tokens_before) : Json();
  const bool predicted = sequence.predicted_start_ns >= 0;
  json["predicted_start_seconds"] = predicted ? Json(to_seconds(sequence.predicted_start_ns)) : Json();
  return json;
}

Json ended_part(const RequestIndex::End& end, TimeNs now) {
  Json json = {{"state", "ended"},
               {"outcome", outcome_name(end.outcome)},
               {"error", end.error.ok() ? Json() : Json(end.error.message())},
               {"ended_seconds_ago", to_seconds(now - end.summary.ended)},
               {"duration_seconds", to_seconds(end.summary.ended - end.summary.submitted)}};
  add_summary(json, end.summary);
  return json;
}

Json live_part(const RequestExplanation& request, TimeNs now) {
  Json json = {{"state", runs(request) ? "running" : "waiting"},
               {"age_seconds", to_seconds(now - request.summary.submitted)},
               {"step", request.step},
               {"priority", request.priority},
               {"tenant", std::to_string(request.tenant)},
               {"max_tokens", request.max_tokens}};
  add_summary(json, request.summary);
  const auto objective = [](TimeNs time) { return time > 0 ? Json(to_seconds(time)) : Json(); };
  json["objectives"] = {{"ttft_seconds", objective(request.objectives.ttft_ns)},
                        {"tpot_seconds", objective(request.objectives.tpot_ns)}};
  json["sequences"] = Json::array();
  for (const SequenceExplanation& sequence : request.sequences) json["sequences"].push_back(sequence_json(sequence));
  return json;
}

Json names_json(const CallName& name) {
  return {
      {"id", name.id.empty() ? Json() : Json(name.id)}, {"request_id", name.request_id}, {"endpoint", name.endpoint}};
}

}  // namespace

Json debug_call(const RequestIndex::Call& call, std::span<const std::optional<RequestExplanation>> explanations,
                TimeNs now) {
  Json json = names_json(call.name);
  Json prompts = Json::array();
  bool any_waits = false;
  bool any_runs = false;
  size_t next = 0;
  for (const RequestIndex::Part& part : call.parts) {
    Json prompt = {{"engine_request", part.request}};
    if (part.end) {
      prompt.update(ended_part(*part.end, now));
    } else if (const auto& explanation = explanations[next++]) {
      (runs(*explanation) ? any_runs : any_waits) = true;
      prompt.update(live_part(*explanation, now));
    } else {
      prompt["state"] = "ending";
    }
    prompts.push_back(std::move(prompt));
  }
  json["state"] = any_runs ? "running" : any_waits ? "waiting" : "ended";
  json["prompts"] = std::move(prompts);
  return json;
}

Json debug_call_summary(const RequestIndex::Call& call, std::span<const std::optional<RequestExplanation>> explanations,
                        TimeNs now) {
  std::array<uint32_t, 6> counts{};
  const SequenceExplanation* first_waiting = nullptr;
  uint64_t prompt_tokens = 0;
  uint64_t output_tokens = 0;
  TimeNs submitted = now;
  bool any_runs = false;
  for (const auto& explanation : explanations) {
    if (!explanation) continue;
    prompt_tokens += explanation->summary.prompt_tokens;
    output_tokens += explanation->summary.output_tokens;
    submitted = std::min(submitted, explanation->summary.submitted);
    any_runs |= runs(*explanation);
    for (const SequenceExplanation& sequence : explanation->sequences) {
      ++counts.at(static_cast<size_t>(sequence.activity));
      if (sequence.wait != WaitFor::kNone && first_waiting == nullptr) first_waiting = &sequence;
    }
  }
  Json json = names_json(call.name);
  json["state"] = any_runs ? "running" : "waiting";
  json["age_seconds"] = to_seconds(now - submitted);
  json["prompts"] = explanations.size();
  json["prompt_tokens"] = prompt_tokens;
  json["output_tokens"] = output_tokens;
  Json& sequences = json["sequences"] = Json::object();
  for (size_t i = 0; i < counts.size(); ++i) {
    sequences[sequence_activity_name(static_cast<SequenceActivity>(i))] = counts[i];
  }
  json["wait"] = first_waiting != nullptr ? Json(wait_for_name(first_waiting->wait)) : Json();
  const bool queued = first_waiting != nullptr && first_waiting->queue_position >= 0;
  json["queue_position"] = queued ? Json(first_waiting->queue_position) : Json();
  return json;
}

Json debug_step(const StepRecord& step, TimeNs now) {
  const StepCounts& counts = step.counts;
  const StepShape& shape = counts.shape;
  const SchedulerGauges& gauges = step.gauges;
  return {
      {"step", step.step},
      {"seconds_ago", to_seconds(now - step.began)},
      {"class", step_class_name(step.step_class)},
      {"duration_seconds", to_seconds(step.duration_ns)},
      {"predicted_seconds", to_seconds(counts.predicted_ns)},
      {"mask_seconds", to_seconds(step.mask_ns)},
      {"prefill", {{"rows", shape.prefill_rows}, {"tokens", shape.prefill_tokens}, {"context", shape.prefill_context}}},
      {"decode", {{"rows", shape.decode_rows}, {"tokens", shape.decode_tokens}, {"context", shape.decode_context}}},
      {"chunk", {{"tokens", gauges.prefill_chunk_tokens}, {"reason", chunk_reason_name(gauges.chunk_reason)}}},
      {"computed_tokens", counts.computed_tokens},
      {"cached_tokens", counts.cached_tokens},
      {"recomputed_tokens", counts.recomputed_tokens},
      {"sampled_tokens", counts.sampled_tokens},
      {"draft_tokens", counts.draft_tokens},
      {"accepted_draft_tokens", counts.accepted_draft_tokens},
      {"preemptions", counts.preemptions},
      {"sequences_running", gauges.sequences_running},
      {"sequences_waiting", gauges.sequences_waiting},
      {"blocks",
       {{"free", gauges.blocks_free}, {"cached", gauges.blocks_cached}, {"referenced", gauges.blocks_referenced}}}};
}

}  // namespace twostroke::openai
