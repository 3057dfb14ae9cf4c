# shellcheck shell=sh
# Without words it tells what it would do; with --apply it does it:  sh THIS [--apply]
# QUARANTINE=DIR sh THIS --apply   sets folders aside in DIR, for log dirs of DIR's mount
#
# Checked here: the time; meta.properties (cluster, node) and the lock of each log dir; that the
# quarantine is outside every log dir and on the same mount; and of each folder, right before it is
# moved: its name, links, topic id, bytes, newest write, mount, open files.
# NOT checked here, but when this was made: that the broker is not assigned the partition, that it
# does not host it, that no partition of that name lacks a replica, the share of 5 %. So it is valid
# for an hour at most. Not checked at all: files that a process of another container has open; a
# change between the last check and the move; a sweep by lowwater itself at the same time.
# It deletes nothing: after a day or more, when nothing is missing, remove the folder that it names.
set -u
LC_ALL=C
export LC_ALL
umask 077

apply=no
case ${1-} in
--apply) apply=yes ;;
'') ;;
*)
	printf 'usage: sh %s [--apply]\n' "$0" >&2
	exit 1
	;;
esac

moved=0
refused=0
elsewhere=0
place=
ref=
held=

quote() {
	printf "'%s'" "$(printf '%s' "$1" | sed "s/'/'\\\\''/g")"
}

stop() {
	printf 'stopped: %s\n' "$1" >&2
	exit 3
}

refuse() {
	refused=$((refused + 1))
	printf 'refused %s/%s: %s\n' "$log_dir" "$directory" "$1"
}

clean_up() {
	[ -z "$ref" ] || rm -f "$ref"
	[ -z "$held" ] || rmdir "$held" 2>/dev/null
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

write_log() {
	printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$1" >>"$place/sweep-script.log" && sync
}

check_time() {
	now=$(date -u +%s)
	case $now in
	'' | *[!0-9]*) stop 'date has no %s: the time cannot be checked' ;;
	esac
	[ "$now" -lt "$VALID_UNTIL" ] || stop "it was valid until $VALID_UNTIL_TEXT: make a new one"
	[ "$now" -ge "$((MADE_AT - 300))" ] || stop 'the clock of this host is behind'
	stat -c %d / >/dev/null 2>&1 || stop 'stat -c is needed (GNU or busybox)'
}

property() {
	sed -n "s/^$1=//p" "$log_dir/meta.properties" | tr -d '\\\r' | sed -n 1p
}

mount_of() {
	df -P "$1" 2>/dev/null | sed -n '2s/.*% *//p'
}

