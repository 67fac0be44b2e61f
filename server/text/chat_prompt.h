// From a rendered chat to the tokens that the model sees.
//
// Control tokens (`<|im_start|>`, ...) count only where the template itself wrote them. The same characters in a
// message are text: a user cannot end their turn and begin another's. Text that no control token separates is encoded
// as a whole, whoever wrote it, so that the tokens are those that the model was trained on.
//
// Thread-safety: a pure function.
#pragma once

#include <span>
#include <vector>

#include "kernels/token.h"
#include "server/text/jinja/template.h"
#include "server/text/tokenizer.h"

namespace twostroke {

// Token ids of a prompt that jinja::Template::render_spans gave. BOS is added where the model's metadata asks for it
// and the template did not write it; EOS never is: the model is about to go on.
std::vector<TokenId> encode_chat_prompt(const Tokenizer& tokenizer, std::span<const jinja::Span> spans);

}  // namespace twostroke
