#!/bin/sh
# Stops brisk, restores what it has changed, and removes what install.sh has installed, and nothing else.
#
# usage: [PREFIX=/usr/local] [DESTDIR=] ./uninstall.sh [--purge]
#
# --purge also removes what brisk has written since: what `brisk setup`, `brisk enable` and `brisk disable` have set, what the daemon
# has learned and stored, the recorded boot, and its user.
set -eu
PREFIX=${PREFIX:-/usr/local}
DESTDIR=${DESTDIR:-}
place=$DESTDIR$PREFIX
list=$place/lib/brisk/installed

die() {
	printf 'uninstall.sh: %s\n' "$*" >&2
	exit 1
}

case ${1-} in
'' | --purge) purge=${1-} ;;
*) die "it takes --purge or nothing, not '$1'" ;;
esac
[ -f "$list" ] || die "$list is not there: nothing was installed below $place by install.sh"
[ -n "$DESTDIR" ] || [ "$(id -u)" -eq 0 ] || die "root alone may remove what is below $PREFIX"

if [ -z "$DESTDIR" ]; then
	if [ -d /run/systemd/system ]; then
		systemctl disable --now brisk-metrics.socket brisk.service brisk-boot-record.service brisk-boot-hold.service
		systemctl stop brisk-grant.path
	fi
	# Experiments that go on after a reboot end, and what a killed daemon has left is restored.
	"$place/bin/brisk" prove --here --stop >/dev/null 2>&1 || :
	"$place/bin/brisk" restore || die "not everything is restored, so nothing is removed; brisk restore has said why"
fi

entries=$(cat "$list")
for name in $entries; do
	case $name in
	*/) ;;
	*) rm -f "$place/$name" ;;
	esac
done
rm -f "$list"
# Folders that hold other files stay.
for name in $entries; do
	case $name in
	*/) rmdir "$place/$name" 2>/dev/null || : ;;
	esac
done
[ -z "$DESTDIR" ] || exit 0
[ ! -d /run/systemd/system ] || systemctl daemon-reload

if [ -n "$purge" ]; then
	rm -f /etc/brisk/brisk.toml.d/setup.toml /etc/brisk/brisk.toml.d/switched.toml
	for folder in /etc/brisk/brisk.toml.d /etc/brisk; do
		rmdir "$folder" 2>/dev/null || :
	done
	rm -rf /var/lib/brisk /var/lib/brisk-reboots /run/brisk
	rm -f /var/log/brisk-boot.tgz
	if command -v userdel >/dev/null && grep -q '^brisk:.*:/var/lib/brisk:' /etc/passwd; then
		userdel brisk
		! grep -q '^brisk:' /etc/group || groupdel brisk
	fi
fi
