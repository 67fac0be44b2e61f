"""/tokenize, /detokenize and the render endpoints: they agree with what completions count and with each other."""

import json

import pytest

from test_access import ask

CHAT = [{"role": "user", "content": "What is <|im_end|> the capital of Österreich? 日本"}]


def post(server, path, body, expected=200):
    status, _, text = ask(server, path, "POST", body)
    assert status == expected, text
    return json.loads(text)


@pytest.mark.parametrize("text", ["", " ", "Hello, world!", "ä 日本 🎉 <|im_start|>", "a" * 3000])
def test_detokenize_gives_the_text_back(server, text):
    tokens = post(server, "/tokenize", {"prompt": text})
    assert tokens["count"] == len(tokens["tokens"])
    assert tokens["max_model_len"] == 8192
    assert tokens["token_strs"] is None
    assert post(server, "/detokenize", {"tokens": tokens["tokens"]}) == {"prompt": text}


def test_token_strings_join_to_the_text(server):
    answer = post(server, "/tokenize", {"prompt": "The quick brown fox", "return_token_strs": True})
    assert "".join(answer["token_strs"]) == "The quick brown fox"
    assert len(answer["token_strs"]) == answer["count"]


def test_tokenize_counts_what_completions_count(server, client):
    usage = client.completions.create(model="smollm2", prompt="Once upon a time", max_tokens=1).usage
    assert post(server, "/tokenize", {"prompt": "Once upon a time"})["count"] == usage.prompt_tokens
    usage = client.chat.completions.create(model="smollm2", messages=CHAT, max_tokens=1).usage
    assert post(server, "/tokenize", {"messages": CHAT})["count"] == usage.prompt_tokens


def test_render_shows_the_chat_template_and_its_tokens(server):
    rendered = post(server, "/v1/chat/completions/render", {"messages": CHAT, "max_tokens": 5})
    assert rendered["model"] == "smollm2"
    assert rendered["prompt"].endswith("日本<|im_end|>\n<|im_start|>assistant\n")
    assert rendered["token_ids"] == post(server, "/tokenize", {"messages": CHAT})["tokens"]
    # The client's <|im_end|> is text: the control token is there once for each turn's end, and not a third time.
    control = post(server, "/tokenize", {"prompt": "<|im_end|>"})["tokens"]
    assert len(control) == 1
    turns = rendered["prompt"].count("<|im_start|>") - 1
    assert rendered["token_ids"].count(control[0]) == turns
    assert rendered["prompt"].count("<|im_end|>") == turns + 1


def test_render_gives_one_prompt_for_each_of_a_completion(server):
    rendered = post(server, "/v1/completions/render", {"prompt": ["Hello", "world"]})
    assert [item["prompt"] for item in rendered] == ["Hello", "world"]
    again = post(server, "/v1/completions/render", {"prompt": [item["token_ids"] for item in rendered]})
    assert again == rendered


def test_refusals_have_the_shape_of_all_others(server):
    for path, body, param in [
        ("/tokenize", {}, "prompt"),
        ("/tokenize", {"prompt": "a", "model": "other"}, "model"),
        ("/tokenize", {"prompt": "a" * (1 << 20) + "a"}, "prompt"),
        ("/detokenize", {"tokens": [-1]}, "tokens"),
        ("/detokenize", {"tokens": [10**9]}, "tokens"),
        ("/v1/chat/completions/render", {"messages": []}, "messages"),
        ("/v1/completions/render", {"prompt": []}, "prompt"),
    ]:
        error = post(server, path, body, 404 if param == "model" else 400)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["param"] == param


def test_a_model_name_with_slashes_is_found_by_its_path_and_in_requests(start_server):
    server = start_server("--backend", "sim", "--served-model-name", "org/a b")
    for path in ["/v1/models/org/a%20b", "/v1/models/org%2Fa%20b"]:
        status, _, text = ask(server, path)
        assert status == 200
        assert json.loads(text)["id"] == "org/a b"
    assert ask(server, "/v1/models/org")[0] == 404
    assert post(server, "/tokenize", {"model": "org/a b", "prompt": "hi"})["count"] > 0


def test_a_template_file_replaces_the_models_own(start_server, tmp_path):
    template = tmp_path / "template.jinja"
    template.write_text("{% for m in messages %}[{{ m.role }}: {{ m.content }}]{% endfor %}")
    server = start_server("--backend", "sim", "--chat-template", str(template))
    rendered = post(server, "/v1/chat/completions/render", {"messages": [{"role": "user", "content": "hi"}]})
    assert rendered["prompt"] == "[user: hi]"
