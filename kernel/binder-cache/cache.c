// SPDX-License-Identifier: GPL-2.0
/* Modes, formats and invalidation; nothing here uses driver types. */

#include <linux/jump_label.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "cache.h"

/* A single size for all entries, so that they need no clearing and no size lookup. */
#define ENTRY_BYTES	(sizeof(struct bc_entry) + BC_KEY_MAX)

DEFINE_STATIC_KEY_FALSE(binder_cache_key);

atomic_t binder_cache_questions = ATOMIC_INIT(0);

/* Protects the modes, the tables, and the caches that keep the driver's hooks awake. */
static DEFINE_MUTEX(modes_lock);
static int awake_caches;
bool binder_cache_hooks_awake;
unsigned long binder_cache_hooks_switched;

struct kmem_cache *binder_cache_entries;

/* Called once for each object: a reused object is initialised as far as it is read. */
static void clear_entry(void *entry)
{
	memset(entry, 0, ENTRY_BYTES);
}

/* Retries until there is memory for it: the caller serialises the calls. */
bool binder_cache_prepare_entries(void)
{
	if (!binder_cache_entries)
		binder_cache_entries = kmem_cache_create("binder_cache_entry", ENTRY_BYTES, 0,
							 SLAB_ACCOUNT, clear_entry);
	return binder_cache_entries;
}

void binder_cache_free_entry(struct bc_entry *entry)
{
	kmem_cache_free(binder_cache_entries, entry);
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

/* Removes what was learnt under another mode, format or manager. */
static void settle_locked(struct binder_cache *cache, struct list_head *gone)
{
	bool active = false;

	if (cache->refused || !cache->manager) {
		/* stays off */
	} else if (cache->mode == BINDER_CACHE_TRANSPARENT && cache->has_profile) {
		*cache->format = cache->tables->profile;
		binder_cache_align(cache->format);
		active = true;
	} else if (cache->mode == BINDER_CACHE_COOPERATIVE && cache->opted_in) {
		*cache->format = cache->tables->offered;
		binder_cache_align(cache->format);
		active = true;
	}
	cache->recognised = false;
	forget_all_locked(cache, gone);
	/* pairs with binder_cache_is_active(): the format is visible before */
	smp_store_release(&cache->active, active);
}

/* Called before a format is kept: most contexts never have one. */
static int furnish_locked(struct binder_cache *cache)
{
	struct binder_cache_tables *tables;

	if (cache->tables)
		return 0;
	tables = kvzalloc(sizeof(*tables), GFP_KERNEL_ACCOUNT);
	if (!tables)
		return -ENOMEM;
	spin_lock(&cache->lock);
	bc_set_tables(&cache->core, &tables->core);
	cache->tables = tables;
	cache->format = &tables->format;
	spin_unlock(&cache->lock);
	return 0;
}

/* Patching the code interrupts all CPUs, so only root may trigger it again. */
static void switch_hooks_locked(bool awake)
{
	if (binder_cache_hooks_awake == awake)
		return;
	if (awake)
		static_branch_enable(&binder_cache_key);
	else
		static_branch_disable(&binder_cache_key);
	binder_cache_hooks_awake = awake;
	binder_cache_hooks_switched++;
}

/* The hooks of the driver are enabled before the cache can become active. */
static void wake_hooks_locked(struct binder_cache *cache)
{
	if (!cache->is_awake)
		awake_caches++;
	cache->is_awake = true;
	switch_hooks_locked(true);
}

/*
 * Disables the hooks if nothing is in progress whose end they must see.
 * Otherwise they stay enabled until the cache is turned off again.
 */
static void let_hooks_sleep_locked(struct binder_cache *cache)
{
	bool is_idle;

	spin_lock(&cache->lock);
	is_idle = !cache->core.changes && !atomic_read(&binder_cache_questions);
	spin_unlock(&cache->lock);
	if (!is_idle)
		return;
	if (cache->is_awake)
		awake_caches--;
	cache->is_awake = false;
	if (!awake_caches)
		switch_hooks_locked(false);
}

/* Called before the cache is freed: creating and removing devices must not switch the hooks. */
void binder_cache_leave_hooks(struct binder_cache *cache)
{
	mutex_lock(&modes_lock);
	if (cache->is_awake)
		awake_caches--;
	cache->is_awake = false;
	mutex_unlock(&modes_lock);
}

void binder_cache_set_mode(struct binder_cache *cache, enum binder_cache_mode mode)
{
	LIST_HEAD(gone);

	mutex_lock(&modes_lock);
	if (mode == BINDER_CACHE_TRANSPARENT)
		wake_hooks_locked(cache);
	spin_lock(&cache->lock);
	cache->mode = mode;
	cache->refused = false;
	settle_locked(cache, &gone);
	spin_unlock(&cache->lock);
	if (mode == BINDER_CACHE_OFF)
		let_hooks_sleep_locked(cache);
	mutex_unlock(&modes_lock);
	binder_cache_free_entries(&gone);
}

int binder_cache_set_profile(struct binder_cache *cache,
			     const struct binder_cache_format *format)
{
	int result = 0;
	LIST_HEAD(gone);

	mutex_lock(&modes_lock);
	if (format)
		result = furnish_locked(cache);
	if (!result) {
		spin_lock(&cache->lock);
		cache->has_profile = format;
		if (format)
			cache->tables->profile = *format;
		cache->refused = false;
		settle_locked(cache, &gone);
		spin_unlock(&cache->lock);
	}
	mutex_unlock(&modes_lock);
	binder_cache_free_entries(&gone);
	return result;
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
	/* The buffers that the last manager did not free were freed with it. */
	cache->core.changes -= cache->oneway_changes;
	cache->oneway_changes = 0;
	settle_locked(cache, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
	put_cred(before);
}

static void keep_offer_locked(struct binder_cache *cache,
			      const struct binder_cache_profile *profile)
{
	struct binder_cache_format *offered = &cache->tables->offered;

	memset(offered, 0, sizeof(*offered));
	offered->lookup = profile->lookup_codes;
	offered->volatile_size = profile->volatile_size;
	offered->header_size = profile->header_size;
	offered->uid_span = profile->uid_span;
	offered->isolated_first = profile->isolated_first;
	offered->isolated_last = profile->isolated_last;
	memcpy(offered->header, profile->header, profile->header_size);
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
	mutex_lock(&modes_lock);
	if (cache->mode != BINDER_CACHE_COOPERATIVE)
		result = -EOPNOTSUPP;
	else if (profile->lookup_codes)
		result = furnish_locked(cache);
	if (result) {
		mutex_unlock(&modes_lock);
		return result;
	}
	if (profile->lookup_codes)
		wake_hooks_locked(cache);
	spin_lock(&cache->lock);
	if (cache->manager == manager) {
		if (profile->lookup_codes)
			keep_offer_locked(cache, profile);
		cache->opted_in = profile->lookup_codes;
		settle_locked(cache, &gone);
	} else {
		result = -EPERM;
	}
	spin_unlock(&cache->lock);
	mutex_unlock(&modes_lock);
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

/* True if a call with @code changes no registration. */
bool binder_cache_is_readonly(const struct binder_cache *cache, u32 code)
{
	const struct binder_cache_format *format = cache->format;
	u32 i;

	/* A cooperative manager reports its changes itself. */
	if (cache->mode == BINDER_CACHE_COOPERATIVE)
		return true;
	if (code < 64)
		return (format->readonly | format->lookup) >> code & 1;
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

void binder_cache_free(struct binder_cache *cache)
{
	kvfree(cache->tables);
	kfree(cache);
}
