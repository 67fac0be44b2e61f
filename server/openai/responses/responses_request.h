// ResponsesRequest: the body of POST /v1/responses, as the chat request that it means and what belongs to the protocol
// alone.
//
// `input` is a string or items: messages (their text parts), function_call, function_call_output and reasoning. Items
// of one turn of the assistant become one message of the chat. What is not supported is refused by its name.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "server/openai/chat_translation.h"

namespace twostroke::openai {

constexpr size_t kMetadataPairsMax = 16;
constexpr size_t kMetadataKeyBytesMax = 64;
constexpr size_t kMetadataValueBytesMax = 512;

struct ResponsesRequest {
  FieldNames names;               // for errors that are found when the chat is prepared
  ChatRequest chat;               // the messages of this call alone
  bool has_instructions = false;  // they are the first of chat.messages, and no part of the conversation
  bool store = true;
  bool background = false;
  std::optional<std::string> previous_response_id;
  Json input_items;  // the input as GET /v1/responses/{id}/input_items lists it, each item with an id
  // The members of a response that repeat the request or its defaults: "instructions", "tools", "temperature", ...
  Json echo;
};

std::variant<ResponsesRequest, ApiError> parse_responses_request(const Json& body, int32_t vocab_size);

// Puts the messages of earlier responses between the instructions and this call's messages. 400 when there are then too
// many of them.
std::optional<ApiError> insert_history(ResponsesRequest& request, Json&& history);

}  // namespace twostroke::openai
