// TemplateProbe: what a chat template writes for a conversation made up for the purpose, whose every name and value is
// found again in the rendering.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "server/text/reply/reply_format.h"

namespace twostroke::reply {

struct TemplateProbe {
  // What stands behind the user's message, "" where the template refuses.
  std::string plain;       // for an answer with content
  std::string one_call;    // for content and a call
  std::string two_calls;   // for content and two
  std::string everything;  // all that was written in any variant, prompts for the next turn too: to look for markers in
  bool uses_tools = false;
  size_t call_id_bytes = 0;  // 0: any id will do
};

TemplateProbe probe_template(std::string_view source);

// The format of a template, "generic" where it knows no calls.
ReplyFormat detect_format(std::string_view source, const TemplateProbe& probe);

}  // namespace twostroke::reply
