#!/system/bin/sh
# Run by Magisk and KernelSU at the boot after the removal: tunables are new by then, only what was learned is left.
rm -rf /data/misc/brisk
