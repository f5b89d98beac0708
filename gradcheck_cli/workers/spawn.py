"""Ways to start workers: from the warm fork server, or each from scratch where forking is unsafe."""

from __future__ import annotations

import contextlib
import os
import platform
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Sequence
from typing import Protocol

from gradcheck_cli.contract.errors import InternalError, UserError
from gradcheck_cli.workers import wire
from gradcheck_cli.workers.messages import Broken, Exited, Launch, Ready, Started, decode

# How often a server that was killed begins again.
_LIVES = 3
# Seconds that a server gets to end by itself.
_FAREWELL = 1.0
# How XLA itself is told the number of devices.
_DEVICE_COUNT = "xla_force_host_platform_device_count"


class Launcher(Protocol):
    """Starts a worker around a socket; `pid` and `status` are known once it says so."""

    def launch(self, job: int, worker_end: socket.socket) -> None: ...
    def poll(self) -> list[Started | Exited]: ...
    def fileno(self) -> int | None: ...
    def close(self) -> None: ...


def launcher(
    device: str,
    frameworks: Collection[str],
    backend: str | None = None,
    folder: str | None = None,
) -> Launcher:
    """Fork on Linux; elsewhere a forked JAX is not safe, so workers start from scratch."""
    if os.name == "nt":
        raise UserError("cgcheck runs its workers over Unix sockets: use WSL on Windows")
    env = environment(device, backend, frameworks)
    if platform.system() == "Linux":
        return ForkServer(env, frameworks, folder=folder)
    return Spawner(env, folder)


def environment(
    device: str, backend: str | None = None, frameworks: Collection[str] = ("jax",)
) -> dict[str, str]:
    """What every worker's environment says before anything is imported."""
    env = dict(os.environ)
    env["PYTHONDONTWRITEBYTECODE"] = env.get("PYTHONDONTWRITEBYTECODE", "")
    env["MPLBACKEND"] = "Agg"
    env["OPENBLAS_NUM_THREADS"] = "1"
    env["TF_CPP_MIN_LOG_LEVEL"] = "3"
    env["CGCHECK_DEVICE"] = device
    if backend is not None:
        env["KERAS_BACKEND"] = backend
    if device == "cpu" or "jax" not in frameworks:  # beside another's floats JAX only reckons
        env["JAX_PLATFORMS"] = "cpu"
        if _DEVICE_COUNT not in env.get("XLA_FLAGS", ""):
            env.setdefault("JAX_NUM_CPU_DEVICES", "2")  # simulated: some rules count on one
    return env


class ForkServer:
    """The CLI's end of the warm fork server. Starting it does not wait for it."""

    def __init__(
        self,
        env: dict[str, str],
        frameworks: Collection[str],
        program: Sequence[str] = ("-m", "gradcheck_cli.workers.server"),
        folder: str | None = None,
    ) -> None:
        self._program, self._frameworks = program, sorted(frameworks)
        self._env, self._folder = env, folder
        self._lives = _LIVES
        self._working: dict[int, int | None] = {}  # jobs that go on, with their processes
        self._orphans: dict[int, int] = {}  # of a server that was killed
        self._news: list[Started | Exited] = []
        self._control, self._process = self._begun()
        self._reader = wire.Reader()
        self._ready = False
        self.imports = 0

    def launch(self, job: int, worker_end: socket.socket) -> None:
        payload = wire.frame(Launch(job=job))
        with worker_end:
            while True:
                self._wait_ready()
                try:
                    socket.send_fds(self._control, [payload], [worker_end.fileno()])
                    break
                except ConnectionError:
                    self._hear()
                    self._begin_again()
        self._working[job] = None

    def poll(self) -> list[Started | Exited]:
        if not self._hear():
            self._begin_again()
        for job, pid in list(self._orphans.items()):
            if not _is_there(pid):
                del self._orphans[job]
                self._news.append(Exited(job=job, status=-signal.SIGKILL))
        news, self._news = self._news, []
        return news

    def _hear(self) -> bool:
        """Take what the server has said; is it still there?"""
        while select.select([self._control], [], [], 0)[0]:
            try:
                data = self._control.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                return False
            for frame in self._reader.feed(data):
                self._take(decode(frame))
        return True

    def _take(self, message: object) -> None:
        match message:
            case Ready(imports=imports):
                self._ready, self.imports = True, imports
            case Broken(reason=reason):
                raise UserError(f"the workers could not start: {reason}")
            case Started(job=job, pid=pid):
                self._working[job] = pid
                self._news.append(message)
            case Exited(job=job):
                self._working.pop(job, None)
                self._news.append(message)

    def fileno(self) -> int | None:
        return self._control.fileno()

    def close(self) -> None:
        """Without its control the server kills what it forked, and ends; one that does not is killed."""
        self._control.close()
        try:
            self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _wait_ready(self) -> None:
        while not self._ready:
            select.select([self._control], [], [])
            if not self._hear() and not self._ready:
                raise InternalError("the fork server died while importing the framework")

    def _begun(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        """A server that begins to import, and our end of its control."""
        control, theirs = socket.socketpair()
        fd = theirs.fileno()
        arguments = [*self._program, str(fd), *self._frameworks]
        process = _python(arguments, fd, self._env, self._folder)
        theirs.close()
        return control, process

    def _begin_again(self) -> None:
        """A new server in place of one that was killed, as a worker may do: at the same descriptor, which stays taken.

        What the old one forked goes on as long as its process is there.
        """
        for job, pid in self._working.items():
            if pid is None:
                self._news.append(Exited(job=job, status=-signal.SIGKILL))
            else:
                self._orphans[job] = pid
        self._working = {}
        self._lives -= 1
        if self._lives < 0:
            raise InternalError("the fork server ended before its work was done, again and again")
        self._process.kill()
        self._process.wait()
        control, self._process = self._begun()
        os.dup2(control.fileno(), self._control.fileno(), inheritable=False)
        control.close()
        self._reader, self._ready = wire.Reader(), False


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


class Spawner:
    """A fresh interpreter for each worker: slower, right everywhere."""

    def __init__(self, env: dict[str, str], folder: str | None = None) -> None:
        self._env = env
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._news: list[Started | Exited] = []

    def launch(self, job: int, worker_end: socket.socket) -> None:
        fd = worker_end.fileno()
        arguments = ["-m", "gradcheck_cli.workers.worker", str(fd)]
        process = _python(arguments, fd, self._env, self._folder)
        worker_end.close()
        self._processes[job] = process
        self._news.append(Started(job=job, pid=process.pid))

    def poll(self) -> list[Started | Exited]:
        news, self._news = self._news, []
        for job, process in list(self._processes.items()):
            if process.poll() is not None:
                del self._processes[job]
                news.append(Exited(job=job, status=process.returncode))
        return news

    def fileno(self) -> int | None:
        return None

    def close(self) -> None:
        for process in self._processes.values():
            with contextlib.suppress(OSError):  # it leads a group of its own
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _python(
    arguments: Sequence[str], fd: int, env: dict[str, str], folder: str | None
) -> subprocess.Popen[bytes]:
    """A silent interpreter in a session of its own, which gets one of our descriptors."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        pass_fds=[fd],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=env,
        start_new_session=True,
    )
