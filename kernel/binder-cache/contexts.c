// SPDX-License-Identifier: GPL-2.0
/* The contexts' caches: created and removed with their devices, shown below /sys. */

#include <linux/debugfs.h>
#include <linux/jiffies.h>
#include <linux/kobject.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>
#include <linux/random.h>
#include <linux/security.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "cache.h"

/* For all names: some hundred names times the users who ask for them. */
#define CAPACITY	2048
/* For 300 names of 60 characters, by either of two calls, for one user. */
#define USER_LIMIT	262144

/*
 * A manager with its own policy cache is notified of a new policy a little later
 * than the driver.
 */
#define QUIET_AFTER_POLICY	(2 * HZ)

static bool cache_user_namespaces;
module_param(cache_user_namespaces, bool, 0600);
MODULE_PARM_DESC(cache_user_namespaces,
		 "Devices in a binderfs that is mounted in another user namespace have caches, off at first");

static DEFINE_MUTEX(caches_lock);
static LIST_HEAD(caches);

/* A separate mutex: the one above is taken while the notifiers are locked for reading. */
static DEFINE_MUTEX(roots_lock);
static bool hears_of_policies;
static struct kobject *sysfs_root;
static struct dentry *debugfs_root;

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

/* Creates each once; retries with the next cache if there was no memory. */
static bool prepare_roots(void)
{
	bool is_ready;

	mutex_lock(&roots_lock);
	is_ready = binder_cache_prepare_entries();
	if (!sysfs_root)
		sysfs_root = kobject_create_and_add("binder_cache", kernel_kobj);
	if (IS_ERR_OR_NULL(debugfs_root)) {
		debugfs_root = debugfs_create_dir("binder_cache", NULL);
		binder_cache_show_hooks(debugfs_root);
	}
	if (BC_SHARED_BY_ALL)
		pr_warn_once("binder_cache: any process gets any service: only for experiments\n");
	if (!hears_of_policies)
		hears_of_policies = !register_blocking_lsm_notifier(&policy_notifier);
	is_ready = is_ready && sysfs_root;
	mutex_unlock(&roots_lock);
	return is_ready;
}

static struct binder_cache *create(const char *name, enum binder_cache_mode mode)
{
	struct binder_cache *cache = kzalloc(sizeof(*cache), GFP_KERNEL_ACCOUNT);
	bool is_ready;

	if (!cache)
		return NULL;
	spin_lock_init(&cache->lock);
	bc_init(&cache->core, get_random_u64());
	cache->core.capacity = CAPACITY;
	cache->core.user_limit = USER_LIMIT;
	cache->mode = mode;
	cache->quiet_until = jiffies;

	is_ready = prepare_roots();
	mutex_lock(&caches_lock);
	list_add_tail(&cache->link, &caches);
	mutex_unlock(&caches_lock);
	if (!is_ready ||
	    kobject_init_and_add(&cache->kobj, &binder_cache_type, sysfs_root, "%s", name)) {
		binder_cache_destroy(cache);
		return NULL;
	}
	binder_cache_show_entries(cache, debugfs_root, name);
	return cache;
}

/* NULL without memory: the context is then a stock one. */
struct binder_cache *binder_cache_create(const char *name)
{
	return create(name, BINDER_CACHE_COOPERATIVE);
}

/*
 * For a device in a binderfs; several may have the same name.  An unprivileged user
 * can mount one in a user namespace: its devices are stock ones, unless root sets
 * the parameter that gives them caches, and turns these on.
 */
struct binder_cache *binder_cache_create_minor(const char *name, int minor,
					       const struct user_namespace *owner)
{
	bool is_roots = owner == &init_user_ns;
	struct binder_cache *cache;
	char *unique;

	if (!is_roots && !READ_ONCE(cache_user_namespaces))
		return NULL;
	unique = kasprintf(GFP_KERNEL, "%s.%d", name, minor);
	if (!unique)
		return NULL;
	cache = create(unique, is_roots ? BINDER_CACHE_COOPERATIVE : BINDER_CACHE_OFF);
	kfree(unique);
	return cache;
}

/* The device is removed, but may still have users. */
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
	mutex_unlock(&caches_lock);
	binder_cache_leave_hooks(cache);
	binder_cache_set_manager(cache, NULL, 0, NULL, NULL);
	if (cache->kobj.state_initialized)
		kobject_put(&cache->kobj);
	else
		binder_cache_free(cache);
}
