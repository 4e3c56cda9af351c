// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;

/** A plan's duration on a number of threads, by the rule that the preloader follows; no clock, no thread. */
public final class Schedule {
    /**
     * The joint throughput of two threads, in units of one: in general, and where both load classes, which a virtual machine
     * may serialise. Each further thread is assumed to slow the others as much as the second.
     */
    public record Speedup(double ofTwo, double ofTwoThatLoad) {
        /** Loading scales like other work. */
        public Speedup(double ofTwo) {
            this(ofTwo, ofTwo);
        }

        /** The speed of one thread next to {@code others}, of which {@code loading} load; 1 is alone. */
        double rate(boolean loads, int others, int loading) {
            double usual = 2 / ofTwo - 1;
            double ofLoading = loads ? 2 / ofTwoThatLoad - 1 : usual;
            return 1 / (1 + usual * (others - loading) + ofLoading * loading);
        }
    }

    private static final double EPSILON_US = 1e-6;

    private final List<Tasks.Task> mTasks;
    private final double[] mCosts;
    private final double[] mLoads;
    private final double[] mUrgency;
    private final List<List<Integer>> mDependants = new ArrayList<>();

    /** {@code costs} are microseconds, one per task; {@code loads} is the loading part of them. */
    Schedule(List<Tasks.Task> tasks, double[] costs, double[] loads) {
        mTasks = tasks;
        mCosts = costs;
        mLoads = loads;
        mUrgency = costs.clone();
        for (int task = 0; task < tasks.size(); task++) {
            mDependants.add(new ArrayList<>());
            for (int dependency : tasks.get(task).dependencies()) {
                mDependants.get(dependency).add(task);
            }
        }
        for (int task = tasks.size() - 1; task >= 0; task--) {
            double longest = 0;
            for (int dependant : mDependants.get(task)) {
                longest = Math.max(longest, mUrgency[dependant]);
            }
            mUrgency[task] += longest;
        }
    }

    /** The same with one more task that takes {@code costUs} and has no dependants. */
    Schedule with(double costUs) {
        List<Tasks.Task> tasks = new ArrayList<>(mTasks);
        tasks.add(new Tasks.Task(List.of(), new int[0], false));
        double[] costs = Arrays.copyOf(mCosts, tasks.size());
        costs[mTasks.size()] = costUs;
        return new Schedule(tasks, costs, Arrays.copyOf(mLoads, tasks.size()));
    }

    /** The same with {@code us} for resources. */
    Schedule withResources(double us) {
        double[] costs = mCosts.clone();
        for (int task = 0; task < costs.length; task++) {
            if (mTasks.get(task).classes().isEmpty()) {
                costs[task] = us;
            }
        }
        return new Schedule(mTasks, costs, mLoads);
    }

    /** Microseconds on the longest path from the task to the end. */
    double urgency(int task) {
        return mUrgency[task];
    }

    double longestWay() {
        double longest = 0;
        for (double urgency : mUrgency) {
            longest = Math.max(longest, urgency);
        }
        return longest;
    }

    double total() {
        double total = 0;
        for (double cost : mCosts) {
            total += cost;
        }
        return total;
    }

    /** The end of the last task, in microseconds: the most urgent ready task first, exclusive ones one at a time. */
    double makespan(int threads, Speedup speedup) {
        return new Run(threads, speedup).makespan();
    }

    private final class Run {
        private final int mThreads;
        private final Speedup mSpeedup;
        private final int[] mWaitsFor = new int[mTasks.size()];
        private final double[] mLeft = mCosts.clone();
        private final List<Integer> mActive = new ArrayList<>();
        private final PriorityQueue<Integer> mFree = queue();
        private final PriorityQueue<Integer> mExclusive = queue();

        Run(int threads, Speedup speedup) {
            mThreads = threads;
            mSpeedup = speedup;
        }

        private PriorityQueue<Integer> queue() {
            return new PriorityQueue<>(Comparator.<Integer>comparingDouble(task -> -mUrgency[task]).thenComparing(task -> task));
        }

        double makespan() {
            for (int task = 0; task < mWaitsFor.length; task++) {
                mWaitsFor[task] = mTasks.get(task).dependencies().length;
                if (mWaitsFor[task] == 0) {
                    ready(task);
                }
            }
            double now = 0;
            for (begin(); !mActive.isEmpty(); begin()) {
                now += step();
            }
            return now;
        }

        private boolean loads(int task) {
            return mCosts[task] - mLeft[task] < mLoads[task] - EPSILON_US;
        }

        /** Advances the time until a task ends, or until a loading task begins to initialise; returns by how much. */
        private double step() {
            int loading = (int) mActive.stream().filter(this::loads).count();
            Map<Integer, Double> rates = new HashMap<>();
            double time = Double.MAX_VALUE;
            for (int task : mActive) {
                boolean loads = loads(task);
                double rate = mSpeedup.rate(loads, mActive.size() - 1, loads ? loading - 1 : loading);
                double work = loads ? mLoads[task] - (mCosts[task] - mLeft[task]) : mLeft[task];
                rates.put(task, rate);
                time = Math.min(time, work / rate);
            }
            for (int task : List.copyOf(mActive)) {
                mLeft[task] -= time * rates.get(task);
                if (mLeft[task] < EPSILON_US) {
                    mActive.remove((Integer) task);
                    for (int dependant : mDependants.get(task)) {
                        if (--mWaitsFor[dependant] == 0) {
                            ready(dependant);
                        }
                    }
                }
            }
            return time;
        }

        private void ready(int task) {
            (mTasks.get(task).exclusive() ? mExclusive : mFree).add(task);
        }

        private void begin() {
            while (mActive.size() < mThreads) {
                boolean exclusiveRuns = mActive.stream().anyMatch(task -> mTasks.get(task).exclusive());
                Integer exclusive = exclusiveRuns ? null : mExclusive.peek();
                Integer free = mFree.peek();
                if (exclusive == null && free == null) {
                    return;
                }
                boolean takesExclusive = exclusive != null
                        && (free == null || mExclusive.comparator().compare(exclusive, free) < 0);
                mActive.add(takesExclusive ? mExclusive.remove() : mFree.remove());
            }
        }
    }
}
