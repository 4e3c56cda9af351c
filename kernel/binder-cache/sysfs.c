// SPDX-License-Identifier: GPL-2.0
/* What a person reads and sets: /sys/kernel/binder_cache, debugfs. */

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

/* What the paper's cache holds. */
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

static size_t print_codes(char *page, size_t size, const char *name, u64 mask,
			  const u32 *others, u32 other_count)
{
	char separator = '=';
	u32 code;

	if (!mask && !other_count)
		return size;
	size += sysfs_emit_at(page, size, "%s%s", size ? " " : "", name);
	for (code = 0; code < 64; code++) {
		if (!(mask >> code & 1))
			continue;
		size += sysfs_emit_at(page, size, "%c%u", separator, code);
		separator = ',';
	}
	for (code = 0; code < other_count; code++) {
		size += sysfs_emit_at(page, size, "%c%u", separator, others[code]);
		separator = ',';
	}
	return size;
}

static size_t print_form(char *page, size_t size, const struct binder_cache_form *form)
{
	u32 i;

	size += sysfs_emit_at(page, size, " reply=%*phN", form->reply_size, form->reply);
	for (i = 0; i < form->tail_count; i++)
		size += sysfs_emit_at(page, size, "%s%*phN", i ? "," : " tail=",
				      form->tail_size[i], &form->tail[i]);
	return size;
}

static ssize_t profile_show(struct binder_cache *cache, char *page)
{
	struct binder_cache_format *format = kmalloc(sizeof(*format), GFP_KERNEL);
	bool has_profile;
	size_t size;
	u32 i;

	if (!format)
		return -ENOMEM;
	spin_lock(&cache->lock);
	has_profile = cache->has_profile;
	*format = cache->profile;
	spin_unlock(&cache->lock);
	if (!has_profile) {
		kfree(format);
		return sysfs_emit(page, "\n");
	}
	size = print_codes(page, 0, "lookup", format->lookup, NULL, 0);
	size = print_codes(page, size, "readonly", format->readonly, format->others,
			   format->other_count);
	size = print_codes(page, size, "clients", format->clients, NULL, 0);
	size += sysfs_emit_at(page, size, " volatile=%u", format->volatile_size);
	if (format->header_size)
		size += sysfs_emit_at(page, size, " header=%*phN", min(format->header_size, 64u),
				      format->header);
	/* %ph takes 64 bytes at most */
	if (format->header_size > 64)
		size += sysfs_emit_at(page, size, "%*phN", format->header_size - 64,
				      format->header + 64);
	for (i = 0; i < format->form_count; i++)
		size = print_form(page, size, &format->forms[i]);
	size += sysfs_emit_at(page, size, "\n");
	kfree(format);
	return size;
}

/* Codes to @mask, those of 64 and more to @others; those need not be wanted. */
static int parse_codes(char *text, u64 *mask, u32 *others, u32 *other_count)
{
	char *word;
	u32 code;

	while ((word = strsep(&text, ","))) {
		if (kstrtou32(word, 10, &code))
			return -EINVAL;
		if (code < 64)
			*mask |= 1ull << code;
		else if (others && *other_count < BINDER_CACHE_OTHERS)
			others[(*other_count)++] = code;
		else
			return -EINVAL;
	}
	return 0;
}

static int parse_bytes(const char *text, u8 *bytes, u32 *size, u32 most)
{
	size_t length = strlen(text);

	if (length % 2 || length / 2 > most)
		return -EINVAL;
	*size = length / 2;
	return hex2bin(bytes, text, *size);
}

static int parse_reply(const char *value, struct binder_cache_format *format)
{
	struct binder_cache_form *form;

	if (format->form_count == BINDER_CACHE_FORMS)
		return -EINVAL;
	form = &format->forms[format->form_count++];
	return parse_bytes(value, form->reply, &form->reply_size, BINDER_CACHE_REPLY_MAX);
}

/* Of the reply that was named last. */
static int parse_tails(char *value, struct binder_cache_format *format)
{
	struct binder_cache_form *form;
	char *tail;

	if (!format->form_count)
		format->form_count = 1;
	form = &format->forms[format->form_count - 1];
	while ((tail = strsep(&value, ","))) {
		u32 i = form->tail_count;

		if (i == BINDER_CACHE_TAILS ||
		    parse_bytes(tail, (u8 *)&form->tail[i], &form->tail_size[i],
				sizeof(form->tail[i])))
			return -EINVAL;
		form->tail_count++;
	}
	return 0;
}

static int parse_pair(char *name, char *value, struct binder_cache_format *format)
{
	if (!strcmp(name, "lookup"))
		return parse_codes(value, &format->lookup, NULL, NULL);
	if (!strcmp(name, "readonly"))
		return parse_codes(value, &format->readonly, format->others,
				   &format->other_count);
	if (!strcmp(name, "clients"))
		return parse_codes(value, &format->clients, NULL, NULL);
	if (!strcmp(name, "volatile"))
		return kstrtou32(value, 10, &format->volatile_size) ||
		       format->volatile_size > BINDER_CACHE_VOLATILE_MAX ? -EINVAL : 0;
	if (!strcmp(name, "header"))
		return parse_bytes(value, format->header, &format->header_size,
				   BINDER_CACHE_HEADER_MAX);
	if (!strcmp(name, "reply"))
		return parse_reply(value, format);
	if (!strcmp(name, "tail"))
		return parse_tails(value, format);
	return -EINVAL;
}

static ssize_t profile_store(struct binder_cache *cache, char *text)
{
	struct binder_cache_format *format;
	int result = 0;
	char *pair;

	if (!*text) {
		binder_cache_set_profile(cache, NULL);
		return 0;
	}
	format = kzalloc(sizeof(*format), GFP_KERNEL);
	if (!format)
		return -ENOMEM;
	while (!result && (pair = strsep(&text, " "))) {
		char *name = strsep(&pair, "=");

		if (!*name)
			continue;
		result = pair ? parse_pair(name, pair, format) : -EINVAL;
	}
	/* A call cannot be both a question and a change. */
	if (!format->lookup || format->lookup & (format->clients | format->readonly))
		result = -EINVAL;
	/* nothing around the binder is a form, too */
	if (!format->form_count)
		format->form_count = 1;
	if (!result)
		binder_cache_set_profile(cache, format);
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
CACHE_ATTRIBUTE(profile, 0644, profile_show, profile_store);
CACHE_ATTRIBUTE(policy, 0644, policy_show, policy_store);
CACHE_ATTRIBUTE(capacity, 0644, capacity_show, capacity_store);
CACHE_ATTRIBUTE(uid_limit_bytes, 0644, uid_limit_bytes_show, uid_limit_bytes_store);
CACHE_ATTRIBUTE(flush, 0200, NULL, flush_store);
CACHE_ATTRIBUTE(stats, 0444, stats_show, NULL);

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
	char *text = kmemdup_nul(page, size, GFP_KERNEL);
	ssize_t result;

	if (!text)
		return -ENOMEM;
	result = attribute->store(container_of(kobj, struct binder_cache, kobj), strim(text));
	kfree(text);
	return result < 0 ? result : size;
}

static void release(struct kobject *kobj)
{
	kfree(container_of(kobj, struct binder_cache, kobj));
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

	/* A String16's length comes first. */
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
