// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Joins small tasks: in a zygote, whose code is not compiled, reading and taking a task costs as much as a small class. It
 * joins a task with its only dependant, a task with its only dependency, and tasks that have the same dependencies and the same
 * dependants.
 *
 * <p>Every dependency is still done before, on the same thread or before its task begins, and no path leads from a task back to
 * itself: between two joined tasks there is no path other than the direct edge.
 */
final class Coarsening {
    private final double mMostUs;
    private final double[] mCostsUs;
    private final List<List<String>> mClasses = new ArrayList<>();
    private final boolean[] mStays;
    /** By task; null for a task that was joined into another. */
    private final List<Set<Integer>> mNeeds = new ArrayList<>();
    private final List<Set<Integer>> mNeededBy = new ArrayList<>();

    private Coarsening(List<Tasks.Task> tasks, double[] costsUs, double mostUs) {
        mMostUs = mostUs;
        mCostsUs = costsUs.clone();
        mStays = new boolean[tasks.size()];
        for (int number = 0; number < tasks.size(); number++) {
            Tasks.Task task = tasks.get(number);
            mClasses.add(new ArrayList<>(task.classes()));
            // Resources belong to no class, and exclusive tasks must stay short.
            mStays[number] = task.exclusive() || task.classes().isEmpty();
            mNeeds.add(new TreeSet<>());
            mNeededBy.add(new TreeSet<>());
            for (int dependency : task.dependencies()) {
                mNeeds.get(number).add(dependency);
                mNeededBy.get(dependency).add(number);
            }
        }
    }

    /** Joins {@code tasks}, whose dependencies come before them, while their joint cost is at most {@code mostUs}. */
    static List<Tasks.Task> of(List<Tasks.Task> tasks, double[] costsUs, double mostUs) {
        Coarsening coarsening = new Coarsening(tasks, costsUs, mostUs);
        coarsening.joinWithOnlyDependant();
        coarsening.joinWithOnlyDependency();
        coarsening.joinAlike();
        return coarsening.tasks(tasks);
    }

    private void joinWithOnlyDependant() {
        for (int task = 0; task < mStays.length; task++) {
            if (mNeededBy.get(task).size() == 1) {
                int dependant = mNeededBy.get(task).iterator().next();
                if (fit(task, dependant)) {
                    join(dependant, task, 0);
                }
            }
        }
    }

    private void joinWithOnlyDependency() {
        for (int task = 0; task < mStays.length; task++) {
            if (mNeeds.get(task) != null && mNeeds.get(task).size() == 1) {
                int dependency = mNeeds.get(task).iterator().next();
                if (fit(task, dependency)) {
                    join(dependency, task, mClasses.get(dependency).size());
                }
            }
        }
    }

    private void joinAlike() {
        Map<List<Set<Integer>>, Integer> last = new HashMap<>();
        for (int task = 0; task < mStays.length; task++) {
            if (mNeeds.get(task) == null || mStays[task]) {
                continue;
            }
            List<Set<Integer>> place = List.of(Set.copyOf(mNeeds.get(task)), Set.copyOf(mNeededBy.get(task)));
            Integer other = last.get(place);
            if (other != null && fit(task, other)) {
                join(other, task, mClasses.get(other).size());
            } else {
                last.put(place, task);
            }
        }
    }

    private boolean fit(int one, int other) {
        return !mStays[one] && !mStays[other] && mCostsUs[one] + mCostsUs[other] <= mMostUs;
    }

    /** Joins {@code task} into {@code into}; its classes are inserted at {@code place}. */
    private void join(int into, int task, int place) {
        mClasses.get(into).addAll(place, mClasses.get(task));
        mCostsUs[into] += mCostsUs[task];
        replace(mNeeds, mNeededBy, task, into);
        replace(mNeededBy, mNeeds, task, into);
    }

    /** For one direction: replaces edges to {@code task} by edges to {@code into}. */
    private static void replace(List<Set<Integer>> sides, List<Set<Integer>> opposite, int task, int into) {
        for (int other : sides.get(task)) {
            opposite.get(other).remove(task);
            if (other != into) {
                opposite.get(other).add(into);
                sides.get(into).add(other);
            }
        }
        sides.set(task, null);
    }

    /** The remaining tasks, dependencies first. */
    private List<Tasks.Task> tasks(List<Tasks.Task> before) {
        int[] waitsFor = new int[mStays.length];
        Deque<Integer> ready = new ArrayDeque<>();
        for (int task = 0; task < waitsFor.length; task++) {
            waitsFor[task] = mNeeds.get(task) == null ? -1 : mNeeds.get(task).size();
            if (waitsFor[task] == 0) {
                ready.add(task);
            }
        }
        int[] numbers = new int[waitsFor.length];
        List<Tasks.Task> after = new ArrayList<>();
        for (Integer task = ready.poll(); task != null; task = ready.poll()) {
            numbers[task] = after.size();
            int[] dependencies = mNeeds.get(task).stream().mapToInt(needed -> numbers[needed]).sorted().toArray();
            after.add(new Tasks.Task(List.copyOf(mClasses.get(task)), dependencies, before.get(task).exclusive()));
            for (int dependant : mNeededBy.get(task)) {
                if (--waitsFor[dependant] == 0) {
                    ready.add(dependant);
                }
            }
        }
        return after;
    }
}
