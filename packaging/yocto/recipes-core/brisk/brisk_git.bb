SUMMARY = "Responsiveness engine: the CPU frequency governor answers at once during a launch"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://LICENSE;md5=3b83ef96387f14655fc854ddc3c6bd57"

inherit cargo cargo-update-recipe-crates systemd useradd

# The commit that is checked out beside this layer.
SRC_URI = "git://${BRISK_REPOSITORY};protocol=file;usehead=1"
SRCREV = "${AUTOREV}"
PV = "0.1.0+git"

# Written by `bitbake -c update_crates brisk` from Cargo.lock: one crate a line, with its checksum.
include brisk-crates.inc

# What a device carries: without charts and laboratory, which are for a workstation.
CARGO_BUILD_FLAGS += "--no-default-features --bin brisk"

USERADD_PACKAGES = "${PN}"
USERADD_PARAM:${PN} = "--system --no-create-home --home-dir /var/lib/brisk --shell /sbin/nologin --user-group brisk"

SYSTEMD_SERVICE:${PN} = "brisk.service"
SYSTEMD_AUTO_ENABLE = "enable"

do_install:append() {
    install -D -m 0644 -t ${D}${systemd_system_unitdir} ${S}/packaging/systemd/brisk.service \
        ${S}/packaging/systemd/brisk-grant.path ${S}/packaging/systemd/brisk-grant.service \
        ${S}/packaging/systemd/brisk-boot-record.service ${S}/packaging/systemd/brisk-boot-hold.service \
        ${S}/packaging/systemd/brisk-metrics.socket ${S}/packaging/systemd/brisk-metrics@.service
    install -D -m 0644 ${S}/packaging/systemd/notify-reload.conf ${D}${systemd_system_unitdir}/brisk.service.d/notify-reload.conf
    install -D -m 0644 -t ${D}${datadir}/brisk ${S}/packaging/brisk.toml
    install -D -m 0644 ${S}/packaging/profiles/board.toml ${D}${nonarch_libdir}/brisk/brisk.toml
}

FILES:${PN} += "${systemd_system_unitdir} ${datadir}/brisk ${nonarch_libdir}/brisk"
