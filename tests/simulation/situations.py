"""Situations that chance alone would hardly bring about: one in some seeds, each from its own dice.

Each is a way in which what is read of a cluster, or of the own host, is not what is true. Where one
holds records back before anything is sent, faults have nothing to strike: one in 200 has none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from dashboard.domain.model import TopicPartition
from tests.simulation.coordinators import fail_to_load, of_group
from tests.simulation.faults import Host
from tests.simulation.joining import Joined, Joining
from tests.simulation.world import World

# Each stands for a share of all seeds; the rest has none of them. They are spread evenly: how many
# seeds out of a few hundred are about one of them is no matter of luck.
SHARES = {
    "log restarted": 0.03,
    "offsets set by hand": 0.02,
    "old coordinator": 0.04,
    "old metadata": 0.045,
    "waived group lives": 0.03,
    "accepted group moves back": 0.03,
    "pattern": 0.03,
    "asked by name": 0.03,
    "clocks apart": 0.03,
    "old record times": 0.03,
    "journal restored": 0.04,
    "cancelled for good": 0.02,
    "topic made anew": 0.05,
    "log start forgotten": 0.025,
    "load failed": 0.03,
    "moved between looks": 0.025,
    "older tail": 0.03,
    "collector dead": 0.035,
    "old leader": 0.045,
    "wrong side": 0.04,
    "topics hidden": 0.045,
    "bytes kept": 0.045,
    "kept of old topics": 0.03,
    "application starts": 0.025,
    "waived group came by": 0.02,
    "tail lost": 0.025,
    "taken over": 0.02,
    "made anew elsewhere": 0.03,
    "taken over by one gone": 0.04,
    "followers stop": 0.015,
    "begun anew": 0.02,
    "died unmet": 0.015,
    "offset of an earlier topic": 0.015,
}
# Of these only the leader epochs of commits tell, which clients before Kafka 2.1 do not send.
REWRITTEN = ("log restarted", "older tail")
# A broker that is gone for long leaves its partitions under-replicated, and guards see that: here
# some partitions have no replica on it.
APART = ("old coordinator", "old metadata")
FOUR = ("taken over", "taken over by one gone")
SPREAD = ("journal restored", "begun anew")  # over several partitions of each topic
LONE = (*APART, "log start forgotten")  # a partition with one replica
TOLD_OF_OLD = ("topic made anew", "old leader")
ASKING = ("pattern", "asked by name", "application starts", "died unmet")
OUT_OF_SIGHT = ("load failed", "moved between looks", "topics hidden")
SOON = (
    "waived group lives", "waived group came by", "accepted group moves back",
    "offsets set by hand", "cancelled for good", "made anew elsewhere", *OUT_OF_SIGHT, *ASKING,
)  # fmt: skip
# Seconds until a worker takes the run, where what happens in between takes its time.
WAITS = {
    **dict.fromkeys(SOON, 5.0),
    **dict.fromkeys((*LONE, "old leader", "taken over"), 25.0),
    "taken over by one gone": 35.0,
    "topic made anew": 40.0,
    "bytes kept": 45.0,
    "tail lost": 70.0,  # the new log has grown past what groups read of the old one
}
_HOUR = 3600.0
_GOLDEN = 0.6180339887498949


def of_seed(seed: int) -> str:
    """The situation of one seed, "" where it has none: by multiples of the golden ratio."""
    left = seed * _GOLDEN % 1
    for name, share in SHARES.items():
        left -= share
        if left < 0:
            return name
    return ""


@dataclass
class Situation:
    """What is special about one seed, if anything is. `early`: before a worker comes."""

    kind: str
    rng: Random
    world: World
    joining: Joining
    early: bool = field(init=False)
    restored: str = field(init=False)  # how a journal is put back

    def __post_init__(self) -> None:
        self.early = self.rng.random() < 0.5
        self.restored = self.rng.choice(("alone", "soon", "late"))
        if self.restores:  # of what nothing was sent, a plan's own life takes care
            self.early = self.early and self.restored == "alone"

    # -- before the plan

    @property
    def window(self) -> float:
        """The replay window of every topic in seconds; 0: none."""
        return 2 * _HOUR if self.kind in ("clocks apart", "old record times") else 0.0

    @property
    def waits(self) -> tuple[float, ...]:
        """Until a worker takes the run: long enough for what happens in between."""
        if self.restores and self.early:
            return (5.0,)
        return (WAITS[self.kind],) if self.kind in WAITS else ()

    @property
    def waives(self) -> bool:
        return self.kind in ("waived group lives", "waived group came by")

    @property
    def restores(self) -> bool:
        """Whether the journal is put back from a copy once the run was cancelled."""
        return self.kind == "journal restored"

    @property
    def accepts(self) -> bool:
        """Whether somebody accepts by name what group b has not read, up to the high watermark."""
        return self.kind in ("accepted group moves back", "log start forgotten")

    @property
    def keeps(self) -> int:
        """How many bytes of each partition stay, whatever groups have read; 0: that is not asked.

        A record is a byte.
        """
        return 30 if self.kind == "bytes kept" else 0

    @property
    def aged(self) -> bool:
        """Whether what is remembered of groups may be too old."""
        return self.kind == "collector dead"

    def before(self) -> None:  # noqa: PLR0912  # one for each of them
        """What happened before the plan is made, and is not seen any more."""
        rng, world = self.rng, self.world
        world.splits_when_sent = self.kind in ("wrong side", "made anew elsewhere")
        world.recreates_when_split = self.kind == "made anew elsewhere"
        world.stops_when_sent = self.kind == "followers stop"
        if self.kind == "log restarted":
            for key in sorted(world.parts):
                if rng.random() < 0.7:
                    self._restart(key)
        elif self.kind == "older tail":
            for key in sorted(world.parts):
                self._tail(key)
        elif self.window:
            self._tell_times()
            self._spread()
        elif self.kind == "log start forgotten":
            self._shorten()
        elif self.kind == "waived group came by":  # it has much to lose
            self._starts_over("b")
        elif self.keeps:
            world.traffic = False  # what is lost stays lost
            for key in sorted(world.parts):
                self._measure(key)
        elif self.kind == "offset of an earlier topic":
            self._keep_offsets()
        elif self.kind in ASKING and self.early:
            self._come_upon(rng.choice(sorted(world.parts)))
        elif self.kind in ("old coordinator", "moved between looks", "topics hidden", *TOLD_OF_OLD):
            self._coordinate()

    def _keep_offsets(self) -> None:
        """Topics are made anew, and a coordinator that was loading meanwhile has kept what groups
        had committed. Group b has begun anew since; the others have yet to.
        """
        world, rng = self.world, self.rng
        world.tells_ids = True
        for key, part in sorted(world.parts.items()):
            world.commit("a", key, max(1, part.high_watermark))
        for topic in sorted({key.topic for key in world.parts}):
            world.recreate(topic, filled=rng.randint(2_000, 5_000))
        for key, part in sorted(world.parts.items()):
            world.commit("b", key, rng.randint(1_000, part.high_watermark))
        kept = {g: by for g, by in world.groups.items() if g != "b"}
        world.say(f"offsets of the earlier topics are listed still: {kept}")
        world.note_ends()

    def _shorten(self) -> None:
        """Somebody has purged each log, and no broker has written that down."""
        for key, part in sorted(self.world.parts.items()):
            (replica,) = part.replicas.values()
            replica.start = self.rng.randint(replica.end // 3, replica.end)
            self.world.say(f"{key.topic}-{key.partition} starts at {replica.start}, since now")

    def _tell_times(self) -> None:
        world, rng = self.world, self.rng
        if self.kind == "clocks apart":
            world.host_ahead = rng.choice((0.5, 2.0, 24.0, -0.5, -24.0)) * _HOUR
            world.say(f"this host's clock is {world.host_ahead / _HOUR:g} h ahead")
        else:
            world.event_age = rng.choice((2.0, 24.0, 24.0 * 365)) * _HOUR
            world.say(f"records bear times of {world.event_age / _HOUR:g} h ago (CreateTime)")

    def _coordinate(self) -> None:
        """Where two list a group, the last one asked must not be right by chance; and of what moves
        between two looks the later one must have had it. Who tells of what is old must list none,
        since that alone would keep anybody from a purge.
        """
        world = self.world
        numbers = world.coordinators if self.kind in TOLD_OF_OLD else [of_group(self._group)]
        world.coordinators.update(dict.fromkeys(numbers, max(world.brokers)))
        for broker_id, broker in world.brokers.items():
            broker.coordinates = {n for n, b in world.coordinators.items() if b == broker_id}

    def _spread(self) -> None:
        """Records of three hours, and groups that have read most of them."""
        world, rng = self.world, self.rng
        for key, part in sorted(world.parts.items()):
            part.spread(rng, 3 * _HOUR)
            for group_id in [g for g, by in world.groups.items() if key in by]:
                end = part.high_watermark
                world.commit(group_id, key, rng.randint(end * 3 // 5, end))
        world.note_ends()

    @property
    def _group(self) -> str:
        """The one that something happens to: of those that read everything, or one that is new. Who
        was met before and is listed no more is missed anyway.
        """
        return "new" if self.kind in ("moved between looks", "load failed") else "a"

    def _restart(self, key: TopicPartition) -> None:
        """It ends below the offsets that groups committed, until they have read it anew; or it has
        grown past them since, and only the leader epoch of a commit tells that they did not.
        """
        world, part = self.world, self.world.parts[key]
        if self.rng.random() < 0.6:
            left = self.rng.choice((0, self.rng.randint(0, part.high_watermark)))
            world.restart(key, part.high_watermark + self.rng.randint(0, 300), left)
            return
        filled = max(50, part.high_watermark // 2)
        far = self.rng.choice((1_000, 9_000, 1_000_000))
        world.restart(key, filled)
        for group_id in [g for g, by in world.groups.items() if key in by]:
            if self.rng.random() < 0.3:
                world.commit(group_id, key, self.rng.randint(filled // 2, filled))
            else:
                world.groups[group_id][key] += far + part.high_watermark

    def _tail(self, key: TopicPartition) -> None:
        """Two unclean elections: groups have read on in an epoch of which the log has nothing now.

        The leader of that one had missed the end of the log, and the one that leads now has it; so
        the older epoch, which it answers instead, reaches further than what they committed.
        """
        world, part = self.world, self.world.parts[key]
        end, lost = part.high_watermark, part.epoch + 1
        if end < 10:
            return
        missed = self.rng.randint(end // 4, end // 2)
        for group_id in [g for g, by in world.groups.items() if key in by]:
            world.commit(group_id, key, self.rng.randint(missed + 1, end))
            read = world.has_read[group_id][key]
            seen = [(epoch, first) for epoch, first in read.epochs if first < missed]
            world.has_read[group_id][key] = replace(read, epochs=(*seen, (lost, missed)))
        part.epoch = lost
        world.lead(part, part.leader)
        world.say(f"{key.topic}-{key.partition}: what epoch {lost} wrote from {missed} on is lost")

    def _measure(self, key: TopicPartition) -> None:
        """Groups have read everything; a snapshot saw more of its leader's log than followers had.

        It was lost before the plan is made, or it will be; or there was no more to lose.
        """
        rng, world, part = self.rng, self.world, self.world.parts[key]
        for group_id in [g for g, by in world.groups.items() if key in by]:
            world.commit(group_id, key, part.high_watermark)
        if part.leader is None:
            return
        lost, tail = rng.random() < 0.3, rng.choice((0, *(rng.randint(5, 25) for _ in range(3))))
        world.measured[key] = part.log.end + tail, part.epoch
        if lost:
            world.lead(part, part.leader)
            return
        for follower in part.replicas.keys() - {part.leader}:
            world.slow(follower, 9.0)
        part.log.end += tail

    # -- between the plan and the last look

    def after_plan(self, host: Host) -> None:
        """What happens while nobody looks: the worker comes later."""
        key = self.rng.choice(sorted(self.world.parts))
        happens = AFTER_PLAN.get(self.kind)
        if happens is not None:
            happens(self, key, host)

    def _soon(self, act: Callable[[], None]) -> None:
        self.world.later(self.rng.uniform(0.1, 3.0), act)

    def _restart_all(self) -> None:
        for broker in self.world.brokers:
            self._soon(partial(self.world.crash, broker, 2.0))

    def _place(self, key: TopicPartition) -> None:
        far = self.rng.choice((5_000, 1_000_000))
        placed = partial(self._placed, key, far)
        self._soon(partial(self.world.with_coordinator, "placed", placed))

    def _cancel(self, host: Host) -> None:
        rng, world = self.rng, self.world
        world.later(1.0, lambda: host.wish("cancel"))
        world.later(rng.uniform(1.1, 4.0), lambda: host.wish(rng.choice(("pause", None))))

    def _cancel_early(self, host: Host) -> None:
        if self.early:
            self.world.later(2.0, lambda: host.wish("cancel"))

    def _come_upon_late(self, key: TopicPartition) -> None:
        if not self.early:
            self._soon(lambda: self._come_upon(key))

    def _elect_others(self) -> None:
        """Clean elections of what was measured: the new leaders have what is committed alone."""
        for key in sorted(self.world.measured):
            self._soon(partial(self.world.elect, key))

    def _come_upon(self, key: TopicPartition) -> None:
        if self.kind == "application starts":
            self.joining.wait(key.topic)
            return
        if self.kind == "died unmet":
            self.joining.die(key.topic)
            return
        self.joining.come_upon(key.topic, by_pattern=self.kind == "pattern")

    def _cut_off_first(self) -> None:
        """Who is asked first tells of the old topic while another one has taken over where it led;
        or of itself as the leader, which the first broker is of each topic's first partition.
        """
        world, anew = self.world, self.kind == "topic made anew"
        others = sorted(world.brokers)[:-1]  # the last one coordinates all groups
        world.asked_first = self.rng.choice(others) if anew else others[0]
        world.later(2.0, partial(world.cut_off, world.asked_first, 90.0))
        for topic in sorted({key.topic for key in world.parts}) if anew else ():
            world.later(3.0, partial(world.recreate, topic, filled=5000))

    def _cut_off_coordinator(self, *, hidden: bool) -> None:
        """The group's coordinator loses the others, and goes on listing it; it starts over since.

        `hidden`: its successor was down when it was cut off, so its metadata does not name it.
        """
        world, group = self.world, self._group
        old = world.coordinators[of_group(group)]
        if old is None:
            return
        world.asked_first = old if self.rng.random() < 0.8 else None
        ids = sorted(world.brokers)
        heir = ids[(ids.index(old) + 1) % len(ids)]
        if hidden:
            world.crash(heir, 12.5)
            world.later(11.0, lambda: world.cut_off(old, 90.0))
            if self.rng.random() < 0.85:  # it has what the others know of, and tells nobody
                world.later(22.5, lambda: world.hang(heir, 60.0))
        else:
            world.cut_off(old, 90.0)
        world.later(12.0, lambda: self._starts_over(group))

    def _split_off(self) -> None:
        """This host and all brokers but one lose the controllers; that one, which has coordinated
        nothing, takes all groups over, and one of them starts over there.
        """
        world = self.world
        world.later(2.0, partial(world.split_off, max(world.brokers), 90.0))
        world.later(15.0, partial(self._starts_over, self._group))

    def _return_elsewhere(self) -> None:
        """The same, of one that was gone before the others were cut off: nobody calls it alive."""
        world, away = self.world, max(self.world.brokers)
        world.later(0.5, partial(world.crash, away, 20.0))
        world.later(13.0, partial(world.split_off, away, 90.0))
        world.later(24.0, partial(self._starts_over, self._group))

    def _starts_over(self, group: str) -> None:
        world = self.world
        for key in sorted(world.groups.get(group, world.parts)):
            world.with_coordinator(group, partial(world.start_over, group, key))

    def _lose_sight(self) -> None:
        """Nothing tells of the group, which starts over, or of its offsets; none of it an error."""
        rng, world, number = self.rng, self.world, of_group(self._group)
        self._starts_over(self._group)
        if self.kind == "load failed":
            world.later(rng.uniform(0.5, 4.0), partial(fail_to_load, world, number, 60.0))
        elif self.kind == "moved between looks":
            world.moves_when_looked_at = number
        else:
            self._soon(self._hide)

    def _hide(self) -> None:
        """The group's coordinator, alone, has ACLs that do not let us see any topic for a while."""
        world = self.world
        world.hiding = world.coordinators[of_group(self._group)]
        world.asked_first = next(b for b in world.brokers if b != world.hiding)
        world.say(f"broker {world.hiding} hides all topics by its copy of the ACLs")
        world.later(self.rng.choice((80.0, 120.0)), self._show)

    def _show(self) -> None:
        self.world.hiding = None
        self.world.say("its copy is as the others' again")

    def _lives(self, key: TopicPartition) -> None:
        """Group b, which was waived, has a member again; or its offsets were set back."""
        world = self.world
        if self.rng.random() < 0.6:
            topics = tuple(sorted({k.topic for k in world.groups.get("b", {})} | {key.topic}))
            self.joining.enter(Joined("b", "classic", topics, 0.0, 0.0), {})
        else:
            self._starts_over("b")

    def _comes_by(self) -> None:
        """The waived group has a member for a moment, which a snapshot meets, and none again."""
        for topic in sorted({key.topic for key in self.world.parts}):
            self.joining.visit("b", topic)

    def _placed(self, key: TopicPartition, far: int) -> None:
        """A new group is placed past the end, by a tool or a mirror, and has read nothing."""
        part = self.world.parts.get(key)
        if part is not None:
            self.world.commit("placed", key, part.high_watermark + far, read=0)
            self.world.say(f"group placed is set to {part.high_watermark + far} by hand")


