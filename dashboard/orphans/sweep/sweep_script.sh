# shellcheck shell=sh
# Without words it tells what it would do; with --apply it does it:  sh THIS [--apply]
# QUARANTINE=DIR sh THIS --apply   sets folders aside in DIR, for log dirs of DIR's mount
#
# Checked here: the time; meta.properties (cluster, node) and the lock of each log dir; that the
# quarantine is this user's own, outside every log dir and on the same mount; and of each folder,
# right before it is moved and once more after it: its name, links, topic id, bytes, newest write,
# mount, open files; before it, that it was not touched since it was seen. What fails after the move goes back.
# NOT checked here, but when this was made: that the broker is not assigned the partition, that it
# does not host it, that no partition of that name lacks a replica, that a living partition is past
# the folder by its own retention, the share of 5 %, to which it adds what lies in the quarantines.
# So it is valid for an hour at most. Not checked at all: files that a process of another container
# has open; a sweep by lowwater itself at the same time.
# It deletes nothing: after a day or more, when nothing is missing, remove the folder that it names.
set -u
LC_ALL=C
export LC_ALL
umask 077
unset CDPATH

# Folders are opened once, checked, and named by their descriptor from then on: whoever may write
# to a folder above could put a link in a path's way. 8 is the log dir, 7 what holds the quarantine,
# 9 the quarantine, 6 the folder at hand.
fd=/proc/$$/fd
me=$(id -u)

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
lying=0
lying_bytes=0
counted='|'
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

# Nobody else may write where this log is made; a link there was planted earlier.
write_log() {
	log=$fd/9/sweep-script.log
	if [ -L "$log" ] || { [ -e "$log" ] && [ "$(stat -c '%u %h %F' "$log")" != "$me 1 regular file" ] &&
		[ "$(stat -c '%u %h %F' "$log")" != "$me 1 regular empty file" ]; }; then
		why="$place/sweep-script.log is a link, or belongs to somebody else"
		return 1
	fi
	why="nothing can be written in $place"
	printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$1" >>"$log" && sync
}

# What a file says, without what steers a terminal.
shown() {
	printf '%s' "$1" | tr -cd 'A-Za-z0-9._-'
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
	sed -n "s/^$1=//p" "$fd/8/meta.properties" | tr -d '\\\r' | sed -n 1p
}

identity() {
	stat -L -c %d:%i "$1" 2>/dev/null
}

# The mount that a descriptor lies on: no rename crosses it, even on the same disk.
mount_of() {
	sed -n 's/^mnt_id:[[:space:]]*//p' "/proc/$$/fdinfo/$1" 2>/dev/null
}

# Opens the folder $2 as descriptor $1, unless it is a link. A failed exec would end a POSIX shell.
open_folder() {
	[ ! -L "$2" ] && [ -d "$2" ] || return 1
	case $1 in
	6) command exec 6<"$2" ;;
	7) command exec 7<"$2" ;;
	9) command exec 9<"$2" ;;
	esac 2>/dev/null || return 1
	[ "$(stat -c %d:%i "$2" 2>/dev/null)" = "$(identity "$fd/$1")" ]
}

# As /proc/locks writes the disk of a descriptor; stat's own number is another one on btrfs.
disk_of() {
	disk=$(sed -n "s/^$(mount_of "$1") [0-9]* \([0-9]*:[0-9]*\) .*/\1/p" "/proc/$$/mountinfo")
	printf '%02x:%02x' "${disk%:*}" "${disk#*:}"
}

