#!/bin/sh
# Installs brisk from the folder that this script lies in, and starts nothing.
#
# usage: [PREFIX=/usr/local] [DESTDIR=] [PROFILE=desktop] ./install.sh
#
# PREFIX is /usr/local or /usr: systemd and brisk look for units and configuration in no other. PROFILE is desktop or board, for
# a kiosk, a panel or infotainment. With DESTDIR the files are put below it, for an image, and nothing is run.
# Another run upgrades. What was installed is listed in PREFIX/lib/brisk/installed, by which uninstall.sh removes it.
set -eu
umask 022
LC_ALL=C
export LC_ALL

PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
PROFILE=${PROFILE:-desktop}
place=$DESTDIR$PREFIX
list=$place/lib/brisk/installed

die() {
	printf 'install.sh: %s\n' "$*" >&2
	exit 1
}

from=$(cd "$(dirname "$0")" && pwd)
case $PREFIX in
/usr | /usr/local) ;;
*) die "PREFIX is $PREFIX: systemd finds units below /usr/local or /usr alone" ;;
esac
[ -d "$from/files" ] || die "$from/files is not there: run the script from the unpacked archive"
case $PROFILE in
desktop | board) ;;
*) die "there is no profile $PROFILE for systemd; there are desktop and board" ;;
esac
[ -n "$DESTDIR" ] || [ "$(id -u)" -eq 0 ] || die "root alone may write to $PREFIX; for a folder of your own set DESTDIR"
[ -n "$DESTDIR" ] || "$from/files/bin/brisk" --version >/dev/null ||
	die "this program does not run here: take the archive for $(uname -m)"

# The files by their names below the prefix. A file that an earlier installation has not put there is another package's.
names=$(cd "$from/files" && find . ! -type d | sed 's|^\./||'; echo lib/brisk/uninstall.sh)
for name in $names; do
	if [ -e "$place/$name" ] && ! grep -qxF "$name" "$list" 2>/dev/null; then
		die "$place/$name is there and is not this script's: remove what installed it first"
	fi
done

# Folders that are made here go with uninstall.sh, the deepest first.
old_files=$(sed -n '/\/$/!p' "$list" 2>/dev/null || :)
old_folders=$(sed -n '/\/$/p' "$list" 2>/dev/null || :)
made=
for folder in $(cd "$from/files" && find . -type d | sed 's|^\./||' | sort); do
	[ "$folder" != . ] || folder=
	[ -d "$place/$folder" ] || {
		mkdir -p "$place/$folder"
		made="$folder/
$made"
	}
done
{
	printf '%s\n' "$names"
	printf '%s\n%s\n' "$made" "$old_folders" | sed '/^$/d' | sort -ru
} >"$list.new"
# From now on uninstall.sh removes what is there, wherever this script ends.
{ cat "$list.new" && printf '%s\n' "$old_files"; } | sed '/^$/d' >"$list"

for name in $names; do
	# Put in place as a whole: the program may be running.
	case $name in
	lib/brisk/brisk.toml) cp -P "$from/files/share/brisk/profiles/$PROFILE.toml" "$place/$name.new" ;;
	lib/brisk/uninstall.sh) sed "s|^PREFIX=.*|PREFIX=\${PREFIX:-$PREFIX}|" "$from/uninstall.sh" >"$place/$name.new" ;;
	lib/systemd/system/*) sed "s|/usr/bin/brisk|$PREFIX/bin/brisk|" "$from/files/$name" >"$place/$name.new" ;;
	*) cp -P "$from/files/$name" "$place/$name.new" ;;
	esac
	case $name in
	bin/* | *.sh) chmod 755 "$place/$name.new" ;;
	*) [ -L "$place/$name.new" ] || chmod 644 "$place/$name.new" ;;
	esac
	mv -f "$place/$name.new" "$place/$name"
done
# What an earlier version had and this one has not.
for name in $old_files; do
	printf '%s\n' "$names" | grep -qxF "$name" || rm -f "$place/$name"
done
mv -f "$list.new" "$list"

[ -z "$DESTDIR" ] || exit 0
if [ -d /run/systemd/system ]; then
	systemd-sysusers "$PREFIX/lib/sysusers.d/brisk.conf"
	systemctl daemon-reload
	systemctl try-restart brisk.service
fi
cat <<END
brisk is installed below $PREFIX.
  brisk doctor                    what this device supports
  systemctl enable --now brisk    start the service
  brisk setup                     what is on and why; asks, and writes it down
  $PREFIX/lib/brisk/uninstall.sh  stop, restore, remove
END
