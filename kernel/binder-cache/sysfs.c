// SPDX-License-Identifier: GPL-2.0
/* The administrator's interface: /sys/kernel/binder_cache, debugfs. */

#include <linux/capability.h>
#include <linux/debugfs.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "cache.h"

struct binder_cache_attribute {
	struct attribute attr;
	ssize_t (*show)(struct binder_cache *cache, char *page);
	ssize_t (*store)(struct binder_cache *cache, char *text);
};

static const char * const mode_names[] = {
	[BINDER_CACHE_OFF] = "off",
	[BINDER_CACHE_COOPERATIVE] = "cooperative",
	[BINDER_CACHE_TRANSPARENT] = "transparent",
};

static const char * const policy_names[] = {
	[BC_POLICY_LRU] = "lru",
	[BC_POLICY_LFU] = "lfu",
	[BC_POLICY_PAPER] = "paper",
};

static const char * const count_names[] = {
	[BINDER_CACHE_HITS] = "hits",
	[BINDER_CACHE_MISSES] = "misses",
	[BINDER_CACHE_FILLS] = "fills",
	[BINDER_CACHE_FLUSHES] = "flushes",
	[BINDER_CACHE_REFUSED_FORMAT] = "refused_format",
	[BINDER_CACHE_REFUSED_CALLER] = "refused_caller",
	[BINDER_CACHE_REFUSED_LSM] = "refused_lsm",
	[BINDER_CACHE_REFUSED_BUFFER] = "refused_buffer",
	[BINDER_CACHE_REFUSED_REPLY] = "refused_reply",
	[BINDER_CACHE_REFUSED_UNMARKED] = "refused_unmarked",
	[BINDER_CACHE_REFUSED_STALE] = "refused_stale",
	[BINDER_CACHE_REFUSED_SERVICE] = "refused_service",
	[BINDER_CACHE_REFUSED_LIMIT] = "refused_limit",
	[BINDER_CACHE_REFUSED_MEMORY] = "refused_memory",
};

/* The capacity of the paper's cache. */
#define PAPER_CAPACITY	10
#define CAPACITY_MAX	65536

static ssize_t mode_show(struct binder_cache *cache, char *page)
{
	return sysfs_emit(page, "%s\n", mode_names[cache->mode]);
}

static ssize_t mode_store(struct binder_cache *cache, char *text)
{
	int mode = match_string(mode_names, ARRAY_SIZE(mode_names), text);

	if (mode < 0 || (mode == BINDER_CACHE_TRANSPARENT && !cache->has_profile))
		return -EINVAL;
	binder_cache_set_mode(cache, mode);
	return 0;
}

static ssize_t state_show(struct binder_cache *cache, char *page)
{
	const char *state = "waiting";

	spin_lock(&cache->lock);
	if (cache->mode == BINDER_CACHE_OFF)
		state = "off";
	else if (cache->refused)
		state = "refused";
	else if (cache->active)
		state = "active";
	spin_unlock(&cache->lock);
	return sysfs_emit(page, "%s\n", state);
}

static ssize_t policy_show(struct binder_cache *cache, char *page)
{
	return sysfs_emit(page, "%s\n", policy_names[cache->core.policy]);
}