# What happens in each situation between the plan and the last look; in others, nothing does.
AFTER_PLAN: dict[str, Callable[[Situation, TopicPartition, Host], None]] = {
    "old coordinator": lambda s, _, __: s._cut_off_coordinator(hidden=False),
    "old metadata": lambda s, _, __: s._cut_off_coordinator(hidden=True),
    "log start forgotten": lambda s, _, __: s._restart_all(),
    "tail lost": lambda s, key, _: s.world.lose(key),
    "waived group lives": lambda s, key, _: s._soon(lambda: s._lives(key)),
    "waived group came by": lambda s, _, __: s._soon(s._comes_by),
    "accepted group moves back": lambda s, _, __: s._soon(lambda: s._starts_over("b")),
    **dict.fromkeys(OUT_OF_SIGHT, lambda s, _, __: s._lose_sight()),
    "offsets set by hand": lambda s, key, _: s._place(key),
    "cancelled for good": lambda s, _, host: s._cancel(host),
    **dict.fromkeys(TOLD_OF_OLD, lambda s, _, __: s._cut_off_first()),
    "journal restored": lambda s, _, host: s._cancel_early(host),
    **dict.fromkeys(ASKING, lambda s, key, _: s._come_upon_late(key)),
    "bytes kept": lambda s, _, __: s._elect_others(),
    "taken over": lambda s, _, __: s._split_off(),
    "taken over by one gone": lambda s, _, __: s._return_elsewhere(),
}