# Sets real, broker; fails by 1 with $why, by 2 for what lies on another broker's host.
check_log_dir() {
	[ -f "$log_dir/meta.properties" ] || return 2
	real=$(cd "$log_dir" && pwd -P) || { why='its log dir cannot be entered'; return 1; }
	[ "$(property cluster.id)" = "$CLUSTER_ID" ] || {
		why="its log dir is of cluster $(property cluster.id), not of $CLUSTER_ID"
		return 1
	}
	node=$(property node.id)
	[ -n "$node" ] || node=$(property broker.id)
	[ "$node" = "$broker_id" ] || return 2
	[ -r /proc/locks ] || { why='/proc/locks cannot be read: is this the broker'\''s host?'; return 1; }
	inode=$(stat -c %i "$log_dir/.lock" 2>/dev/null) || inode=none
	broker=$(sed -n "s/^[0-9]*: POSIX *ADVISORY *WRITE \([0-9-]*\) [0-9a-f]*:[0-9a-f]*:$inode .*/\1/p" \
		/proc/locks | sed -n 1p)
	[ -n "$broker" ] || { why='no process here holds the lock of its log dir'; return 1; }
}

# Sets place: outside every log dir, on the same mount. Fails with $why.
check_place() {
	place=${QUARANTINE:-${real%/*}/.lowwater-quarantine}
	above=$(cd "$(dirname "$place")" 2>/dev/null && pwd -P) || {
		why="there is no folder for the quarantine $place"
		return 1
	}
	place=${above%/}/$(basename "$place")
	if [ -L "$place" ] || { [ -e "$place" ] && [ ! -d "$place" ]; }; then
		why="$place is a link or no folder"
		return 1
	fi
	at=$place
	while :; do
		if [ -e "$at/meta.properties" ]; then
			why="the quarantine $place lies inside the log dir ${at:-/}"
			return 1
		fi
		[ -n "$at" ] || break
		at=${at%/*}
	done
	case $real/ in
	"$place"/*)
		why="the quarantine $place holds a log dir"
		return 1
		;;
	esac
	if [ -d "$place" ]; then
		above=$place
		if [ ! -f "$place/sweep.log" ] && [ ! -f "$place/sweep-script.log" ] &&
			[ -n "$(ls -A "$place")" ]; then
			why="$place holds other things"
			return 1
		fi
	fi
	if [ "$(stat -c %d "$above")" != "$(stat -c %d "$real")" ] ||
		[ "$(mount_of "$above")" != "$(mount_of "$real")" ]; then
		why="$place is not on the mount of $log_dir: name a folder there with QUARANTINE=DIR"
		return 1
	fi
}

# The processes that have a file of the folder open or mapped, but this one.
openers() {
	for process in /proc/[0-9]*; do
		[ "$process" = "/proc/$$" ] && continue
		# shellcheck disable=SC2010 # the text after the arrow is wanted, and it is only searched
		if ls -l "$process/fd" 2>/dev/null | grep -F -e " -> $1/" >/dev/null ||
			grep -F -e " $1/" "$process/maps" >/dev/null 2>&1; then
			printf '%s ' "${process#/proc/}"
		fi
	done
}

check_open() {
	ls "/proc/$broker/fd" >/dev/null 2>&1 || {
		why='the files that the broker has open cannot be seen: run it as root or its user'
		return 1
	}
	note=
	for process in $(openers "$real/$directory"); do
		if [ "$process" = "$broker" ] && [ "$kind" = stray ]; then
			note='the broker holds its files open: their bytes come back when it restarts'
		else
			why="its files are open in process $process"
			return 1
		fi
	done
}

bytes_in() {
	total=0
	for file in "$1"/*.log; do
		[ -f "$file" ] || continue
		total=$((total + $(stat -c %s "$file")))
	done
	printf '%s' "$total"
}

check_folder() {
	[ ! -L "$folder" ] || { why='it is a link'; return 1; }
	[ -d "$folder" ] || { why='it is not there any more'; return 1; }
	[ "$(stat -c %d "$folder")" = "$(stat -c %d "$real")" ] || { why='it is a mount'; return 1; }
	odd=$(cd "$folder" && find . ! -name . \( ! -type f -o -links +1 \)) || odd=unreadable
	[ -z "$odd" ] || { why='there is a link, a folder or worse in it'; return 1; }
	found=$(sed -n 's/^topic_id:[[:space:]]*//p' "$folder/partition.metadata" 2>/dev/null | tr -d '\r ')
	[ "$found" = "$topic_id" ] || { why="its topic id is '$found', judged was $topic_id"; return 1; }
	found=$(bytes_in "$folder")
	[ "$found" = "$bytes" ] || { why="it holds $found bytes of records, judged were $bytes"; return 1; }
	TZ=UTC0 touch -t "$newest" "$ref" || { why='touch -t failed'; return 1; }
	found=$(find "$folder/." -type f -name "$pattern" -newer "$ref") || found=unreadable
	[ -z "$found" ] || { why='it was written to after it was judged'; return 1; }
}

# BROKER LOG_DIR DIRECTORY TOPIC_ID BYTES NEWEST PATTERN KIND
row() {
	broker_id=$1 log_dir=$2 directory=$3 topic_id=$4 bytes=$5 newest=$6 pattern=$7 kind=$8
	folder=$log_dir/$directory
	why=
	check_time
	check_log_dir
	case $? in
	0) ;;
	2)
		elsewhere=$((elsewhere + 1))
		return
		;;
	*)
		refuse "$why"
		return
		;;
	esac
	if ! check_place || ! check_folder || ! check_open; then
		refuse "$why"
		return
	fi
	if [ "$apply" = no ]; then
		moved=$((moved + 1))
		printf 'would move %s to %s%s\n' "$folder" "$place" "${note:+ ($note)}"
		return
	fi
	set_aside
}

set_aside() {
	mkdir "$place" 2>/dev/null
	if ! mkdir "$place/lock" 2>/dev/null; then
		refuse "another sweep works in $place; if one was killed there, remove $place/lock"
		return
	fi
	held=$place/lock
	item=$place/$(date -u +%Y%m%dT%H%M%S)-$$-$((moved + refused))
	if ! write_log "move $folder to $item/$directory" || ! mkdir "$item"; then
		refuse "nothing can be written in $place"
	elif mv "$folder" "$item/$directory" && [ -d "$item/$directory" ] && [ ! -e "$folder" ]; then
		moved=$((moved + 1))
		write_log "moved $folder to $item/$directory"
		printf 'moved %s%s\n' "$folder" "${note:+ ($note)}"
		printf '  undo:   [ ! -e %s ] && mv %s %s\n' \
			"$(quote "$folder")" "$(quote "$item/$directory")" "$(quote "$folder")"
		printf '  delete: rm -r %s\n' "$(quote "$item")"
	else
		write_log "not moved $folder"
		rmdir "$item" 2>/dev/null
		refuse 'it could not be moved'
	fi
	rmdir "$held"
	held=
}

finish() {
	if [ "$apply" = no ]; then
		printf '%s folders would be moved, %s are refused; --apply does it\n' "$moved" "$refused"
	else
		printf '%s folders were moved, %s are refused\n' "$moved" "$refused"
	fi
	[ "$elsewhere" -eq 0 ] || printf '%s are of other brokers or log dirs: not on this host\n' "$elsewhere"
	[ "$moved" -eq 0 ] && [ "$((refused + elsewhere))" -gt 0 ] && exit 3
	[ "$refused" -eq 0 ] && exit 0
	[ "$apply" = no ] && exit 0
	exit 2
}

check_time
ref=$(mktemp) || stop 'mktemp failed'