# Sets real, broker; fails by 1 with $why, by 2 for what lies on another broker's host.
check_log_dir() {
	[ -f "$log_dir/meta.properties" ] || return 2
	{ command exec 8<"$log_dir"; } 2>/dev/null && real=$(cd -P "$fd/8" && pwd -P) || {
		why='its log dir cannot be opened'
		return 1
	}
	[ ! -L "$fd/8/meta.properties" ] && [ -f "$fd/8/meta.properties" ] || {
		why='its meta.properties is a link or no file'
		return 1
	}
	found=$(property cluster.id)
	[ "$found" = "$CLUSTER_ID" ] || {
		why="its log dir is of cluster $(shown "$found"), not of $CLUSTER_ID"
		return 1
	}
	node=$(property node.id)
	[ -n "$node" ] || node=$(property broker.id)
	[ "$node" = "$broker_id" ] || return 2
	[ -r /proc/locks ] || { why='/proc/locks cannot be read: is this the broker'\''s host?'; return 1; }
	inode=$(stat -c %i "$fd/8/.lock" 2>/dev/null) || inode=none
	broker=
	for _ in 1 2 3 4 5 6 7 8 9 10; do # the list is read in pieces: a lock may be missed while others change
		[ -n "$broker" ] || broker=$(sed -n \
			"s/^[0-9]*: POSIX *ADVISORY *WRITE \([0-9-]*\) $(disk_of 8):$inode .*/\1/p" /proc/locks | sed -n 1p)
	done
	[ -n "$broker" ] || { why='no process here holds the lock of its log dir'; return 1; }
}

# Whether descriptor $1 lies in a log dir, by what is really above it.
lies_in_log_dir() {
	at=$fd/$1
	while [ ! -e "$at/meta.properties" ]; do
		[ "$(identity "$at")" != "$(identity "$at/..")" ] || return 1
		at=$at/..
	done
}

# Whether the log dir lies in descriptor $1.
holds_log_dir() {
	at=$fd/8
	while [ "$(identity "$at")" != "$(identity "$fd/$1")" ]; do
		[ "$(identity "$at")" != "$(identity "$at/..")" ] || return 1
		at=$at/..
	done
}

# Sets place, and there: the descriptor of the quarantine, or of what will hold it. Fails with $why.
check_place() {
	place=${QUARANTINE:-${real%/*}/.lowwater-quarantine}
	place=${place%/}
	name=${place##*/}
	case $place/$name in
	/*/. | /*/..) why="$place is no name of a folder"; return 1 ;;
	/*) ;;
	*) why="the quarantine $place is no absolute path"; return 1 ;;
	esac
	above=$(cd -P "${place%/*}/" 2>/dev/null && pwd -P) && open_folder 7 "$above" || {
		why="there is no folder for the quarantine $place"
		return 1
	}
	place=${above%/}/$name
	there=7
	if [ -e "$fd/7/$name" ] || [ -L "$fd/7/$name" ]; then
		there=9
		open_folder 9 "$fd/7/$name" || { why="$place is a link or no folder"; return 1; }
	fi
	! lies_in_log_dir "$there" || {
		why="the quarantine $place lies inside the log dir $(cd -P "$at" && pwd -P)"
		return 1
	}
	if [ "$there" = 9 ]; then
		check_own || return 1
	fi
	if [ "$(stat -L -c %d "$fd/$there")" != "$(stat -L -c %d "$fd/8")" ] || [ -z "$(mount_of 8)" ] ||
		[ "$(mount_of "$there")" != "$(mount_of 8)" ]; then
		why="$place is not on the mount of $log_dir: name a folder there with QUARANTINE=DIR"
		return 1
	fi
}

# Whoever else may write to the quarantine could put a link, or another folder, in the way.
check_own() {
	! holds_log_dir 9 || { why="the quarantine $place holds a log dir"; return 1; }
	case $(stat -L -c '%u %a' "$fd/9") in
	"$me "*[2367] | "$me "*[2367]?)
		why="others may write to $place: take that right away, or name another with QUARANTINE=DIR"
		return 1
		;;
	"$me "*) ;;
	*)
		why="$place belongs to another user: sweep as that user, or name another with QUARANTINE=DIR"
		return 1
		;;
	esac
	[ -f "$fd/9/sweep.log" ] || [ -f "$fd/9/sweep-script.log" ] || [ -z "$(ls -A "$fd/9/")" ] || {
		why="$place holds other things"
		return 1
	}
}

# The processes that have a file of the folder open or mapped, but this one. Open files are told by device
# and inode: to a broker in a container, or under PrivateTmp=, they have another path.
openers() {
	for process in /proc/[0-9]*; do
		[ "$process" = "/proc/$$" ] && continue
		if find "$process/fd" -type l -exec stat -L -c %d:%i {} + 2>/dev/null |
			grep -F -x -e "$files" >/dev/null ||
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
	files=$(find "$fd/6/." -type f -exec stat -c %d:%i {} +) || {
		why='its files cannot be looked at'
		return 1
	}
	note=
	for process in $(openers "$(cd -P "$fd/6" && pwd -P)"); do
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

# Opens the folder $1 as 6; sets inode.
check_folder() {
	[ ! -L "$1" ] || { why='it is a link'; return 1; }
	[ -d "$1" ] || { why='it is not there any more'; return 1; }
	open_folder 6 "$1" || { why='it is a link, or cannot be opened'; return 1; }
	inode=$(identity "$fd/6")
	[ "$(mount_of 6)" = "$(mount_of 8)" ] || { why='it is a mount'; return 1; }
	odd=$(cd "$fd/6" && find . ! -name . \( ! -type f -o -links +1 -o -name '*.swap' -o -name '*.cleaned' \)) || odd=unreadable
	[ -z "$odd" ] || { why='there is a link, a folder or worse in it, or what a cleaner left'; return 1; }
	found=$(sed -n 's/^topic_id:[[:space:]]*//p' "$fd/6/partition.metadata" 2>/dev/null | tr -d '\r ')
	[ "$found" = "$topic_id" ] || {
		why="its topic id is '$(shown "$found")', judged was $topic_id"
		return 1
	}
	found=$(bytes_in "$fd/6")
	[ "$found" = "$bytes" ] || { why="it holds $found bytes of records, judged were $bytes"; return 1; }
	TZ=UTC0 touch -t "$newest" "$ref" || { why='touch -t failed'; return 1; }
	found=$(find "$fd/6/." -type f -name "$pattern" -newer "$ref") || found=unreadable
	[ -z "$found" ] || { why='it was written to after it was judged'; return 1; }
}

# Whether open folder 6 was put back, or changed otherwise, since an inventory saw it: its ctime tells,
# whatever became of the logs; less what two clocks that agree may differ by. A move sets it anew.
check_touched() {
	touched=$(stat -L -c %Z "$fd/6") && [ "$touched" -lt "$seen_before" ] || {
		why="it was put back, renamed or changed after the inventory that its verdict is of: if it may go \
after all, take a new inventory, collect, analyze and make a new script"
		return 1
	}
}

# Runs $1 for the quarantine beside the log dir, where QUARANTINE names another one.
at_default() {
	chosen=${QUARANTINE-}
	[ -n "$chosen" ] || return 0
	QUARANTINE=
	"$1"
	status=$?
	QUARANTINE=$chosen
	return "$status"
}

# Not in two places: who names another one by each run exceeds the share, and forgets what lies here.
check_default_is_empty() {
	check_place && [ "$there" = 9 ] && [ "$(identity "$fd/9")" != "$(identity "$chosen")" ] || return 0
	for aside in "$fd/9"/*/*/; do
		[ ! -d "$aside" ] || {
			why="folders lie in $place: run it without QUARANTINE, or delete them or put them back first"
			return 1
		}
	done
}

# BROKER LOG_DIR: counts what lies in its quarantines, once, before anything is moved. What this
# script moved there earlier is one of its rows, and counted as such.
count_lying() {
	broker_id=$1 log_dir=$2
	check_log_dir || return 0
	count_in_place
	at_default count_in_place
}

count_in_place() {
	check_place && [ "$there" = 9 ] || return 0
	case $counted in *"|$place|"*) return 0 ;; esac
	counted="$counted$place|"
	for aside in "$fd/9"/*/*/; do
		[ -d "$aside" ] || continue
		name_aside=${aside%/}
		name_aside=${name_aside##*/}
		case $NAMES in
		*"|$name_aside|"*) [ -e "$fd/8/$name_aside" ] || continue ;;
		esac
		lying=$((lying + 1))
		lying_bytes=$((lying_bytes + $(bytes_in "$aside")))
	done
}

