"""The pages in Streamlit's own test harness, over a synthetic store."""

from __future__ import annotations

import functools
import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.components.v2 import manifest_scanner
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.scriptrunner.script_cache import ScriptCache
from streamlit.runtime.scriptrunner_utils.script_run_context import ScriptRunContext
from streamlit.testing.v1 import AppTest

from dashboard.core.clock import utc_now
from dashboard.purge.forecast import forecast as forecasts
from dashboard.purge.forecast.forecast import judge
from dashboard.purge.jobs import approving, queue
from dashboard.purge.journal.journal import Journal
from dashboard.purge.plan import drafts
from dashboard.purge.plan.drafts import PlanRequest
from dashboard.purge.plan.plan import Plan
from dashboard.settings.settings import PurgeSettings
from dashboard.store.snapshots import ClusterStore, Store
from dashboard.ui.session import access, context
from tests.support import sample_store
from tests.unit.purge.forecasts import EVEN, reading

REPOSITORY = Path(__file__).parent.parent.parent
Open = Callable[..., AppTest]
OTHER = "aNoTheRCLusTer000000x2"  # a second cluster in the data folder
VIEWER, OPERATOR, APPROVER = "eve@example.org", "bob@example.org", "ann@example.org"
Sign = Callable[[str | None], None]
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")  # CommonMark: any ASCII punctuation


@pytest.fixture(scope="package", autouse=True)
def components_found_once() -> Iterator[None]:
    """Each test harness reads all installed packages' metadata anew, half a second of each test."""
    with pytest.MonkeyPatch.context() as patched:
        found = functools.cache(manifest_scanner.scan_component_manifests)
        patched.setattr(manifest_scanner, "scan_component_manifests", found)
        yield


@pytest.fixture(scope="package", autouse=True)
def pages_compiled_once() -> Iterator[None]:
    """Each test harness compiles the pages that it runs anew: a server does so once."""
    with pytest.MonkeyPatch.context() as patched:
        compiled = functools.partial(ScriptCache.get_bytecode, ScriptCache())
        patched.setattr(ScriptCache, "get_bytecode", lambda _, path: compiled(path))
        yield


@pytest.fixture
def open_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """`open_page(page, variant, **query)`: the page as a first visitor sees it."""

    def open_it(page: str = "overview", variant: str | None = "plain", **query: str) -> AppTest:
        data = tmp_path / "data"
        if variant is not None and not data.exists():
            sample_store.write(data, variant)
        monkeypatch.setenv("LOWWATER_DATA", str(data))
        monkeypatch.setenv("LOWWATER_STATE_DIR", str(tmp_path / "state"))
        monkeypatch.setenv("LOWWATER_OPERATOR", "ada")
        new_server()
        app = AppTest.from_file(str(REPOSITORY / "dashboard" / "app.py"), default_timeout=280)
        if page != "overview":
            app.switch_page(f"../pages/{page}.py")
        for name, value in query.items():
            app.query_params[name] = value
        return app.run()

    yield open_it
    new_server()


def new_server() -> None:
    """Forget what the pages' process holds, as one that starts anew."""
    st.cache_resource.clear()
    context.started.cache_clear()


def said(app: AppTest) -> str:
    """All text of a page as it is read: HTML, markdown, captions, labels of links and buttons."""
    assert not app.exception, app.exception
    parts = [str(block.value) for block in app.html]
    marked = [str(block.value) for block in (*app.markdown, *app.caption)]
    marked += [widget.label for widget in (*app.button, *app.page_link)]
    parts += map(read, marked)
    text = "\n".join(parts)
    assert "INTERNAL" not in text, text
    return text


def copied(app: AppTest) -> list[str]:
    """What the page's buttons copy, one text each, in order."""
    found = re.findall(r'lw-copy"><pre><code>(.*?)</code></pre>', said(app), re.DOTALL)
    return [html.unescape(lines) for lines in found]


def read(marked: str) -> str:
    """Markdown text as it is read: without the escapes."""
    return _ESCAPED.sub(r"\1", marked)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[PlanRequest]]:
    """What the page asked to be planned; no cluster is read and no worker is started."""
    from tests.pages.purges import a_plan

    asked: list[PlanRequest] = []

    def drafted(_settings: object, root: str, cluster: str, request: PlanRequest) -> Plan:
        asked.append(request)
        return a_plan(request, ClusterStore(Store(root), cluster))

    monkeypatch.setattr(drafts, "draft", drafted)
    monkeypatch.setattr(forecasts, "forecast", lambda *_: judge(reading(EVEN), {}, PurgeSettings()))
    monkeypatch.setattr(queue, "spawn", lambda *_, **__: 0)
    return asked


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "state" / "journal.sqlite")
    yield opened
    opened.close()


@pytest.fixture
def redrawn(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Every how many seconds parts of the pages redraw themselves; filled as pages are drawn."""
    found: list[float] = []
    enqueue = ScriptRunContext.enqueue

    def noted(self: ScriptRunContext, msg: ForwardMsg) -> None:
        if msg.WhichOneof("type") == "auto_rerun":
            found.append(msg.auto_rerun.interval)
        enqueue(self, msg)

    monkeypatch.setattr(ScriptRunContext, "enqueue", noted)
    return found


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`file(operators=[…], more)`: the settings as they are from now on."""
    path = tmp_path / "lowwater.toml"

    def write(operators: list[str], more: str = "") -> None:
        path.write_text(
            f'[people]\nviewers = ["{VIEWER}"]\noperators = {operators}\n'
            f'approvers = ["{APPROVER}"]\noidc_secrets = "{tmp_path}/oidc.toml"\n{more}\n'
        )

    write([OPERATOR])
    monkeypatch.setenv("LOWWATER_SETTINGS", str(path))
    monkeypatch.setattr(approving, "spawn", lambda *_: 0)
    return write


@pytest.fixture
def sign(file: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Sign:
    """`sign(name)`: whose claims the browser's session has; None: nobody's."""
    claims: dict[str, Any] = {}
    monkeypatch.setattr(access, "claims", lambda: claims)

    def as_name(name: str | None) -> None:
        claims.clear()
        claims["is_logged_in"] = name is not None
        if name is not None:
            claims.update(email=name, email_verified=True, iat=utc_now().timestamp())

    as_name(None)
    return as_name


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """`prod-eu`, and `staging` in which groups hold everything back."""
    sample_store.write(tmp_path / "data")
    sample_store.write(tmp_path / "data", "rich", cluster_id=OTHER, name="staging")
    return tmp_path
