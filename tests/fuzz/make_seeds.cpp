// Writes what the fuzzers start from: DIRECTORY/TARGET/N, a few inputs of each kind that are as they should be.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "scheduler/journal/journal.h"
#include "tests/text/tokenizer/tokenizer_specs.h"
#include "tests/tools/gguf_writer.h"
#include "tests/tools/tiny_llama.h"

namespace twostroke {
namespace {

using Seeds = std::map<std::string, std::vector<std::string>>;

void add_vocabulary(GgufWriter& writer, const TokenizerSpec& spec) {
  writer.set("tokenizer.ggml.model", spec.model);
  if (!spec.pre.empty()) writer.set("tokenizer.ggml.pre", spec.pre);
  writer.set_array("tokenizer.ggml.tokens", spec.tokens);
  std::vector<int32_t> types;
  for (const TokenType type : spec.types) types.push_back(static_cast<int32_t>(type));
  writer.set_array("tokenizer.ggml.token_type", types);
  if (!spec.scores.empty()) writer.set_array("tokenizer.ggml.scores", spec.scores);
  if (!spec.merges.empty()) writer.set_array("tokenizer.ggml.merges", spec.merges);
  writer.set("tokenizer.ggml.eos_token_id", uint32_t{2});
}

std::vector<std::string> gguf_seeds() {
  GgufWriter values;
  values.set("general.architecture", "llama");
  values.set("a.number", 1.5F);
  values.set("a.flag", true);
  values.set_array("some.strings", std::vector<std::string>{"x", ""});
  values.set_tensor("t", {4, 2}, std::vector<float>(8, 0.5F));
  values.set_tensor("q", GgufType::kQ8_0, {32}, std::string(34, '\1'));
  GgufWriter bytes;
  add_vocabulary(bytes, byte_level_spec("gpt-2", {"a b", "ab c"}));
  GgufWriter pieces;
  add_vocabulary(pieces, sentencepiece_spec({"▁", "a", "ab"}));
  const GgufWriter model = tiny_llama({.layers = 1,
                                       .embedding_size = 8,
                                       .feed_forward_size = 8,
                                       .heads = 2,
                                       .kv_heads = 1,
                                       .head_size = 4,
                                       .vocab_size = 8});
  return {values.bytes(), bytes.bytes(), pieces.bytes(), model.bytes()};
}

// The records of a small scheduler's life, each as it is appended.
class SeedJournal final : public JournalOutput {
 public:
  void append(std::string_view records) override { bytes += records; }
  std::string bytes;
};

std::string journal_seed(uint32_t n, bool fails) {
  BackendInfo info;
  info.vocab_size = 50;
  info.context_max = 64;
  info.block_size = 4;
  info.block_count = 16;
  info.step_tokens_max = 16;
  info.step_rows_max = 8;
  SeedJournal journal;
  Scheduler scheduler({}, info);
  scheduler.record_to(journal);
  StepPlan plan;
  StepCounts counts;
  std::vector<Event> events;
  for (RequestId id = 1; id <= 3; ++id) {
    Request request;
    request.id = id;
    request.prompt.assign(10 * id, 7);
    request.n = n;
    request.max_tokens = 4;
    request.stop_tokens = {3, 9};
    request.bad_words = {{1, 2}};
    static_cast<void>(scheduler.submit(std::move(request), static_cast<TimeNs>(id)));
  }
  for (TimeNs now = 10; !scheduler.idle() && now < 60; ++now) {
    if (now == 15) scheduler.cancel(2, now);
    if (now == 16) scheduler.finish_sequence(1, 0, now);
    scheduler.schedule(now, plan, counts);
    scheduler.fill_masks(plan);
    StepResult result;
    result.rows.resize(plan.rows.size());
    for (RowResult& row : result.rows) row.token = 5;
    if (fails && now == 14) {
      scheduler.fail(plan, internal_error("lost"), now, events);
    } else {
      scheduler.commit(plan, result, now, events);
    }
  }
  scheduler.fail_all(internal_error("the end"), 70);
  scheduler.drain_events(events);
  return journal.bytes + journal_end_record("full");
}

Seeds all_seeds() {
  using std::string_literals::operator""s;
  Seeds seeds;
  seeds["journal"] = {journal_seed(1, false), journal_seed(3, true)};
  seeds["http_request"] = {
      "\x0fGET /v1/models?x=%20 HTTP/1.1\r\nHost: a:1\r\nConnection: keep-alive\r\n\r\n",
      "\x01POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n{  }",
      "\x02POST / HTTP/1.1\r\nHost: [::1]\r\nTransfer-Encoding: chunked\r\n\r\n2;a=\"b\"\r\nab\r\n0\r\nX: y\r\n\r\n",
      "\x03GET * HTTP/1.0\r\nX-Request-Id: 1\r\nConnection: close\r\n\r\n",
  };
  seeds["chat_body"] = {
      R"({"model": "m", "messages": [{"role": "system", "content": "be"}, {"role": "user", "content": [)"
      R"({"type": "text", "text": "hi"}]}], "max_tokens": 5, "n": 2, "stop": ["a", "b"], "stream": true,)"
      R"( "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 2})",
      R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",)"
      R"( "function": {"name": "f", "arguments": "{\"x\": [1]}"}}]}, {"role": "tool", "content": "7"}],)"
      R"( "temperature": 0.5, "top_p": 0.9, "top_k": 4, "min_p": 0.1, "seed": -3, "logit_bias": {"5": -100},)"
      R"( "presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.1, "ignore_eos": true,)"
      R"( "chat_template_kwargs": {"enable_thinking": false}})",
      R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": {"name": "f",)"
      R"( "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}}],)"
      R"( "tool_choice": "auto", "response_format": {"type": "json_schema", "json_schema": {"name": "s",)"
      R"( "schema": {"type": "string"}, "strict": true}}})",
  };
  seeds["completion_body"] = {
      R"({"model": "m", "prompt": "hi \u00fc", "max_tokens": 16, "logprobs": 3, "stop": "x", "best_of": 1})",
      R"({"prompt": [[1, 2, 3], [4]], "n": 2, "temperature": 0, "seed": 7, "stream": true})",
      R"({"prompt": [1, 2], "min_tokens": 1, "echo": false, "suffix": null, "user": "u"})",
      R"({"prompt": ["a", "b"]})",
  };
  seeds["jinja"] = {
      "{{ bos_token }}{% for m in messages %}{{ '<|' + m.role + '|>' }}{{ m['content'] | trim }}{% if not loop.last %}"
      "{{ '\\n' }}{% endif %}{% endfor %}{%- if add_generation_prompt -%}<|assistant|>{%- endif %}",
      "{% macro f(x, y=1, *a) %}[{{ x ~ y }}{{ caller() if caller }}]{% endmacro %}{% set ns = namespace(k=0) %}"
      "{% for i in range(n) if i is odd %}{% set ns.k = ns.k + i ** 2 // 3 %}{{ f(i, y=ns.k) }}{% else %}none"
      "{% endfor %}{% call f('q') %}c{% endcall %}{{ [1, 2.5, 'x', none, true][::-1] | tojson(indent=2) }}",
      "{% set x = messages[0].content.split(' ') | map('upper') | list %}{{ x | join(', ') }}{{ '%05.2f' % 3.14159 }}"
      "{{ '{:>8,}'.format(12345) }}{{ {'a': 1}.items() | list }}{{ strftime_now('%Y-%m-%d') }}"
      "{% filter replace('a', 'b') %}aaa{% endfilter %}{{ messages | selectattr('role', 'equalto', 'user') | first }}",
      "{{ a }}{{ b.c | default('x') }}{% if a in b %}{{ raise_exception('no') }}{% endif %}\0{\"a\": \"k\", \"b\": "
      "{\"c\": [1, {}]}}"s,
      "{%- generation -%}{{ n | string | length }}{# note #}{%- endgeneration -%}{% with q = 1 %}{{ q }}{% endwith %}"
      "{% raw %}{{ x }}{% endraw %}{% block b %}{{ '{\"a\": 1}' | from_json }}{% endblock %}",
  };
  for (char chosen = 0; chosen < 10; ++chosen) {
    seeds["tokenizer"].push_back(chosen + "The the abcab 123 <|im_end|>\n\n  <think>é▁漢字🙂\xff I'm"s);
  }
  seeds["gguf"] = gguf_seeds();
  for (char chosen = 0; chosen < 40; ++chosen) {  // every format; the last bytes are its own words
    std::string words = {chosen, 3, 'H', 'i', ' '};
    for (int word = 0; word < 60; ++word) words += static_cast<char>(0x80 + (word * 7 + chosen) % 60);
    seeds["reply"].push_back(words);
  }
  seeds["regex"] = {
      "[a-c]{2,4}(x|\\d+)?\0\1\2\3\4\5"s,
      "^\\d{4}-\\d\\d(T.*)?$\0\1\1\1\1\1"s,
      "(?:é|\\u6f22|[^\\x00-\\x7f])+\\s?\\w*?\0\1\2\3"s,
  };
  seeds["json_schema"] = {
      R"({"type": "object", "properties": {"a": {"type": "integer", "minimum": -3, "maximum": 120}, "b": {"enum": )"
      R"(["x", 1, null]}}, "required": ["a"], "additionalProperties": false})"
      "\0\0\1\2\3\4\5\6\7"s,
      R"({"type": "array", "items": {"anyOf": [{"type": "string", "pattern": "^a+$"}, {"$ref": "#/$defs/n"}]}, )"
      R"("minItems": 1, "maxItems": 3, "$defs": {"n": {"type": "number", "multipleOf": 0.5}}})"
      "\0\1\1\1\1\1"s,
      R"({"oneOf": [{"const": {"k": [true]}}, {"type": "string", "format": "date", "minLength": 2}], "not": )"
      R"({"type": "null"}})"
      "\0\5\4\3"s,
      R"({"allOf": [{"properties": {"x": {"type": "boolean"}}}, {"patternProperties": {"^y": {"type": "null"}}}]})"
      "\0\1\2"s,
  };
  seeds["gbnf"] = {
      "root ::= object\nobject ::= \"{\" (pair (\",\" pair)*)? \"}\"\npair ::= string \": \" (string | number | "
      "object)\n"
      "string ::= [\"] [^\"\\\\]* [\"]\nnumber ::= \"-\"? [0-9]{1,5} (\".\" [0-9]+)?\n\0\0\1\2\3\4\5\6\7\x08"s,
      "# lists\nroot ::= (item \"\\n\")+ | [\\u00e9\\x41-\\x5A] .\nitem ::= \"a\" item? \"b\" | \"\"\n\0\1\1\1\1"s,
      "root ::= a | b\na ::= \"x\" b{2} \"y\"?\nb ::= [^a-z\\n]{0,3} (\"é\" | a)?\n\0\3\1\4\1\5"s,
  };
  return seeds;
}

}  // namespace
}  // namespace twostroke

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: fuzz_seeds DIRECTORY\n", stderr);
    return 2;
  }
  for (const auto& [target, inputs] : twostroke::all_seeds()) {
    const auto directory = std::filesystem::path(argv[1]) / target;
    std::filesystem::create_directories(directory);
    for (size_t i = 0; i < inputs.size(); ++i) {
      std::ofstream out(directory / ("seed-" + std::to_string(i)), std::ios::binary);
      out << inputs[i];
      if (!out.flush()) {
        std::fprintf(stderr, "fuzz_seeds: cannot write to %s\n", directory.c_str());
        return 1;
      }
    }
  }
  return 0;
}