static void set_policy(struct binder_cache *cache, enum bc_policy policy, u32 capacity)
{
	LIST_HEAD(gone);

	spin_lock(&cache->lock);
	bc_set_policy(&cache->core, policy, capacity, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
}

static ssize_t policy_store(struct binder_cache *cache, char *text)
{
	int policy = match_string(policy_names, ARRAY_SIZE(policy_names), text);

	if (policy < 0)
		return -EINVAL;
	set_policy(cache, policy,
		   policy == BC_POLICY_PAPER ? PAPER_CAPACITY : cache->core.capacity);
	return 0;
}

static ssize_t capacity_show(struct binder_cache *cache, char *page)
{
	return sysfs_emit(page, "%u\n", cache->core.capacity);
}

static ssize_t capacity_store(struct binder_cache *cache, char *text)
{
	u32 capacity;

	if (kstrtou32(text, 10, &capacity) || !capacity || capacity > CAPACITY_MAX)
		return -EINVAL;
	set_policy(cache, cache->core.policy, capacity);
	return 0;
}

static ssize_t uid_limit_bytes_show(struct binder_cache *cache, char *page)
{
	return sysfs_emit(page, "%u\n", cache->core.user_limit);
}

static ssize_t uid_limit_bytes_store(struct binder_cache *cache, char *text)
{
	u32 limit;

	if (kstrtou32(text, 10, &limit))
		return -EINVAL;
	spin_lock(&cache->lock);
	cache->core.user_limit = limit;
	spin_unlock(&cache->lock);
	return 0;
}

static ssize_t flush_store(struct binder_cache *cache, char *text)
{
	if (strcmp(text, "1"))
		return -EINVAL;
	binder_cache_forget_all(cache);
	return 0;
}

static ssize_t stats_show(struct binder_cache *cache, char *page)
{
	ssize_t size = 0;
	int i;

	BUILD_BUG_ON(ARRAY_SIZE(count_names) != BINDER_CACHE_COUNTS);
	for (i = 0; i < BINDER_CACHE_COUNTS; i++)
		size += sysfs_emit_at(page, size, "%s %ld\n", count_names[i],
				      atomic_long_read(&cache->counts[i]));
	spin_lock(&cache->lock);
	size += sysfs_emit_at(page, size, "evictions %llu\nentries %u\nbytes %u\n",
			      cache->core.evictions, cache->core.entries, cache->core.bytes);
	spin_unlock(&cache->lock);
	return size;
}

static ssize_t profile_show(struct binder_cache *cache, char *page)
{
	struct binder_cache_format *format = kmalloc(sizeof(*format), GFP_KERNEL);
	bool has_profile;
	ssize_t size;

	if (!format)
		return -ENOMEM;
	spin_lock(&cache->lock);
	has_profile = cache->has_profile;
	if (has_profile)
		*format = cache->tables->profile;
	spin_unlock(&cache->lock);
	size = has_profile ? binder_cache_print_profile(format, page) : sysfs_emit(page, "\n");
	kfree(format);
	return size;
}

static ssize_t profile_store(struct binder_cache *cache, char *text)
{
	struct binder_cache_format *format;
	int result;

	if (!*text)
		return binder_cache_set_profile(cache, NULL);
	format = kmalloc(sizeof(*format), GFP_KERNEL);
	if (!format)
		return -ENOMEM;
	result = binder_cache_parse_profile(text, format);
	if (!result)
		result = binder_cache_set_profile(cache, format);
	kfree(format);
	return result;
}

#define CACHE_ATTRIBUTE(_name, _mode, _show, _store)			\
	static const struct binder_cache_attribute _name##_attribute = {	\
		.attr = { .name = #_name, .mode = _mode },		\
		.show = _show, .store = _store,				\
	}

CACHE_ATTRIBUTE(mode, 0644, mode_show, mode_store);
CACHE_ATTRIBUTE(state, 0444, state_show, NULL);
CACHE_ATTRIBUTE(profile, 0600, profile_show, profile_store);
CACHE_ATTRIBUTE(policy, 0644, policy_show, policy_store);
CACHE_ATTRIBUTE(capacity, 0644, capacity_show, capacity_store);
CACHE_ATTRIBUTE(uid_limit_bytes, 0644, uid_limit_bytes_show, uid_limit_bytes_store);
CACHE_ATTRIBUTE(flush, 0200, NULL, flush_store);
CACHE_ATTRIBUTE(stats, 0400, stats_show, NULL);

static const struct attribute *binder_cache_attrs[] = {
	&mode_attribute.attr,
	&state_attribute.attr,
	&profile_attribute.attr,
	&policy_attribute.attr,
	&capacity_attribute.attr,
	&uid_limit_bytes_attribute.attr,
	&flush_attribute.attr,
	&stats_attribute.attr,
	NULL,
};

static const struct attribute_group binder_cache_group = {
	.attrs = (struct attribute **)binder_cache_attrs,
};

static const struct attribute_group *binder_cache_groups[] = { &binder_cache_group, NULL };

static ssize_t attribute_show(struct kobject *kobj, struct attribute *attr, char *page)
{
	struct binder_cache_attribute *attribute =
		container_of(attr, struct binder_cache_attribute, attr);

	return attribute->show(container_of(kobj, struct binder_cache, kobj), page);
}

static ssize_t attribute_store(struct kobject *kobj, struct attribute *attr,
			       const char *page, size_t size)
{
	struct binder_cache_attribute *attribute =
		container_of(attr, struct binder_cache_attribute, attr);
	ssize_t result;
	char *text;

	/* a container's root may own the file */
	if (!capable(CAP_SYS_ADMIN))
		return -EPERM;
	text = kmemdup_nul(page, size, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	result = attribute->store(container_of(kobj, struct binder_cache, kobj), strim(text));
	kfree(text);
	return result < 0 ? result : size;
}

static void release(struct kobject *kobj)
{
	binder_cache_free(container_of(kobj, struct binder_cache, kobj));
}

static const struct sysfs_ops binder_cache_sysfs_ops = {
	.show = attribute_show,
	.store = attribute_store,
};

struct kobj_type binder_cache_type = {
	.release = release,
	.sysfs_ops = &binder_cache_sysfs_ops,
	.default_groups = binder_cache_groups,
};

static void print_name(struct seq_file *m, const struct bc_entry *entry)
{
	const u8 *bytes = (const u8 *)entry->key;
	u32 i;

	/* The length of a String16 comes first. */
	for (i = 4; i + 1 < entry->size; i += 2) {
		u16 character = bytes[i] | bytes[i + 1] << 8;

		if (!character)
			break;
		seq_putc(m, character > ' ' && character < 127 ? character : '?');
	}
}

static int entries_show(struct seq_file *m, void *unused)
{
	static const char * const scopes[] = {
		[BC_SCOPE_EXACT] = "exact",
		[BC_SCOPE_SECURITY] = "security",
		[BC_SCOPE_ANY] = "any",
	};
	struct binder_cache *cache = m->private;
	struct bc_entry *entry;

	spin_lock(&cache->lock);
	list_for_each_entry(entry, &cache->core.order, order) {
		seq_printf(m, "%llu %s %u %u %u ", entry->hits, scopes[entry->scope],
			   entry->uid, entry->security_id, entry->code & 0xff);
		print_name(m, entry);
		seq_putc(m, '\n');
	}
	spin_unlock(&cache->lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(entries);

void binder_cache_show_entries(struct binder_cache *cache, struct dentry *root,
			       const char *name)
{
	cache->debugfs = debugfs_create_dir(name, root);
	debugfs_create_file("entries", 0400, cache->debugfs, cache, &entries_fops);
}

static int hooks_show(struct seq_file *m, void *unused)
{
	seq_printf(m, "awake %d\nswitched %lu\n", READ_ONCE(binder_cache_hooks_awake),
		   READ_ONCE(binder_cache_hooks_switched));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(hooks);

void binder_cache_show_hooks(struct dentry *root)
{
	debugfs_create_file("hooks", 0400, root, NULL, &hooks_fops);
}
