"""Models from the Hugging Face hub: `hf:owner/name`, and nothing else, goes to the network."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from huggingface_hub import get_session, snapshot_download
from huggingface_hub.errors import RepositoryNotFoundError

from regard.errors import FAILURE, UserError

WANTED = ("*.json", "*.safetensors", "*.txt", "*.model", "*.spm", "*.jinja", "README.md", "LICENSE*")
"Configuration, weights, vocabularies and the model's card; never code, never pickles."
SECONDS = 30.0
"How long the hub may be silent."


def fetch(name: str, revision: str | None = None, *, wanted: Sequence[str] = WANTED) -> Path:
    """The model's directory in the hub's cache, downloaded where it is not there yet.

    `name` may carry a revision, `owner/name@revision`. Without network, what the cache has is used.
    """
    if not re.fullmatch(r"[\w.-]+/[\w.-]+(@\w[\w./-]*)?", name, re.ASCII) or ".." in name or "/." in name:
        hint = "for example hf:openai-community/gpt2; hf:owner/name@revision pins a revision"
        raise UserError(f"{'hf:' + name[:80]!r} is not of the form hf:owner/name", hint)
    name, _, pinned = name.partition("@")
    hint = "without network, give a directory on this computer"
    hooks = get_session().event_hooks
    if _limit not in hooks["request"]:
        get_session().event_hooks = {**hooks, "request": [*hooks["request"], _limit]}
    try:
        return Path(snapshot_download(name, revision=pinned or revision, allow_patterns=list(wanted)))
    except RepositoryNotFoundError:
        raise UserError(f"the hub has no model '{name}', or it is private", "check the spelling") from None
    except Exception as error:  # the network's, the hub's or the disk's: whatever goes wrong in that one call
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].removeprefix("Got: ")
        raise UserError(f"hf:{name} could not be fetched: {reason}", hint, exit_code=FAILURE) from None


def _limit(request: Any) -> None:
    """The library waits for an answer without end; what it does limit stays as it is."""
    given = request.extensions.get("timeout") or {}
    kinds = ("connect", "read", "write", "pool")
    limits = {kind: SECONDS if given.get(kind) is None else given[kind] for kind in kinds}
    request.extensions = {**request.extensions, "timeout": limits}
