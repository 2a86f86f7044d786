"""Does a studio stay what it is under many clients who come and go?

    python benchmarks/studio_soak.py --minutes 10 --clients 32 [MODEL ...]

Starts `regard studio` as a child on this machine and lets clients translate, write, look inside and hang up at random.
Every whole answer is held to the first one to the same question. At the end: statuses, wrong answers, what is still
running, and how the memory of the server grew from the end of the first third on. Leaves with 1 if anything is wrong.
"""

import argparse
import http.client
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from harness import machine, report

TEXTS = ["O livro está em cima da mesa.", "Bom dia!", "A casa é grande e a mesa é pequena.", "Onde fica a estação?"]
PROMPTS = ["The capital of France is", "Once upon a time", "One, two, three,"]
REFUSALS = {429, 503}
MOST_GROWTH = 0.10
"Of the server's memory after the first third."

Body = dict[str, Any]


def questions(verbs: set[str]) -> list[tuple[str, Body]]:
    found: list[tuple[str, Body]] = []
    if "translate" in verbs:
        found += [("/api/translate", {"text": text, "beam": beam}) for text in TEXTS for beam in (1, 4)]
        found += [("/translate", {"q": text, "source": "auto", "target": "en"}) for text in TEXTS]
        found += [("/api/attention", {"text": text}) for text in TEXTS[:2]]
        found += [("/api/explain", {"text": TEXTS[0], "layer": 0, "head": 0, "query": 1})]
    if "generate" in verbs:
        found += [("/v1/completions", {"prompt": prompt, "max_tokens": 12, "temperature": 0}) for prompt in PROMPTS]
    if "embed" in verbs:
        found += [("/v1/embeddings", {"input": PROMPTS})]
    return found


def plain(path: str, answer: bytes) -> Any:
    """What must be the same each time; scores may differ by a rounding, and names of answers do."""
    found = json.loads(answer)
    if path == "/api/translate":
        return found["text"]
    if path == "/translate":
        return found["translatedText"]
    if path == "/v1/completions":
        return found["choices"][0]["text"]
    if path == "/v1/embeddings":
        return [[round(x, 3) for x in row["embedding"]] for row in found["data"]]
    return len(found["payloads"])


class Soak:
    def __init__(self, host: str, asked: list[tuple[str, Body]], seconds: float) -> None:
        self.host, self.asked, self.end = host, asked, time.monotonic() + seconds
        self.statuses: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.first: dict[int, Any] = {}
        self.seconds: list[float] = []
        self.lock = threading.Lock()

    def client(self, seed: int) -> None:
        luck = random.Random(seed)
        while time.monotonic() < self.end:
            at = luck.randrange(len(self.asked))
            try:
                self.one(at, luck)
            except (OSError, http.client.HTTPException) as error:
                self.note(type(error).__name__)

    def one(self, at: int, luck: random.Random) -> None:
        path, body = self.asked[at]
        leaves = luck.random() < 0.3
        stream = "stream" in body or (path in ("/api/translate", "/v1/completions") and luck.random() < 0.5)
        began = time.monotonic()
        line = http.client.HTTPConnection(self.host, timeout=300)
        try:
            data = json.dumps({**body, "stream": True} if stream else body)
            line.request("POST", path, data, {"Content-Type": "application/json"})
            if leaves:
                time.sleep(luck.random() * 0.3)
                self.note("left")
                return
            answer = line.getresponse()
            content = answer.read()
        finally:
            line.close()
        self.note(str(answer.status))
        with self.lock:
            self.seconds.append(time.monotonic() - began)
        if answer.status == 200 and not stream:
            found = plain(path, content)
            if self.first.setdefault(at, found) != found:
                self.wrong.append(f"{path} {body}: {found!r} was {self.first[at]!r}")
        elif answer.status == 200 and b"event: error" in content:
            self.wrong.append(f"{path}: {content[-200:]!r}")
        if answer.status in REFUSALS:
            time.sleep(luck.random())

    def note(self, what: str) -> None:
        with self.lock:
            self.statuses[what] += 1


def memory(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def get(host: str, path: str) -> bytes:
    line = http.client.HTTPConnection(host, timeout=300)
    line.request("GET", path)
    try:
        return line.getresponse().read()
    finally:
        line.close()


def post(host: str, path: str, body: Body) -> Any:
    line = http.client.HTTPConnection(host, timeout=600)
    line.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    try:
        return json.loads(line.getresponse().read())
    finally:
        line.close()


def busy(host: str) -> int:
    lines = get(host, "/metrics").decode().splitlines()
    return sum(int(line.split()[-1]) for line in lines if line.startswith("regard_jobs_"))


def watched(pid: int, seconds: float) -> list[int]:
    """The server's memory, a hundred times."""
    found = []
    for _ in range(100):
        time.sleep(seconds / 100)
        found.append(memory(pid))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["pt-en"])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=32)
    given = parser.parse_args()
    command = [sys.executable, "-m", "regard", "studio", *given.models, "--port", "0", "--no-open"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        host = urlsplit(child.stdout.readline().strip()).netloc
        rows = [
            post(host, "/api/load", {"model": row["name"]}) for row in json.loads(get(host, "/api/models"))["models"]
        ]
        soak = Soak(host, questions({verb for row in rows for verb in row["tasks"]}), given.minutes * 60)
        threads = [threading.Thread(target=soak.client, args=(seed,)) for seed in range(given.clients)]
        for thread in threads:
            thread.start()
        sizes = watched(child.pid, given.minutes * 60)
        for thread in threads:
            thread.join()
        time.sleep(2)
        left, ready = busy(host), get(host, "/readyz").decode().strip()
        child.send_signal(signal.SIGTERM)
        code = child.wait(60)
    finally:
        child.kill()
    found, is_bad = judged(soak, sizes, left=left, ready=ready, code=code)
    rows = [[name, json.dumps(value, ensure_ascii=False)] for name, value in found.items()]
    data = {"machine": machine(()), "models": given.models, "clients": given.clients, "minutes": given.minutes, **found}
    note = f"{given.clients} clients for {given.minutes:g} minutes, three in ten of them hang up; memory in MB."
    report("studio_soak", ["what", "found"], rows, data, note)
    return int(is_bad)


def judged(soak: Soak, sizes: list[int], *, left: int, ready: str, code: int) -> tuple[dict[str, Any], bool]:
    growth = sizes[-1] / sizes[len(sizes) // 3] - 1
    waits = sorted(soak.seconds) or [0.0]
    failed = [status for status in soak.statuses if status.startswith("5") and int(status) not in REFUSALS]
    found = {
        "statuses": dict(soak.statuses),
        "wrong": soak.wrong[:5],
        "still running": left,
        "ready": ready,
        "memory after a third and at the end": [sizes[len(sizes) // 3] >> 20, sizes[-1] >> 20],
        "growth": round(growth, 4),
        "seconds, median and 99th of a hundred": [round(waits[int(len(waits) * share)], 2) for share in (0.5, 0.99)],
        "exit code": code,
    }
    return found, bool(soak.wrong or left or code or failed or ready != "ready" or growth > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
