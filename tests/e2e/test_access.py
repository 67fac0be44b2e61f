"""API keys and CORS, as clients and browsers meet them."""

import http.client
import json
import urllib.error
import urllib.request

import openai
import pytest

KEYS = ["key-one", "key-two", "key-three"]
OPEN = ["/livez", "/readyz", "/health"]
KEYED = ["/metrics", "/version", "/v1/models", "/v1/models/smollm2", "/openapi.json", "/nothing"]


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    """A server with a key from a flag, one from the environment (which the flag replaces) and one from a file."""
    from conftest import Server

    file = tmp_path_factory.mktemp("keys") / "keys"
    file.write_text("# the team's keys\n\n  key-three \t gold  \n")
    running = Server(
        *["--drain-notice-ms", "0", "--backend", "sim", "--allowed-origin", "https://a.example"],
        *["--api-key", "key-one", "--api-key", "key-two", "--api-key-file", str(file)],
        *["--order", "fair", "--tenant-weight", "gold=2"],
        env={"TWOSTROKE_API_KEY": "key-environment"},
    )
    yield running
    assert running.stop() == 0, "".join(running.log)


def ask(server, path, method="GET", body=None, **headers):
    """Status, headers and text of an answer. A `body` that is a string is JSON already."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    if data is not None:
        headers["Content-Type"] = "application/json"
    request = urllib.request.Request(server.url + path, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def test_probes_need_no_key_and_everything_else_does(keyed):
    for path in OPEN:
        assert ask(keyed, path)[0] == 200, path
    for path in KEYED:
        status, headers, text = ask(keyed, path)
        assert status == 401, path
        assert headers["WWW-Authenticate"] == "Bearer"
        error = json.loads(text)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["code"] == "invalid_api_key"
    assert ask(keyed, "/v1/completions", "POST", {"prompt": "hi"})[0] == 401


@pytest.mark.parametrize("key", KEYS)
def test_each_key_opens_in_both_headers(keyed, key):
    assert ask(keyed, "/v1/models", Authorization=f"Bearer {key}")[0] == 200
    assert ask(keyed, "/v1/models", X_Api_Key=key)[0] == 200


@pytest.mark.parametrize("key", ["", "key-on", "key-one1", "KEY-ONE", "key-environment", "key-one,key-two", "none"])
def test_other_keys_do_not(keyed, key):
    assert ask(keyed, "/v1/models", Authorization=f"Bearer {key}")[0] == 401
    assert ask(keyed, "/v1/models", X_Api_Key=key)[0] == 401


def test_the_openai_client_sees_its_own_error_class(keyed):
    wrong = openai.OpenAI(base_url=keyed.url + "/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError) as caught:
        wrong.models.list()
    assert caught.value.code == "invalid_api_key"
    right = openai.OpenAI(base_url=keyed.url + "/v1", api_key="key-two", max_retries=0)
    assert right.models.list().data[0].id == "smollm2"


def test_no_route_but_the_probes_is_open(keyed):
    _, _, text = ask(keyed, "/openapi.json", X_Api_Key=KEYS[0])
    for path, operations in json.loads(text)["paths"].items():
        for method in set(operations) & {"get", "post", "delete", "put"}:
            status = ask(keyed, path.replace("{", "").replace("}", ""), method.upper(), None if method == "get" else {})[0]
            assert status == (200 if path in OPEN else 401), (method, path)


def test_a_preflight_needs_no_key_and_names_a_configured_origin_only(keyed):
    wanted = dict(Access_Control_Request_Method="POST", Access_Control_Request_Headers="authorization")
    status, headers, _ = ask(keyed, "/v1/chat/completions", "OPTIONS", Origin="https://a.example", **wanted)
    assert status == 204
    assert headers["Access-Control-Allow-Origin"] == "https://a.example"
    assert headers["Access-Control-Allow-Methods"] == "POST, OPTIONS"
    assert headers["Access-Control-Allow-Headers"] == "authorization"
    assert headers["Vary"] == "Origin"
    status, headers, _ = ask(keyed, "/v1/chat/completions", "OPTIONS", Origin="https://b.example", **wanted)
    assert status == 204 and headers["Access-Control-Allow-Origin"] is None


def test_answers_and_errors_may_be_read_by_the_configured_origin(keyed):
    for path, key in [("/v1/models", KEYS[0]), ("/v1/models", "wrong"), ("/nothing", KEYS[0])]:
        _, headers, _ = ask(keyed, path, Origin="https://a.example", X_Api_Key=key)
        assert headers["Access-Control-Allow-Origin"] == "https://a.example"
        _, headers, _ = ask(keyed, path, Origin="https://b.example", X_Api_Key=key)
        assert headers["Access-Control-Allow-Origin"] is None


def test_without_origins_and_keys_nothing_is_reflected_or_asked(server):
    status, headers, _ = ask(server, "/v1/models", Origin="https://a.example")
    assert status == 200
    assert headers["Access-Control-Allow-Origin"] is None


@pytest.mark.parametrize("headers", [{}, {"Content-Type": "text/plain"}])
def test_a_page_cannot_have_anything_done_unasked(server, headers):
    """A browser sends what is no JSON by its type to any server without asking first (a "simple request")."""
    body = b'{"prompt": "Hi", "max_tokens": 1}'
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.request("POST", "/v1/completions", body, {"Origin": "https://evil.example", **headers})
    assert connection.getresponse().status == 400
    if not headers:
        connection.close()
        connection.request("POST", "/v1/completions", body)
        assert connection.getresponse().status == 200


def test_a_key_file_without_keys_does_not_open_the_server(tmp_path):
    import subprocess

    from conftest import BINARY, MODEL

    file = tmp_path / "keys"
    file.write_text("# none yet\n")
    command = [BINARY, "serve", "--model", MODEL, "--port", "0", "--backend", "sim", "--api-key-file", file]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "holds no key" in ended.stderr


@pytest.mark.parametrize(
    "line, flag, complaint",
    [
        ("key gold", "silver=2", "no key has the name 'silver'"),
        ("key gold medal", "gold=2", "a key's name has up to 64 letters"),
        ("key gold", "gold=0", "a weight from 0.01 to 100"),
        ("key gold", "gold=1,gold=2", "gives 'gold' two weights"),
        ("key gold\nother\nkey silver", "gold=1", "line 3: this key has the name 'gold' already"),
    ],
)
def test_a_weight_needs_a_key_of_its_name(tmp_path, line, flag, complaint):
    import subprocess

    from conftest import BINARY, MODEL

    file = tmp_path / "keys"
    file.write_text(line + "\n")
    command = [BINARY, "serve", "--model", MODEL, "--port", "0", "--backend", "sim", "--api-key-file", file]
    command += ["--order", "fair", "--tenant-weight", flag]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode in (1, 2), ended.stderr
    assert complaint in ended.stderr


def test_a_stored_response_belongs_to_the_key_that_made_it(keyed):
    body = {"input": "Hi", "max_output_tokens": 1}
    status, _, text = ask(keyed, "/v1/responses", "POST", body, X_Api_Key="key-one")
    assert status == 200, text
    path = "/v1/responses/" + json.loads(text)["id"]
    follow = {**body, "previous_response_id": json.loads(text)["id"]}
    assert ask(keyed, path, X_Api_Key="key-two")[0] == 404
    assert ask(keyed, path + "/input_items", X_Api_Key="key-two")[0] == 404
    assert ask(keyed, path, "DELETE", X_Api_Key="key-two")[0] == 404
    assert ask(keyed, "/v1/responses", "POST", follow, X_Api_Key="key-two")[0] == 404
    assert ask(keyed, "/v1/responses", "POST", follow, X_Api_Key="key-one")[0] == 200
    assert ask(keyed, path, X_Api_Key="key-one")[0] == 200


def cached_tokens(server, key, salt=None):
    body = {"prompt": list(range(1000, 1200)), "max_tokens": 1}
    if salt is not None:
        body["cache_salt"] = salt
    status, _, text = ask(server, "/v1/completions", "POST", body, X_Api_Key=key)
    assert status == 200, text
    return json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_the_prefix_cache_is_partitioned_by_key_and_salt(keyed):
    assert cached_tokens(keyed, "key-one") == 0
    assert cached_tokens(keyed, "key-one") > 0
    assert cached_tokens(keyed, "key-two") == 0, "another key's prompts"
    assert cached_tokens(keyed, "key-one", "a") == 0, "another salt"
    assert cached_tokens(keyed, "key-one", "a") > 0
    assert cached_tokens(keyed, "key-two", "a") == 0, "the same salt under another key"
