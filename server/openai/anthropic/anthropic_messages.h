// `system` and `messages` of POST /v1/messages, as chat messages.
#pragma once

#include "server/openai/chat_translation.h"

namespace twostroke::openai {

// Appends what the fields say to the translation. The first thing that is wrong fails `fields`.
void translate_anthropic_messages(FieldReader& fields, ChatTranslation& translation);

}  // namespace twostroke::openai
