include $(sort $(wildcard $(BR2_EXTERNAL_BRISK_PATH)/package/*/*.mk))
