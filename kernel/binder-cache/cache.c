// SPDX-License-Identifier: GPL-2.0
/* Modes, formats and what is forgotten when; nothing here knows the driver. */

#include <linux/debugfs.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uidgid.h>

#include "cache.h"

/* Room for all names: some hundred names times the users who ask for them. */
#define CAPACITY	2048
#define USER_LIMIT	65536

/* One size for all spares clearing them and finding out their size. */
#define ENTRY_BYTES	(sizeof(struct bc_entry) + BC_KEY_MAX)

/*
 * A manager with a policy cache of its own hears of a new policy a little
 * later than we do.
 */
#define QUIET_AFTER_POLICY	(2 * HZ)

DEFINE_STATIC_KEY_FALSE(binder_cache_key);

static DEFINE_MUTEX(caches_lock);
static LIST_HEAD(caches);

/* Not the one above: that is taken while the notifiers are, for reading. */
static DEFINE_MUTEX(roots_lock);
static bool hears_of_policies;
static struct kmem_cache *entries;
static struct kobject *sysfs_root;
static struct dentry *debugfs_root;

/* Called for each object once: what is reused was filled as far as it is read. */
static void clear_entry(void *entry)
{
	memset(entry, 0, ENTRY_BYTES);
}

struct bc_entry *binder_cache_new_entry(void)
{
	return kmem_cache_alloc(entries, GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
}

void binder_cache_free_entry(struct bc_entry *entry)
{
	kmem_cache_free(entries, entry);
}

void binder_cache_free_entries(struct list_head *gone)
{
	struct bc_entry *entry, *next;

	list_for_each_entry_safe(entry, next, gone, order)
		binder_cache_free_entry(entry);
}

static void forget_all_locked(struct binder_cache *cache, struct list_head *gone)
{
	bc_forget_all(&cache->core, gone);
	binder_cache_count(cache, BINDER_CACHE_FLUSHES);
}

void binder_cache_forget_all(struct binder_cache *cache)
{
	LIST_HEAD(gone);

	spin_lock(&cache->lock);
	forget_all_locked(cache, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
}

void binder_cache_forget_object(struct binder_cache *cache, const void *object)
{
	LIST_HEAD(gone);

	spin_lock(&cache->lock);
	bc_forget_object(&cache->core, object, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
}

void binder_cache_end_change(struct binder_cache *cache)
{
	spin_lock(&cache->lock);
	bc_change_end(&cache->core);
	spin_unlock(&cache->lock);
}

static void align_header(struct binder_cache_format *format)
{
	u32 pad = -(format->volatile_size + format->header_size) & 7;
	u32 start = pad + format->volatile_size;

	memset(format->fixed, 0, sizeof(format->fixed));
	memcpy((u8 *)format->prefix + start, format->header, format->header_size);
	memset((u8 *)format->fixed + start, 0xff, format->header_size);
}

/* What was learnt under another mode, format or manager is forgotten. */
static void settle_locked(struct binder_cache *cache, struct list_head *gone)
{
	bool active = false;

	if (cache->refused || !cache->manager) {
		/* stays off */
	} else if (cache->mode == BINDER_CACHE_TRANSPARENT && cache->has_profile) {
		cache->format = cache->profile;
		align_header(&cache->format);
		active = true;
	} else if (cache->mode == BINDER_CACHE_COOPERATIVE && cache->opted_in) {
		cache->format = cache->offered;
		align_header(&cache->format);
		active = true;
	}
	cache->recognised = false;
	forget_all_locked(cache, gone);
	WRITE_ONCE(cache->active, active);
}

/*
 * The hooks of the driver wake up before the cache can be active.  They stay
 * so: what they keep in order outlives the mode.
 */
static void wake_hooks(struct binder_cache *cache)
{
	mutex_lock(&caches_lock);
	if (!cache->was_used)
		static_branch_inc(&binder_cache_key);
	cache->was_used = true;
	mutex_unlock(&caches_lock);
}

void binder_cache_set_mode(struct binder_cache *cache, enum binder_cache_mode mode)
{
	LIST_HEAD(gone);

	if (mode == BINDER_CACHE_TRANSPARENT)
		wake_hooks(cache);
	spin_lock(&cache->lock);
	cache->mode = mode;
	cache->refused = false;
	settle_locked(cache, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
}

void binder_cache_set_profile(struct binder_cache *cache,
			      const struct binder_cache_format *format)
{
	LIST_HEAD(gone);

	spin_lock(&cache->lock);
	cache->has_profile = format;
	if (format)
		cache->profile = *format;
	cache->refused = false;
	settle_locked(cache, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
}

void binder_cache_set_manager(struct binder_cache *cache, const void *manager, int pid,
			      const struct cred *cred, const bool *is_frozen)
{
	const struct cred *before;
	LIST_HEAD(gone);

	spin_lock(&cache->lock);
	before = cache->manager_cred;
	cache->manager = manager;
	cache->manager_pid = pid;
	cache->manager_cred = cred ? get_cred(cred) : NULL;
	cache->is_frozen = is_frozen;
	cache->opted_in = false;
	cache->refused = false;
	/* The buffers that the last manager did not free went with it. */
	cache->core.changes -= cache->oneway_changes;
	cache->oneway_changes = 0;
	settle_locked(cache, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
	put_cred(before);
}

int binder_cache_opt_in(struct binder_cache *cache, const void *manager,
			const struct binder_cache_profile *profile)
{
	LIST_HEAD(gone);
	int result = 0;

	if (profile->volatile_size > BINDER_CACHE_VOLATILE_MAX ||
	    profile->header_size > BINDER_CACHE_HEADER_MAX ||
	    profile->isolated_first > profile->isolated_last || profile->reserved)
		return -EINVAL;
	if (READ_ONCE(cache->manager) != manager)
		return -EPERM;
	if (profile->lookup_codes)
		wake_hooks(cache);
	spin_lock(&cache->lock);
	if (cache->manager != manager) {
		result = -EPERM;
	} else if (cache->mode != BINDER_CACHE_COOPERATIVE) {
		result = -EOPNOTSUPP;
	} else {
		memset(&cache->offered, 0, sizeof(cache->offered));
		cache->offered.lookup = profile->lookup_codes;
		cache->offered.volatile_size = profile->volatile_size;
		cache->offered.header_size = profile->header_size;
		cache->offered.uid_span = profile->uid_span;
		cache->offered.isolated_first = profile->isolated_first;
		cache->offered.isolated_last = profile->isolated_last;
		memcpy(cache->offered.header, profile->header, profile->header_size);
		cache->opted_in = profile->lookup_codes;
		settle_locked(cache, &gone);
	}
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
	return result;
}

int binder_cache_flush(struct binder_cache *cache, const void *manager,
		       u64 *key, u32 size)
{
	struct bc_question question = { .key = key, .size = size };
	LIST_HEAD(gone);
	int result = 0;

	spin_lock(&cache->lock);
	if (cache->manager != manager)
		result = -EPERM;
	else if (!size)
		forget_all_locked(cache, &gone);
	else if (bc_seal(&cache->core, &question))
		bc_forget_key(&cache->core, &question, &gone);
	else
		result = -EINVAL;
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
	return result;
}

/* A length, its characters, a zero, padding: nothing before, nothing after. */
static bool is_string16(const u8 *bytes, size_t size)
{
	u32 length;

	if (size < 8)
		return false;
	memcpy(&length, bytes, 4);
	return length < BC_KEY_MAX / 2 && size == 4 + ALIGN(2 * (length + 1), 4);
}

/*
 * True when @request, whose key begins at @prefix, is a look-up.  It lies in
 * @room such that the key begins with a word.
 */
bool binder_cache_recognise(const struct binder_cache *cache, u32 prefix, const u64 *room,
			    const u8 *request, size_t size)
{
	const struct binder_cache_format *format = &cache->format;
	u32 i;

	if (prefix != format->volatile_size + format->header_size || size <= prefix)
		return false;
	for (i = format->volatile_size / 8; i < DIV_ROUND_UP(prefix, 8); i++)
		if ((room[i] ^ format->prefix[i]) & format->fixed[i])
			return false;
	return cache->mode != BINDER_CACHE_TRANSPARENT ||
	       is_string16(request + prefix, size - prefix);
}

/* True when a call with @code leaves all registrations as they are. */
bool binder_cache_is_readonly(const struct binder_cache *cache, u32 code)
{
	const struct binder_cache_format *format = &cache->format;
	u32 i;

	/* A manager that takes part says by itself what changed. */
	if (cache->mode == BINDER_CACHE_COOPERATIVE)
		return true;
	if (code < 64)
		return format->readonly >> code & 1;
	for (i = 0; i < format->other_count; i++)
		if (format->others[i] == code)
			return true;
	return false;
}

void binder_cache_refuse_format_locked(struct binder_cache *cache, struct list_head *gone)
{
	binder_cache_count(cache, BINDER_CACHE_REFUSED_FORMAT);
	/* One odd client must not turn the cache off for all. */
	if (cache->mode != BINDER_CACHE_TRANSPARENT || cache->recognised)
		return;
	cache->refused = true;
	settle_locked(cache, gone);
}

/* memcmp() is not worth its call for a handful of bytes. */
static bool is_same(const u8 *a, const u8 *b, size_t size)
{
	for (; size >= sizeof(u32); size -= sizeof(u32), a += sizeof(u32), b += sizeof(u32))
		if (memcmp(a, b, sizeof(u32)))
			return false;
	while (size--)
		if (*a++ != *b++)
			return false;
	return true;
}

static bool has_form(const struct binder_cache_form *form, const struct bc_answer *answer,
		     size_t object_size)
{
	const u8 *data = (const u8 *)answer->data;
	const u8 *tail = data + answer->offset + object_size;
	size_t tail_size = answer->size - answer->offset - object_size;
	u32 i;

	if (answer->offset != form->reply_size || !is_same(data, form->reply, form->reply_size))
		return false;
	for (i = 0; i < form->tail_count; i++)
		if (tail_size == form->tail_size[i] && is_same(tail, form->tail[i], tail_size))
			return true;
	return !form->tail_count && !tail_size;
}

bool binder_cache_is_answer(const struct binder_cache *cache,
			    const struct bc_answer *answer, size_t object_size)
{
	const struct binder_cache_format *format = &cache->format;
	u32 i;

	if (cache->mode != BINDER_CACHE_TRANSPARENT)
		return true;
	for (i = 0; i < format->form_count; i++)
		if (has_form(&format->forms[i], answer, object_size))
			return true;
	return false;
}

void binder_cache_identify(const struct binder_cache *cache, kuid_t euid,
			   u32 security_id, struct bc_caller *caller)
{
	const struct binder_cache_format *format = &cache->format;

	caller->uid = __kuid_val(euid);
	caller->security_id = security_id;
	caller->isolated = false;
	if (format->uid_span && cache->manager_cred) {
		/* as the manager sees it */
		u32 uid = from_kuid(cache->manager_cred->user_ns, euid);

		uid %= format->uid_span;
		caller->isolated = uid >= format->isolated_first && uid <= format->isolated_last;
	}
}

enum bc_verdict binder_cache_learn_locked(struct binder_cache *cache, struct bc_entry *entry,
					  enum bc_scope scope, struct list_head *gone)
{
	u32 charged_uid = entry->uid;

	if (time_before(jiffies, cache->quiet_until)) {
		list_add(&entry->order, gone);
		return BC_STALE;
	}
	/* What many may have is the manager's own. */
	if (scope != BC_SCOPE_EXACT)
		charged_uid = __kuid_val(cache->manager_cred->euid);
	return bc_learn(&cache->core, entry, scope, charged_uid, gone);
}

static int policy_changed(struct notifier_block *block, unsigned long event, void *data)
{
	struct binder_cache *cache;

	if (event != LSM_POLICY_CHANGE)
		return NOTIFY_DONE;
	mutex_lock(&caches_lock);
	list_for_each_entry(cache, &caches, link) {
		spin_lock(&cache->lock);
		cache->quiet_until = jiffies + QUIET_AFTER_POLICY;
		spin_unlock(&cache->lock);
		binder_cache_forget_all(cache);
	}
	mutex_unlock(&caches_lock);
	return NOTIFY_OK;
}

static struct notifier_block policy_notifier = { .notifier_call = policy_changed };

/* Each once; what there was no memory for, when the next cache is made. */
static void prepare_roots(void)
{
	mutex_lock(&roots_lock);
	if (!entries)
		entries = kmem_cache_create("binder_cache_entry", ENTRY_BYTES, 0, SLAB_ACCOUNT,
					    clear_entry);
	if (!sysfs_root)
		sysfs_root = kobject_create_and_add("binder_cache", kernel_kobj);
	if (IS_ERR_OR_NULL(debugfs_root))
		debugfs_root = debugfs_create_dir("binder_cache", NULL);
	if (!hears_of_policies)
		hears_of_policies = !register_blocking_lsm_notifier(&policy_notifier);
	mutex_unlock(&roots_lock);
}

/* NULL when there is no memory: the context is then a stock one. */
struct binder_cache *binder_cache_create(const char *name)
{
	struct binder_cache *cache = kzalloc(sizeof(*cache), GFP_KERNEL);

	if (!cache)
		return NULL;
	spin_lock_init(&cache->lock);
	bc_init(&cache->core, get_random_u64());
	cache->core.capacity = CAPACITY;
	cache->core.user_limit = USER_LIMIT;
	cache->mode = BINDER_CACHE_COOPERATIVE;
	cache->quiet_until = jiffies;

	prepare_roots();
	mutex_lock(&caches_lock);
	list_add_tail(&cache->link, &caches);
	mutex_unlock(&caches_lock);
	if (!entries || !sysfs_root ||
	    kobject_init_and_add(&cache->kobj, &binder_cache_type, sysfs_root, "%s", name)) {
		binder_cache_destroy(cache);
		return NULL;
	}
	binder_cache_show_entries(cache, debugfs_root, name);
	return cache;
}

/* Of a device in a binderfs, of which there may be many of the same name. */
struct binder_cache *binder_cache_create_minor(const char *name, int minor)
{
	char *unique = kasprintf(GFP_KERNEL, "%s.%d", name, minor);
	struct binder_cache *cache;

	if (!unique)
		return NULL;
	cache = binder_cache_create(unique);
	kfree(unique);
	return cache;
}

/* The device is gone, its last user may not be. */
void binder_cache_hide(struct binder_cache *cache)
{
	if (!cache)
		return;
	debugfs_remove(cache->debugfs);
	cache->debugfs = NULL;
	if (cache->kobj.state_in_sysfs)
		kobject_del(&cache->kobj);
}

void binder_cache_destroy(struct binder_cache *cache)
{
	if (!cache)
		return;
	binder_cache_hide(cache);
	mutex_lock(&caches_lock);
	list_del(&cache->link);
	if (cache->was_used)
		static_branch_dec(&binder_cache_key);
	mutex_unlock(&caches_lock);
	binder_cache_set_manager(cache, NULL, 0, NULL, NULL);
	if (cache->kobj.state_initialized)
		kobject_put(&cache->kobj);
	else
		kfree(cache);
}
