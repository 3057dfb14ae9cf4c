"""Of several things that hold a policy `policies check` names the one that its service tells."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from dashboard.policies.checking import check
from tests.unit.policies.examples import policy
from tests.unit.policies.service_room import REPARTITION, ServiceRoom


def test_a_closed_window_is_named_before_the_read_only_switch(tmp_path: Path) -> None:
    windowed = policy(f'{REPARTITION}\nwindows = ["Sun 14:00-15:00"]', "streams")
    room = ServiceRoom(tmp_path, windowed)  # it is Sunday, 12:00
    service = room.service()

    def both() -> tuple[str, str]:
        service.turn()
        (checked,) = check(service.site, room.live, [windowed])
        return room.status()["state"], str(checked.held_by)

    room.journal.set_read_only(True, "ann", room.clock())
    assert both() == ("outside-window", "no window is open before 2026-03-01T14:00:00.000Z")
    room.clock.now += timedelta(hours=2)
    assert both() == ("waiting", "read_only")
    room.journal.close()
