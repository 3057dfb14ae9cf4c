"""axe-core, the accessibility checker, fetched once by npm and kept in the user's cache folder."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import tarfile

from platformdirs import user_cache_path
from playwright.sync_api import Page

VERSION = "4.14.1"
_SHA512 = "FHfa+lmNjQZfJz1q8wKqIDwC6DExcHt/pkjNQb09a3NPjCKg2rhu5qb2S4r76ASyFNNtuFooJpZe37OgudVGtQ=="
_CHECK = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"]});
    return found.violations.flatMap(violation => violation.nodes.map(node =>
        `${violation.id}: ${node.target.join(" ")}: ${node.html.slice(0, 120)} ` +
        node.any.concat(node.all, node.none).map(check => check.message).join("; ")));
}"""


def source() -> str:
    """The script; fetched by npm when it is not in the cache, and held to its published hash."""
    folder = user_cache_path("lowwater") / f"axe-core-{VERSION}"
    packed = folder / f"axe-core-{VERSION}.tgz"
    if not packed.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        words = ["npm", "pack", f"axe-core@{VERSION}", "--silent", "--pack-destination", folder]
        subprocess.run(words, check=True, cwd=folder, timeout=120, capture_output=True)
    digest = hashlib.sha512(packed.read_bytes()).digest()
    assert base64.b64encode(digest).decode() == _SHA512, f"{packed} is not what npm published"
    with tarfile.open(packed) as files:
        script = files.extractfile("package/axe.min.js")
        assert script is not None
        return script.read().decode()


def violations(page: Page) -> list[str]:
    """Every rule that the page breaks as it stands, with the element; sorted, no two the same."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(source())  # by the debugger: the page's policy lets no such script in
    return sorted(set(page.evaluate(_CHECK)))