# What this script, another one or lowwater's own sweep moved, and somebody put back. No verdict is known
# to be newer than that: this host's clock may have been behind, and nothing here proves it.
check_put_back() {
	[ "$there" = 9 ] && [ -e "$fd/8/$directory" ] || return 0
	if grep -F -e " moved $folder to " "$fd/9/sweep-script.log" >/dev/null 2>&1; then
		why="a script set it aside, and somebody put it back: if it may go after all, take its lines out \
of $place/sweep-script.log"
		return 1
	fi
	if grep -F -e "\"directory\":\"$directory\"" "$fd/9/sweep.log" >/dev/null 2>&1; then
		why="lowwater's own sweep knows it, and whether somebody put it back: sweep it with that"
		return 1
	fi
}

check_share() {
	[ "$lying" -le "$spare" ] && [ "$lying_bytes" -le "$spare_bytes" ] || {
		why="with $lying folders of $lying_bytes bytes that lie in quarantine it is more than the share \
of its broker's folders and bytes: delete them or put them back first"
		return 1
	}
}

# BROKER LOG_DIR DIRECTORY TOPIC_ID BYTES NEWEST PATTERN KIND SEEN_BEFORE SPARE SPARE_BYTES
row() {
	broker_id=$1 log_dir=$2 directory=$3 topic_id=$4 bytes=$5 newest=$6 pattern=$7 kind=$8
	seen_before=$9
	shift 9
	spare=$1 spare_bytes=$2
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
	if ! at_default check_default_is_empty || ! check_place || ! check_share || ! check_put_back || ! check_folder "$fd/8/$directory" || ! check_touched ||
		! check_open; then
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
	if [ "$there" = 7 ]; then
		# mkdir alone tells whether it was there; whose it is now, the check tells once more.
		mkdir "$fd/7/$name" 2>/dev/null
		check_place && [ "$there" = 9 ] || {
			refuse "${why:-$place cannot be made}"
			return
		}
	fi
	if ! mkdir "$fd/9/lock" 2>/dev/null; then
		refuse "another sweep works in $place; if one was killed there, remove $place/lock"
		return
	fi
	held=$fd/9/lock
	item=$(date -u +%Y%m%dT%H%M%S)-$$-$((moved + refused))
	if ! write_log "move $folder to $place/$item/$directory" || ! mkdir "$fd/9/$item"; then
		refuse "$why"
	elif move_checked "$fd/9/$item"; then
		moved=$((moved + 1))
		write_log "moved $folder to $place/$item/$directory"
		printf 'moved %s%s\n' "$folder" "${note:+ ($note)}"
		printf '  undo:   [ ! -e %s ] && mv -n %s %s\n' "$(quote "$folder")" \
			"$(quote "$place/$item/$directory")" "$(quote "${log_dir%/}/")"
		printf '  delete: rm -r %s\n' "$(quote "$place/$item")"
	else
		write_log "not moved $folder: $refusal"
		rmdir "$fd/9/$item" 2>/dev/null
		refuse "$refusal"
	fi
	rmdir "$held"
	held=
}

# Where a rename is not possible mv would copy, and delete the first one; without a byte to write
# it cannot. -n: it replaces nothing.
rename_into() {
	(ulimit -f 0 && mv -n "$1" "$2/") 2>/dev/null
}

# Moves the folder into $1, and back when it is no more the one that was checked. Sets refusal.
move_checked() {
	judged=$inode
	why='it could not be moved'
	rename_into "$fd/8/$directory" "$1"
	if check_folder "$1/$directory" && [ "$inode" = "$judged" ] && check_open; then
		return 0
	fi
	refusal='it could not be moved'
	if [ -e "$1/$directory" ] || [ -L "$1/$directory" ]; then
		[ "$inode" = "$judged" ] || why='another folder had its name when it was moved'
		refusal="$why: put back"
		rename_into "$1/$directory" "$fd/8"
		[ ! -e "$1/$directory" ] || refusal="$why; it could not be put back and lies in $place/$item"
	fi
	return 1
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
