"""Where the gateway is and how to authenticate, as the command line reads it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Optional
from urllib.parse import urlsplit

DEFAULT_URL = "http://127.0.0.1:8081"
_LOOPBACK = re.compile(r"localhost|::1|(::ffff:)?127(\.\d{1,3}){3}")
_STARTUP_TOKEN = re.compile(r"cordum_local_[0-9A-Za-z]{16,128}")


def find_url(url: Optional[str]) -> str:
    return url or os.environ.get("CORDUM_URL") or DEFAULT_URL


def find_api_key(api_key: Optional[str], url: str) -> Optional[str]:
    return api_key or os.environ.get("CORDUM_API_KEY") or startup_token(url)


def find_tenant(tenant: Optional[str]) -> Optional[str]:
    return tenant or os.environ.get("CORDUM_TENANT") or None


def startup_token(url: str) -> Optional[str]:
    """The token of a gateway on this machine, from `CORDUM_DATA_DIR` or `.cordum`. It is sent to loopback addresses only."""
    if _LOOPBACK.fullmatch(urlsplit(url).hostname or "") is None:
        return None
    try:
        text = (Path(os.environ.get("CORDUM_DATA_DIR") or ".cordum") / "token").read_text("utf-8").strip()
    except (OSError, ValueError):
        return None
    return text if _STARTUP_TOKEN.fullmatch(text) else None
