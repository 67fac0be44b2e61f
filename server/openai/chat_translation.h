// ChatTranslation: the body of another protocol as the chat completions body that means the same.
//
// So every parameter is read, bounded and refused in one place (chat_request.h), and tools, structured output and
// reasoning work alike in every protocol. An error of that body is put back into the words of the client's.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "server/openai/completions/chat_request.h"

namespace twostroke::openai {

// What a client calls the fields of a chat: {"messages[2]", "input[4]"}, {"max_tokens", "max_output_tokens"}. A name
// stands for all that is under it.
using FieldNames = std::vector<std::pair<std::string, std::string>>;

// `error`, with `param` and the names in the message as the client knows them.
ApiError in_client_words(const FieldNames& names, ApiError error);

struct ChatTranslation {
  Json body = {{"messages", Json::array()}};
  FieldNames names;

  // Appends a message that the client wrote at `place`.
  Json& add_message(Json message, const std::string& place);
};

// The parameters that keep their names in every protocol: sampling, and what vLLM adds to OpenAI's. Absent ones stay
// absent.
void copy_shared_parameters(const Json& from, Json& body);

// parse_chat_request() of the translation, its error in the client's words.
std::variant<ChatRequest, ApiError> parse_translated(const ChatTranslation& translation, int32_t vocab_size);

// A member that is a string, or "".
std::string string_member(const Json& object, const char* name);

// Adds the text of `part` (at `place`) to `parts` as chat's text part. False: it has no string `text`, and `fields` has
// failed.
bool append_text_part(FieldReader& fields, const Json& part, const std::string& place, Json& parts);

}  // namespace twostroke::openai
