// SPDX-License-Identifier: GPL-2.0
/*
 * flash_model - block devices with the latency of NAND flash
 *
 * Requests are served one after the other: the data are copied when a request is
 * submitted, and it completes when a flash chip would have completed it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/module.h>
#include <linux/sizes.h>
#include <linux/wait.h>

#define MAX_DEVICES	4

static unsigned int base_mib = 512;
module_param(base_mib, uint, 0444);
MODULE_PARM_DESC(base_mib, "Start of the reserved memory (memmap=), in MiB");

static unsigned int sizes_mib[MAX_DEVICES] = { 256 };
static int nr_devices = 1;
module_param_array(sizes_mib, uint, &nr_devices, 0444);
MODULE_PARM_DESC(sizes_mib, "Size of each device in MiB");

static unsigned int read_us = 20;
module_param(read_us, uint, 0444);
MODULE_PARM_DESC(read_us, "Time to read a page");

static unsigned int write_us = 200;
module_param(write_us, uint, 0444);
MODULE_PARM_DESC(write_us, "Time to write a page");

static unsigned int erase_us = 1500;
module_param(erase_us, uint, 0444);
MODULE_PARM_DESC(erase_us, "Time to erase a block");

static unsigned int pages_per_block = 64;
module_param(pages_per_block, uint, 0444);
MODULE_PARM_DESC(pages_per_block, "Pages of a block");

static int queue_depth = 128;
module_param(queue_depth, int, 0444);
MODULE_PARM_DESC(queue_depth, "Writes in flight at a device before writers block");

static unsigned long erase_budget;
module_param(erase_budget, ulong, 0444);
MODULE_PARM_DESC(erase_budget, "Erases of a device before writes fail (0: no limit)");

static unsigned long pages_read[MAX_DEVICES];
module_param_array(pages_read, ulong, NULL, 0444);
MODULE_PARM_DESC(pages_read, "Pages read from each device (read only)");

static unsigned long pages_written[MAX_DEVICES];
module_param_array(pages_written, ulong, NULL, 0444);
MODULE_PARM_DESC(pages_written, "Pages written to each device (read only)");

struct flash {
	unsigned int number;
	struct gendisk *disk;
	/* Reserved, so that nothing else maps it */
	struct resource *memory;
	void *cells;
	struct hrtimer timer;
	/* Writes that have not completed, and the writers that wait to add to them */
	atomic_t writes;
	wait_queue_head_t writers;
	/* Protects the fields below, and the counters */
	spinlock_t lock;
	struct bio_list waiting;
	struct bio *served;
};

static struct flash flashes[MAX_DEVICES];
static int flash_major;

static u64 cost_ns(struct flash *flash, struct bio *bio)
{
	unsigned long pages = DIV_ROUND_UP(bio->bi_iter.bi_size, PAGE_SIZE);
	unsigned long *written = &pages_written[flash->number];
	unsigned long erased = *written / pages_per_block;
	u64 us;

	switch (bio_op(bio)) {
	case REQ_OP_READ:
		pages_read[flash->number] += pages;
		us = (u64)pages * read_us;
		break;
	case REQ_OP_WRITE:
		*written += pages;
		erased = *written / pages_per_block - erased;
		us = (u64)pages * write_us + (u64)erased * erase_us;
		break;
	default:
		us = 0;
	}
	return us * NSEC_PER_USEC;
}

/* Called with the lock held and no request in service */
static void serve_next(struct flash *flash)
{
	flash->served = bio_list_pop(&flash->waiting);
	if (flash->served)
		hrtimer_start(&flash->timer,
			      ns_to_ktime(cost_ns(flash, flash->served)),
			      HRTIMER_MODE_REL_SOFT);
}

static enum hrtimer_restart served(struct hrtimer *timer)
{
	struct flash *flash = container_of(timer, struct flash, timer);
	unsigned long flags;
	struct bio *bio;

	spin_lock_irqsave(&flash->lock, flags);
	bio = flash->served;
	serve_next(flash);
	spin_unlock_irqrestore(&flash->lock, flags);
	if (bio) {
		if (bio_op(bio) == REQ_OP_WRITE) {
			atomic_dec(&flash->writes);
			wake_up(&flash->writers);
		}
		bio_endio(bio);
	}
	return HRTIMER_NORESTART;
}

static void copy_data(struct flash *flash, struct bio *bio)
{
	void *cells = flash->cells + (bio->bi_iter.bi_sector << SECTOR_SHIFT);
	struct bvec_iter iter;
	struct bio_vec bvec;

	bio_for_each_segment(bvec, bio, iter) {
		void *data = bvec_kmap_local(&bvec);

		if (bio_op(bio) == REQ_OP_WRITE)
			memcpy(cells, data, bvec.bv_len);
		else
			memcpy(data, cells, bvec.bv_len);
		kunmap_local(data);
		cells += bvec.bv_len;
	}
}

static bool is_worn(const struct flash *flash)
{
	return erase_budget &&
	       pages_written[flash->number] / pages_per_block >= erase_budget;
}

