"""Counts for Prometheus, in its text format; no word of what anybody asked."""

from collections import Counter
from collections.abc import Iterable
from typing import Any


class Metrics:
    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    def count(self, scope: Any, status: int, seconds: float) -> None:
        """By the route's own pattern: what a stranger invents must not grow the table."""
        route = getattr(scope.get("route"), "path", None) or "other"
        self.requests[route, status] += 1
        self.seconds[route] += seconds  # type: ignore[assignment]  # a counter of floats

    def wrote(self, model: str, n_tokens: int) -> None:
        self.tokens[model] += n_tokens

    def text(self, entries: Iterable[Any]) -> str:
        lines = ["# TYPE regard_requests_total counter"]
        lines += [
            f'regard_requests_total{{route="{route}",status="{status}"}} {count}'
            for (route, status), count in sorted(self.requests.items())
        ]
        lines.append("# TYPE regard_request_seconds_total counter")
        lines += [
            f'regard_request_seconds_total{{route="{route}"}} {total:.6f}' for route, total in self.seconds.items()
        ]
        lines.append("# TYPE regard_tokens_total counter")
        lines += [f'regard_tokens_total{{model="{quoted(name)}"}} {count}' for name, count in self.tokens.items()]
        for name in ("waiting", "running"):
            lines.append(f"# TYPE regard_jobs_{name} gauge")
            for entry in entries:
                count = getattr(entry.engine, f"n_{name}")
                lines.append(f'regard_jobs_{name}{{model="{quoted(entry.name)}"}} {count}')
        return "\n".join(lines) + "\n"


def quoted(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
