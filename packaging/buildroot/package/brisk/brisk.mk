# make BR2_EXTERNAL=/path/to/brisk/packaging/buildroot: builds the commit that is checked out there.
BRISK_VERSION = $(shell git -C $(BR2_EXTERNAL_BRISK_PATH) rev-parse HEAD)
BRISK_SITE = $(abspath $(BR2_EXTERNAL_BRISK_PATH)/../..)
BRISK_SITE_METHOD = git
BRISK_LICENSE = Apache-2.0
BRISK_LICENSE_FILES = LICENSE

# What a device carries: without charts and laboratory, which are for a workstation.
BRISK_CARGO_BUILD_OPTS = --no-default-features --bin brisk
BRISK_CARGO_INSTALL_OPTS = --no-default-features --bin brisk

define BRISK_USERS
	brisk -1 brisk -1 * - - - brisk responsiveness engine
endef

define BRISK_LINUX_CONFIG_FIXUPS
	$(call KCONFIG_ENABLE_OPT,CONFIG_CONNECTOR)
	$(call KCONFIG_ENABLE_OPT,CONFIG_PROC_EVENTS)
endef

define BRISK_INSTALL_SETTINGS
	$(INSTALL) -D -m 0644 -t $(TARGET_DIR)/usr/share/brisk $(@D)/packaging/brisk.toml
	$(INSTALL) -D -m 0644 $(@D)/packaging/profiles/board.toml $(TARGET_DIR)/usr/lib/brisk/brisk.toml
endef
BRISK_POST_INSTALL_TARGET_HOOKS += BRISK_INSTALL_SETTINGS

define BRISK_INSTALL_INIT_SYSTEMD
	$(INSTALL) -D -m 0644 -t $(TARGET_DIR)/usr/lib/systemd/system $(@D)/packaging/systemd/brisk.service \
		$(@D)/packaging/systemd/brisk-grant.path $(@D)/packaging/systemd/brisk-grant.service \
		$(@D)/packaging/systemd/brisk-boot-record.service $(@D)/packaging/systemd/brisk-boot-hold.service \
		$(@D)/packaging/systemd/brisk-metrics.socket $(@D)/packaging/systemd/brisk-metrics@.service
	$(INSTALL) -D -m 0644 $(@D)/packaging/systemd/notify-reload.conf \
		$(TARGET_DIR)/usr/lib/systemd/system/brisk.service.d/notify-reload.conf
	$(INSTALL) -D -m 0644 $(@D)/packaging/buildroot/package/brisk/brisk.preset \
		$(TARGET_DIR)/usr/lib/systemd/system-preset/50-brisk.preset
endef

define BRISK_INSTALL_INIT_SYSV
	$(INSTALL) -D -m 0755 $(@D)/packaging/buildroot/package/brisk/S80brisk $(TARGET_DIR)/etc/init.d/S80brisk
endef

$(eval $(cargo-package))