static void flash_submit_bio(struct bio *bio)
{
	struct flash *flash = bio->bi_bdev->bd_disk->private_data;
	unsigned long flags;

	switch (bio_op(bio)) {
	case REQ_OP_READ:
		copy_data(flash, bio);
		break;
	case REQ_OP_WRITE:
		if (is_worn(flash)) {
			bio->bi_status = BLK_STS_MEDIUM;
			bio_endio(bio);
			return;
		}
		/*
		 * As for any request queue.  Without a limit, reclaim would turn
		 * all of memory into pages under write-back.
		 */
		io_wait_event(flash->writers,
			      atomic_add_unless(&flash->writes, 1,
						queue_depth));
		copy_data(flash, bio);
		break;
	case REQ_OP_FLUSH:
		break;
	default:
		bio->bi_status = BLK_STS_NOTSUPP;
		bio_endio(bio);
		return;
	}
	spin_lock_irqsave(&flash->lock, flags);
	bio_list_add(&flash->waiting, bio);
	if (!flash->served)
		serve_next(flash);
	spin_unlock_irqrestore(&flash->lock, flags);
}

static const struct block_device_operations flash_operations = {
	.owner = THIS_MODULE,
	.submit_bio = flash_submit_bio,
};

static struct gendisk *alloc_disk(void)
{
#ifdef HAVE_QUEUE_LIMITS
	struct queue_limits limits = {
		.logical_block_size = PAGE_SIZE,
		.physical_block_size = PAGE_SIZE,
	};
	struct gendisk *disk = blk_alloc_disk(&limits, NUMA_NO_NODE);
#else
	struct gendisk *disk = blk_alloc_disk(NUMA_NO_NODE);
#endif

	if (IS_ERR_OR_NULL(disk))
		return NULL;
#ifndef HAVE_QUEUE_LIMITS
	blk_queue_logical_block_size(disk->queue, PAGE_SIZE);
	blk_queue_physical_block_size(disk->queue, PAGE_SIZE);
#endif
#ifdef HAVE_NONROT_FLAG
	blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
#endif
	return disk;
}

/*
 * Refuses memory that the kernel uses (System RAM is busy), or that belongs to a
 * device or to another module.
 */
static int map_cells(struct flash *flash, resource_size_t start, resource_size_t size)
{
	flash->memory = request_mem_region(start, size, KBUILD_MODNAME);
	if (!flash->memory) {
		pr_err("flash%u: %pa + %pa is in use, see /proc/iomem: reserve it with memmap=SIZE$START\n",
		       flash->number, &start, &size);
		return -EBUSY;
	}
	flash->cells = memremap(start, size, MEMREMAP_WB);
	if (!flash->cells) {
		pr_err("flash%u: no memory at %pa\n", flash->number, &start);
		return -ENOMEM;
	}
	return 0;
}

static void init_timer(struct flash *flash)
{
#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup(&flash->timer, served, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
#else
	hrtimer_init(&flash->timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
	flash->timer.function = served;
#endif
}

/* After an error, remove_flashes() undoes the completed steps. */
static int add_flash(struct flash *flash, unsigned int number,
		     resource_size_t start, resource_size_t size)
{
	struct gendisk *disk;
	int error;

	flash->number = number;
	spin_lock_init(&flash->lock);
	atomic_set(&flash->writes, 0);
	init_waitqueue_head(&flash->writers);
	init_timer(flash);
	error = map_cells(flash, start, size);
	if (error)
		return error;
	disk = alloc_disk();
	if (!disk)
		return -ENOMEM;
	disk->major = flash_major;
	disk->first_minor = number;
	disk->minors = 1;
	disk->flags = GENHD_FL_NO_PART;
	disk->fops = &flash_operations;
	disk->private_data = flash;
	snprintf(disk->disk_name, sizeof(disk->disk_name), "flash%u", number);
	set_capacity(disk, size >> SECTOR_SHIFT);
	error = add_disk(disk);
	if (error) {
		put_disk(disk);
		return error;
	}
	flash->disk = disk;
	return 0;
}

static void remove_flashes(void)
{
	int i;

	for (i = 0; i < nr_devices; i++) {
		struct flash *flash = &flashes[i];

		if (flash->disk) {
			del_gendisk(flash->disk);
			put_disk(flash->disk);
			hrtimer_cancel(&flash->timer);
		}
		if (flash->cells)
			memunmap(flash->cells);
		if (flash->memory)
			release_mem_region(flash->memory->start, resource_size(flash->memory));
	}
	unregister_blkdev(flash_major, "flash");
}

static int __init flash_model_init(void)
{
	resource_size_t start = (resource_size_t)base_mib * SZ_1M;
	int i, error;

	if (!pages_per_block || queue_depth < 1)
		return -EINVAL;
	for (i = 0; i < nr_devices; i++)
		if (!sizes_mib[i])
			return -EINVAL;
	flash_major = register_blkdev(0, "flash");
	if (flash_major < 0)
		return flash_major;
	for (i = 0; i < nr_devices; i++) {
		resource_size_t size = (resource_size_t)sizes_mib[i] * SZ_1M;

		error = add_flash(&flashes[i], i, start, size);
		if (error) {
			remove_flashes();
			return error;
		}
		start += size;
	}
	return 0;
}
module_init(flash_model_init);

static void __exit flash_model_exit(void)
{
	remove_flashes();
}
module_exit(flash_model_exit);

MODULE_DESCRIPTION("Block devices with the latency of NAND flash, for the lab");
MODULE_LICENSE("GPL");
