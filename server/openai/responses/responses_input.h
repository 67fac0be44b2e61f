// The `input` of POST /v1/responses, as chat messages and as the items that the server lists.
#pragma once

#include "server/openai/chat_translation.h"

namespace twostroke::openai {

// Appends the messages of `input` to the translation and its items, each with an id, to `items`. The first thing that
// is wrong fails `fields`.
void translate_responses_input(FieldReader& fields, const Json& input, ChatTranslation& translation, Json& items);

}  // namespace twostroke::openai
