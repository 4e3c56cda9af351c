# shellcheck shell=sh
# Sourced by the installers of Magisk and KernelSU, which define ui_print, abort, set_perm, set_perm_recursive and variables:
# shellcheck disable=SC2154
case $ARCH in
arm64) binary=brisk-aarch64 ;;
x64) binary=brisk-x86_64 ;;
*) abort "brisk: no binary for $ARCH; this module serves 64-bit ARM and x86 devices" ;;
esac

mkdir -p "$MODPATH/system/bin"
mv "$MODPATH/bin/$binary" "$MODPATH/system/bin/brisk"
rm -r "${MODPATH:?}/bin"
set_perm "$MODPATH/system/bin/brisk" 0 2000 0755

"$MODPATH/system/bin/brisk" --version >/dev/null || abort "brisk: the binary does not run on this device"
cpus=${BRISK_CPUS:-/sys/devices/system/cpu}
[ -d "$cpus/cpufreq" ] || [ -d "$cpus/cpu0/cpufreq" ] ||
	abort "brisk: this kernel has no cpufreq ($cpus/cpufreq), so the module has no effect"

# Read from there (/data/adb/modules/brisk/etc); the user's settings override it, and persist across updates of the module.
set_perm_recursive "$MODPATH/etc" 0 0 0755 0644
mkdir -p "${BRISK_SETTINGS:=/data/misc/brisk-config}"

ui_print "- settings: $BRISK_SETTINGS/brisk.toml, overrides $MODPATH/etc/brisk.toml"
ui_print "- after the reboot: su -c brisk doctor"
