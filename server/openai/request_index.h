// RequestIndex: which engine requests belong to which call of a client, by the names that the client knows: the id in
// its answer (chatcmpl-..., cmpl-..., msg_..., resp_...) and the X-Request-Id. For people who ask about a call.
//
// A call has an engine request for each of its prompts. Each is there from before it is submitted until its kEnded
// event was delivered, which comes exactly once for whatever the engine has accepted; so nothing stays behind, whatever
// the client does. Of what has ended the last kEndedMax are kept.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scheduler/event.h"

namespace twostroke::openai {

struct CallName {
  std::string id;          // as in the answer; "" where that has none (embeddings)
  std::string request_id;  // X-Request-Id
  std::string endpoint;    // "/v1/chat/completions"
};

class RequestIndex {
 public:
  static constexpr size_t kEndedMax = 1000;  // engine requests

  struct End {
    Outcome outcome = Outcome::kFinished;
    Status error;
    RequestSummary summary;
  };
  struct Part {
    RequestId request = 0;
    std::optional<End> end;  // nothing: it has not ended
  };
  struct Call {
    CallName name;
    std::vector<Part> parts;  // in the order in which they were submitted
  };

  // One engine request of the call, before it is submitted. All of a call's share `name`.
  void add(RequestId request, std::shared_ptr<const CallName> name);
  // It was refused: it never was.
  void refused(RequestId request);
  // Sees every event.
  void observe(std::span<const Event> events);

  // The latest call by either of its names. Nothing: there is none, or it has ended too long ago.
  std::optional<Call> find(std::string_view name) const;
  // Calls of which something has not ended, in the order in which they came, at most `calls_max`; without what of them
  // has ended.
  std::vector<Call> live(size_t calls_max) const;
  size_t live_requests() const;

 private:
  struct Ended {
    RequestId request;
    std::shared_ptr<const CallName> name;
    End end;
  };
  mutable std::mutex mutex_;
  std::map<RequestId, std::shared_ptr<const CallName>> live_;  // guarded by mutex_, like the rest; ids count up
  std::deque<Ended> ended_;                                    // oldest first
};

}  // namespace twostroke::openai
