"""Who may call, by which name, and what is written down about it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.server.worlds import HELLO, Site, ThreadLive, engine, raving, serving, wait_for

from outrider.errors import UsageError
from outrider.server.access import KEY_VARIABLE, LOOPBACK, read_keys
from outrider.server.house import Settings

KEY, OTHER = "correct-horse", "battery-staple"


@pytest.fixture(scope="module")
def keyed() -> Iterator[Site[ThreadLive]]:
    with serving(ThreadLive(engine(raving())), Settings(keys=(KEY, OTHER))) as site:
        yield site


@pytest.fixture(scope="module")
def local() -> Iterator[Site[ThreadLive]]:
    with serving(ThreadLive(engine(raving())), Settings(hosts=LOOPBACK, temperature=0.0)) as site:
        yield site


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.parametrize("path", ["/v1/models", "/metrics", "/planner.json", "/server.json", "/nothing"])
def test_a_key_is_asked_for(keyed: Site[ThreadLive], path: str) -> None:
    for headers in ({}, bearer("wrong"), bearer(KEY[:-1]), {"Authorization": KEY}):
        response = keyed.client.get(path, headers=headers)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert response.json()["error"]["code"] == "invalid_api_key"
    assert keyed.client.get(path, headers=bearer(OTHER)).status_code in (200, 404)


@pytest.mark.parametrize("path", ["/health", "/health/live", "/health/ready"])
def test_health_needs_no_key(keyed: Site[ThreadLive], path: str) -> None:
    assert keyed.client.get(path).status_code == 200


def test_the_key_is_the_scope_and_never_stands_in_it(keyed: Site[ThreadLive]) -> None:
    scopes = []
    for key in (KEY, OTHER, KEY):
        response = keyed.client.post(
            "/v1/chat/completions", json={"messages": HELLO, "max_tokens": 1, "user": "anna"}, headers=bearer(key)
        )
        assert response.status_code == 200
        scopes.append(keyed.live.asked[-1].scope)
    assert scopes[0] == scopes[2] != scopes[1]
    assert all(scope and KEY not in scope and "anna" not in scope for scope in scopes)


def test_users_have_scopes_where_that_is_wanted() -> None:
    with serving(ThreadLive(engine(raving())), Settings(scope_by_user=True)) as site:
        for user in ("anna", "ben", None):
            site.chat(user=user, max_tokens=1)
        assert len({request.scope for request in site.live.asked}) == 3


def test_a_server_of_this_machine_has_its_names(local: Site[ThreadLive]) -> None:
    for host in ("127.0.0.1:8000", "localhost", "[::1]:80", "LOCALHOST:1"):
        assert local.client.get("/health", headers={"Host": host}).status_code == 200
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example", ""):
        assert local.client.get("/health", headers={"Host": host}).status_code == 403


def test_the_default_temperature_is_the_server_s(local: Site[ThreadLive]) -> None:
    assert "seed" not in local.chat(max_tokens=2)
    assert "seed" in local.chat(max_tokens=2, temperature=1)


def test_pages_of_other_sites_may_not_call_unless_they_are_named(local: Site[ThreadLive]) -> None:
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    assert local.client.options("/v1/chat/completions", headers=headers).status_code == 405
    plain = local.client.get("/v1/models", headers={"Origin": "https://app.example"})
    assert "access-control-allow-origin" not in plain.headers
    with serving(ThreadLive(engine(raving())), Settings(origins=("https://app.example",), keys=(KEY,))) as site:
        asked = {**headers, "Access-Control-Request-Headers": "authorization,content-type"}
        preflight = site.client.options("/v1/chat/completions", headers=asked)
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        found = site.client.get("/v1/models", headers={"Origin": "https://app.example", **bearer(KEY)})
        assert found.headers["access-control-allow-origin"] == "https://app.example"
        other = site.client.get("/v1/models", headers={"Origin": "https://evil.example", **bearer(KEY)})
        assert "access-control-allow-origin" not in other.headers


def test_every_request_has_an_id_and_a_line(local: Site[ThreadLive]) -> None:
    response = local.client.post(
        "/v1/chat/completions",
        json={"messages": [{"role": "user", "content": "my secret"}], "max_tokens": 3, "user": "anna"},
        headers={"X-Request-Id": "my-id.7"},
    )
    assert response.headers["x-request-id"] == "my-id.7"
    assert response.headers["x-content-type-options"] == "nosniff"
    wait_for(lambda: any(line.get("id") == "my-id.7" for line in local.logged()))
    (line,) = [line for line in local.logged() if line.get("id") == "my-id.7"]
    assert line["event"] == "request"
    assert (line["status"], line["outcome"], line["path"]) == (200, "done", "/v1/chat/completions")
    assert (line["completion_tokens"], line["user"]) == (3, "anna")
    assert line["prompt_tokens"] > 0
    assert 0 <= line["first_s"] <= line["seconds"]
    assert "secret" not in local.log.getvalue()
    drawn = local.client.get("/health", headers={"X-Request-Id": "bad id {}"}).headers["x-request-id"]
    assert len(drawn) == 16


def test_refusals_have_lines_too(local: Site[ThreadLive]) -> None:
    local.client.post("/v1/chat/completions", json={"wrong": 1}, headers={"X-Request-Id": "refused"})
    wait_for(lambda: any(line.get("id") == "refused" for line in local.logged()))
    (line,) = [line for line in local.logged() if line.get("id") == "refused"]
    assert (line["status"], line["outcome"]) == (400, "refused")
    assert "messages" in line["message"]


def test_prompts_are_logged_only_where_that_was_asked_for() -> None:
    with serving(ThreadLive(engine(raving())), Settings(log_prompts=True)) as site:
        site.chat(messages=[{"role": "user", "content": "my secret"}], max_tokens=1)
        wait_for(lambda: "my secret" in site.log.getvalue())


def test_keys_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# two of them\n{KEY}\n\n  {OTHER}\n")
    file.chmod(0o600)
    assert read_keys(str(file), {KEY_VARIABLE: "another-key"}) == (KEY, OTHER)
    assert read_keys(None, {KEY_VARIABLE: KEY}) == (KEY,)
    assert read_keys(None, {}) == ()
    for text, complaint in (
        ("# none\n", "has no key"),
        ("short\n", "too short"),
        ("has a space\n", "other characters"),
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=complaint):
            read_keys(str(file), {})
    file.chmod(0o644)
    with pytest.raises(UsageError, match="chmod 600"):
        read_keys(str(file), {})
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_keys(os.fspath(tmp_path / "absent"), {})
    with pytest.raises(UsageError, match=KEY_VARIABLE):
        read_keys(None, {KEY_VARIABLE: "ab"})
