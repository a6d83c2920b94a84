"""One JVM that runs many of Kafka's tools and the scenarios of ``tests/interop/java/driver``.

A JVM takes a second to start and more to warm up; in one that stays, a tool costs what it does. A scenario is
a static method of the driver that prints what it saw, in words that do not depend on time or chance.
"""

import base64
import hashlib
import queue
import shutil
import subprocess
import tempfile
import threading
from pathlib import Path
from types import TracebackType

from tests.support.processes.java_tools import QUICK_START, TOOLS, ToolResult, jars

DRIVER = Path(__file__).resolve().parents[2] / "interop" / "java" / "driver"
COMPILE_TIMEOUT_S = 180


def driver_classes() -> Path:
    """The directory of the driver's classes; compiles them once for each state of its sources."""
    sources = sorted(DRIVER.glob("*.java"))
    key = hashlib.sha256(jars().name.encode())
    for source in sources:
        key.update(source.read_bytes())
    target = jars().parent / f"driver-{key.hexdigest()[:12]}"
    compile_once(sources, jars(), target)
    return target


def compile_once(sources: list[Path], libraries: Path, target: Path) -> None:
    """Compile Java sources unless it was done.

    Several test processes may do it at the same moment: each compiles elsewhere, and the first to move its
    classes into place is believed by all.
    """
    if (target / ".complete").exists():
        return
    fresh = Path(tempfile.mkdtemp(prefix="compiling-", dir=target.parent))
    try:
        command = ["javac", "-nowarn", "-cp", f"{libraries}/*", "-d", str(fresh)]
        done = subprocess.run(
            [*command, *map(str, sources)],
            capture_output=True,
            timeout=COMPILE_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"the driver does not compile:\n{done.stderr.decode()}"
        (fresh / ".complete").touch()
        try:
            fresh.rename(target)
        except OSError:
            assert (target / ".complete").exists(), f"{target} is in the way: remove it"
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def driver_command(
    main: str, *args: str, heap_mb: int = 256, client_log: Path | None = None
) -> list[str]:
    """The command line of a class of the driver in a JVM of its own.

    What Kafka's clients log is part of what a scenario prints to stderr, unless it is asked for in a file.
    """
    logging = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
    if client_log is not None:
        logging = [
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            f"-Dorg.slf4j.simpleLogger.logFile={client_log}",
        ]
    return [
        "java",
        f"-Xmx{heap_mb}m",
        *QUICK_START,
        *logging,
        "-cp",
        f"{driver_classes()}:{jars()}/*",
        main,
        *args,
    ]


class JavaHost:
    """`host.run("Consumers.life", bootstrap, ...)`, `host.tool("kafka-topics", "--list", ...)`."""

    def __init__(self, log_path: Path, *, client_log: Path | None = None) -> None:
        self._log_path = log_path
        self._client_log = client_log
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.Queue[bytes] = queue.Queue()

    def run(self, scenario: str, *args: str, timeout_s: float = 120) -> list[str]:
        """What a scenario printed, line by line; fails when it did."""
        return self._call(scenario, args, timeout_s).check().out.splitlines()

    def tool(self, name: str, *args: str, timeout_s: float = 100) -> ToolResult:
        """What one of Kafka's tools said and how it ended."""
        return self._call(name, args, timeout_s)

    def _call(self, name: str, args: tuple[str, ...], timeout_s: float) -> ToolResult:
        process = self._started()
        assert process.stdin is not None
        words = (TOOLS.get(name, name), *args)
        line = b" ".join(b"." + base64.b64encode(word.encode()) for word in words)
        process.stdin.write(line + b"\n")
        process.stdin.flush()
        try:
            answer = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            self.close()  # whatever hangs there must not answer the next call
            raise AssertionError(f"{name} {args} did not end within {timeout_s} s") from None
        assert answer, f"the JVM ended:\n{self._log_path.read_text()[-4000:]}"
        code, out, err = answer.split()
        return ToolResult(
            command=" ".join((name, *args)),
            code=int(code),
            out=base64.b64decode(out[1:]).decode(errors="replace"),
            err=base64.b64decode(err[1:]).decode(errors="replace"),
        )

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._answers = queue.Queue()
            with self._log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    driver_command("Host", client_log=self._client_log),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                )
            reader = threading.Thread(
                target=_read_lines, args=(self._process, self._answers), daemon=True
            )
            reader.start()
        return self._process

    def stacks(self) -> str:
        """What every thread of the JVM does at this moment."""
        if self._process is None:
            return "no JVM is running"
        command = ["jstack", str(self._process.pid)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"jstack says nothing: {error}"
        return (done.stdout + done.stderr).decode(errors="replace")

    def close(self) -> None:
        """End the JVM; the next call starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with process:  # waits, and closes its pipes
                pass

    def __enter__(self) -> "JavaHost":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _read_lines(process: subprocess.Popen[bytes], answers: "queue.Queue[bytes]") -> None:
    assert process.stdout is not None
    for line in process.stdout:
        answers.put(line)
    answers.put(b"")
