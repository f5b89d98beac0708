"""The server over its own protocol: opened, asked, changed, ended."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any

import pytest

NAIVE = "import jax\nimport jax.numpy as jnp\n\n\ndef f(x):\n    return jnp.log(1 + jnp.exp(x))\n"
URI = "file:///nowhere/model.py"


class Client:
    """An editor as far as a test needs one."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._out: IO[bytes] = process.stdin
        self._in: IO[bytes] = process.stdout
        self._asked = 0

    def tell(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def ask(self, method: str, **params: Any) -> Any:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        return self.until(lambda message: message.get("id") == self._asked)["result"]

    def marks(self) -> list[dict[str, Any]]:
        told = self.until(lambda m: m.get("method") == "textDocument/publishDiagnostics")
        return list(told["params"]["diagnostics"])

    def until(self, wanted: Any) -> dict[str, Any]:
        while True:
            length = 0
            while (line := self._in.readline()).strip():
                name, _, value = line.decode().partition(":")
                length = int(value) if name.lower() == "content-length" else length
            message = json.loads(self._in.read(length))
            if wanted(message):
                return dict(message)

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._out.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self._out.flush()


@pytest.fixture
def client() -> Iterator[Client]:
    command = [sys.executable, "-m", "gradcheck_cli", "server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:  # fmt: skip
        yield Client(process)
        process.kill()


@pytest.mark.slow
def test_an_editor_is_told_asked_and_served(client: Client) -> None:
    offers = client.ask("initialize", processId=None, rootUri=None, capabilities={})["capabilities"]
    assert offers["hoverProvider"]
    client.tell("initialized")
    text = {"uri": URI, "languageId": "python", "version": 1, "text": NAIVE}
    client.tell("textDocument/didOpen", textDocument=text)
    (mark,) = client.marks()
    assert mark["code"] == "naive-softplus"
    hover = client.ask(
        "textDocument/hover", textDocument={"uri": URI}, position=mark["range"]["start"]
    )
    assert "naive-softplus" in hover["contents"]["value"]
    (action,) = client.ask(
        "textDocument/codeAction", textDocument={"uri": URI}, range=mark["range"], context={"diagnostics": []}
    )  # fmt: skip
    assert action["edit"]["changes"][URI][0]["newText"] == "jax.nn.softplus(x)"
    changed = {"uri": URI, "version": 2}
    client.tell(
        "textDocument/didChange", textDocument=changed, contentChanges=[{"text": "x = 1\n"}]
    )
    assert client.marks() == []
    assert client.ask("shutdown") is None
    client.tell("exit")
