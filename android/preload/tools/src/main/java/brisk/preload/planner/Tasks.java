// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/**
 * The planned classes as tasks: the components of the initialisation graph, each with the tasks that must be done before.
 *
 * <p>Why no two threads can wait for each other's initialisers: a thread that waits for a class in initialisation leads to it in
 * the graph, so threads that wait in a circle are all in one component. A component's planned classes are one task, and
 * everything that leads to them comes later. What remains are components of classes that are not planned, since no recording
 * shows their initialisation: the tasks that may enter such a component of two classes or more are exclusive.
 */
final class Tasks {
    /** One task; {@code dependencies} are reduced to those that no other dependency implies. */
    record Task(List<String> classes, int[] dependencies, boolean exclusive) {}

    private final Digraph mGraph;
    private final Map<String, Integer> mPlanned;
    private final int[] mComponentOf;
    private final int mComponents;
    private final boolean[] mEntersCycle;
    private final List<Task> mTasks = new ArrayList<>();
    private final Map<Integer, Integer> mTaskOfComponent = new HashMap<>();
    private BitSet[] mReached;
    private BitSet[] mClosure;
    private int mUnplannedCycles;

    /**
     * Makes tasks of {@code planned}, which is in the order in which a component's classes are initialised; {@code classNodes}
     * are all classes of the graph.
     */
    Tasks(Digraph graph, Map<String, Integer> classNodes, List<String> planned) {
        mGraph = graph;
        mPlanned = new HashMap<>();
        planned.forEach(name -> mPlanned.put(name, classNodes.get(name)));
        Digraph.Components components = graph.components();
        mComponentOf = components.of();
        mComponents = components.count();
        mEntersCycle = entersCycle(classNodes);
        Map<Integer, List<String>> members = new HashMap<>();
        for (String name : planned) {
            members.computeIfAbsent(mComponentOf[classNodes.get(name)], component -> new ArrayList<>()).add(name);
        }
        makeTasks(members);
    }

    List<Task> tasks() {
        return mTasks;
    }

    /** The number of cycles of unplanned classes that some task may enter. */
    int unplannedCycles() {
        return mUnplannedCycles;
    }

    /** A task of no class for the code behind {@code node}. */
    Task taskOf(int node) {
        return new Task(List.of(), reduced(mReached[mComponentOf[node]]), mEntersCycle[node]);
    }

    private void makeTasks(Map<Integer, List<String>> members) {
        // Components are numbered so that those that one leads to come before it.
        List<List<Integer>> nodes = new ArrayList<>();
        for (int component = 0; component < mComponents; component++) {
            nodes.add(new ArrayList<>(1));
        }
        for (int node = 0; node < mGraph.size(); node++) {
            nodes.get(mComponentOf[node]).add(node);
        }
        mReached = new BitSet[mComponents];
        mClosure = new BitSet[members.size()];
        for (int component = 0; component < mComponents; component++) {
            BitSet reached = reachedFrom(component, nodes.get(component));
            List<String> classes = members.get(component);
            if (classes != null) {
                int task = mTasks.size();
                boolean exclusive = classes.stream().anyMatch(name -> mEntersCycle[mPlanned.get(name)]);
                mTasks.add(new Task(classes, reduced(reached), exclusive));
                mTaskOfComponent.put(component, task);
                mClosure[task] = closure(reached);
                reached = new BitSet();
                reached.set(task);
            }
            mReached[component] = reached;
        }
    }

    /** The tasks that the component leads to, without those that only other tasks lead to. */
    private BitSet reachedFrom(int component, List<Integer> nodes) {
        BitSet reached = new BitSet();
        for (int node : nodes) {
            for (int edge = 0; edge < mGraph.count(node); edge++) {
                int target = mComponentOf[mGraph.target(node, edge)];
                if (target != component) {
                    reached.or(mReached[target]);
                }
            }
        }
        return reached;
    }

    private BitSet closure(BitSet reached) {
        BitSet closure = (BitSet) reached.clone();
        reached.stream().forEach(task -> closure.or(mClosure[task]));
        return closure;
    }

    private int[] reduced(BitSet reached) {
        BitSet implied = new BitSet();
        reached.stream().forEach(task -> implied.or(mClosure[task]));
        BitSet direct = (BitSet) reached.clone();
        direct.andNot(implied);
        return direct.stream().toArray();
    }

    /** The nodes that lead, over unplanned classes only, to a cycle of two such classes or more. */
    private boolean[] entersCycle(Map<String, Integer> classNodes) {
        boolean[] isPlanned = new boolean[mGraph.size()];
        mPlanned.values().forEach(node -> isPlanned[node] = true);
        Digraph rest = new Digraph();
        for (int node = 0; node < mGraph.size(); node++) {
            rest.add();
        }
        for (int node = 0; node < mGraph.size(); node++) {
            for (int edge = 0; edge < mGraph.count(node); edge++) {
                int target = mGraph.target(node, edge);
                // A planned class is done before the nodes that lead to it begin: nothing behind it matters.
                if (!isPlanned[target]) {
                    rest.connect(node, target);
                }
            }
        }
        Digraph.Components components = rest.components();
        int[] classes = new int[components.count()];
        classNodes.values().stream().filter(node -> !isPlanned[node]).forEach(node -> classes[components.of()[node]]++);
        boolean[] enters = new boolean[components.count()];
        boolean[] counted = new boolean[components.count()];
        boolean[] result = new boolean[mGraph.size()];
        for (int component = 0; component < enters.length; component++) {
            enters[component] = classes[component] > 1;
        }
        // By component, those that one leads to first.
        Integer[] order = IntStream.range(0, mGraph.size()).boxed()
                .sorted(Comparator.comparingInt(node -> components.of()[node])).toArray(Integer[]::new);
        for (int node : order) {
            for (int edge = 0; edge < rest.count(node); edge++) {
                enters[components.of()[node]] |= enters[components.of()[rest.target(node, edge)]];
            }
        }
        for (int node = 0; node < result.length; node++) {
            result[node] = enters[components.of()[node]];
            int component = components.of()[node];
            if (classes[component] > 1 && !counted[component]) {
                counted[component] = true;
                mUnplannedCycles++;
            }
        }
        return result;
    }
}
