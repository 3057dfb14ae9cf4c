"""The page server's entry: the Streamlit script behind the guard of its names.

`streamlit run` finds `app` here; `lowwater dashboard` passes the names with its flags.
"""

from __future__ import annotations

import gc
from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware
from streamlit.runtime import memory_media_file_storage
from streamlit.starlette import App

from dashboard.ui.session import context
from dashboard.web_files import LastingFiles
from dashboard.web_first import FirstNumbers, first_numbers
from dashboard.web_guard import LOOPBACK_NAMES, OwnPagesOnly
from dashboard.web_packed import PackedFiles

_NAMES = st.get_option("server.allowedHosts") or LOOPBACK_NAMES
_ORIGINS = st.get_option("server.corsAllowedOrigins")

memory_media_file_storage.MemoryMediaFileStorage = LastingFiles  # type: ignore[misc]  # App's own
context.started()  # who may look is decided by the settings of now, not of the first visit

app = App(
    Path(__file__).parent / "app.py",
    middleware=[
        Middleware(OwnPagesOnly, names=_NAMES, origins=_ORIGINS),
        Middleware(
            PackedFiles,
            streamlit=Path(st.__file__).parent,
            kept=context.settings().cache_dir / "pages",
        ),
        Middleware(FirstNumbers, numbers=first_numbers),
    ],
)

# Modules stay until the server ends: no later look at what may go need pass them again.
gc.collect()
gc.freeze()
