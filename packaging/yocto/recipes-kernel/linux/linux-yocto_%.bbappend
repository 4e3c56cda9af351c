# Process events, by which brisk notices launches.
FILESEXTRAPATHS:prepend := "${THISDIR}/files:"
SRC_URI += "${@'file://brisk.cfg' if d.getVar('BRISK_PROCESS_EVENTS') == '1' else ''}"
