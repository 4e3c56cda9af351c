// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.util.BitSet;
import java.util.List;

/**
 * Runs a plan: a free thread takes the most urgent task whose dependencies are done. A thread without such a task loads classes
 * of later tasks meanwhile, which initialises nothing.
 */
final class PlanRunner implements Runnable {
    private static final int NOTHING = -1;
    private static final int[] NONE = {};

    private final ClassTable mTable;
    private final List<PreloadPlan.Task> mTasks;
    private final Runnable mResources;
    /** The index of each task's first class in the table, and the number of classes. */
    private final int[] mFirstClass;
    private final int[][] mDependants;

    // Guarded by this. A task's number is its rank: the smallest is the most urgent.
    private final int[] mWaitsFor;
    private final BitSet mFree = new BitSet();
    private final BitSet mExclusive = new BitSet();
    private final BitSet mTaken = new BitSet();
    private boolean mExclusiveRuns;
    private int mNextLoad;
    private int mLeft;

    /** {@code table} has the classes of {@code plan} in the plan's order. */
    PlanRunner(PreloadPlan plan, ClassTable table, Runnable resources) {
        mTable = table;
        mTasks = plan.tasks();
        mResources = resources;
        mFirstClass = new int[mTasks.size() + 1];
        mWaitsFor = new int[mTasks.size()];
        mDependants = dependants(mTasks);
        mLeft = mTasks.size();
        for (int task = 0; task < mTasks.size(); task++) {
            mFirstClass[task + 1] = mFirstClass[task] + mTasks.get(task).classCount();
            mWaitsFor[task] = mTasks.get(task).dependencyCount();
            if (mWaitsFor[task] == 0) {
                ready(task);
            }
        }
    }

    /** Runs tasks until none is left to start; must be called on each thread. */
    @Override
    public void run() {
        int done = NOTHING;
        try {
            for (int task = take(done); task != NOTHING; task = take(done)) {
                done = task;
                if (mTasks.get(task).isResources()) {
                    mResources.run();
                }
                for (int index = mFirstClass[task]; index < mFirstClass[task + 1]; index++) {
                    mTable.initialise(index);
                }
            }
        } catch (Throwable e) {
            abandon();
            throw e;
        }
    }

    /** Stops the plan, so that no thread waits for a task that fails; the main thread completes the rest in order. */
    private synchronized void abandon() {
        mLeft = 0;
        notifyAll();
    }

    /** The next task, after {@code done}; loads classes while there is none. Returns NOTHING when all are done. */
    private int take(int done) {
        int finished = done;
        while (true) {
            int load;
            synchronized (this) {
                if (finished != NOTHING) {
                    finish(finished);
                    finished = NOTHING;
                }
                int task = mLeft == 0 ? NOTHING : mostUrgent();
                if (task != NOTHING || mLeft == 0) {
                    return task;
                }
                load = nextLoad();
                if (load == NOTHING) {
                    awaitChange();
                    continue;
                }
            }
            for (int index = mFirstClass[load]; index < mFirstClass[load + 1]; index++) {
                mTable.load(index);
            }
        }
    }

    private void awaitChange() {
        try {
            wait();
        } catch (InterruptedException e) {
            // A preload is not cancelled: half of it would be worse than none.
            return;
        }
    }

    private int mostUrgent() {
        int free = mFree.nextSetBit(0);
        int exclusive = mExclusiveRuns ? NOTHING : mExclusive.nextSetBit(0);
        int task = free;
        if (exclusive != NOTHING && (free == NOTHING || exclusive < free)) {
            task = exclusive;
            mExclusive.clear(task);
            mExclusiveRuns = true;
        } else if (free != NOTHING) {
            mFree.clear(task);
        }
        if (task != NOTHING) {
            mTaken.set(task);
        }
        return task;
    }

    private int nextLoad() {
        mNextLoad = mTaken.nextClearBit(mNextLoad);
        return mNextLoad < mTasks.size() ? mNextLoad++ : NOTHING;
    }

    private void finish(int task) {
        if (mLeft == 0) {
            return; // abandoned
        }
        if (mTasks.get(task).exclusive()) {
            mExclusiveRuns = false;
        }
        for (int dependant : mDependants[task]) {
            if (--mWaitsFor[dependant] == 0) {
                ready(dependant);
            }
        }
        mLeft--;
        notifyAll();
    }

    private void ready(int task) {
        (mTasks.get(task).exclusive() ? mExclusive : mFree).set(task);
    }

    private static int[][] dependants(List<PreloadPlan.Task> tasks) {
        int[] counts = new int[tasks.size()];
        for (PreloadPlan.Task task : tasks) {
            for (int index = 0; index < task.dependencyCount(); index++) {
                counts[task.dependency(index)]++;
            }
        }
        int[][] dependants = new int[tasks.size()][];
        for (int number = 0; number < dependants.length; number++) {
            dependants[number] = counts[number] == 0 ? NONE : new int[counts[number]];
            PreloadPlan.Task task = tasks.get(number);
            for (int index = 0; index < task.dependencyCount(); index++) {
                // A dependency has a smaller number, so its array exists.
                int dependency = task.dependency(index);
                dependants[dependency][--counts[dependency]] = number;
            }
        }
        return dependants;
    }
}
