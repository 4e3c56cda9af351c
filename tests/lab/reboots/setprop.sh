#!/bin/sh
# setprop NAME VALUE: sets it in place, as Android's init does; a persistent property exists in the next boot.
set -eu
place=$(sed -n "s/^$1 //p" /places)
[ -n "$place" ]
{ printf %s "$2" && head -c 92 /dev/zero; } | head -c 92 |
	dd of=/dev/__properties__/properties bs=1 seek="$place" conv=notrunc 2>/dev/null
case $1 in
persist.*)
	mkdir -p /data/property
	printf %s "$2" >"/data/property/$1"
	sync
	;;
esac
