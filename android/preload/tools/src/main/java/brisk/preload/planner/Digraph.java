// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** A directed graph over 0, 1, 2, ... that only grows. */
final class Digraph {
    private final List<int[]> mTargets = new ArrayList<>();
    private int[] mCounts = new int[16];

    int add() {
        int node = mTargets.size();
        mTargets.add(new int[4]);
        if (node == mCounts.length) {
            mCounts = Arrays.copyOf(mCounts, 2 * node);
        }
        return node;
    }

    void connect(int from, int to) {
        int[] targets = mTargets.get(from);
        if (mCounts[from] == targets.length) {
            targets = Arrays.copyOf(targets, 2 * targets.length);
            mTargets.set(from, targets);
        }
        targets[mCounts[from]++] = to;
    }

    int size() {
        return mTargets.size();
    }

    int count(int node) {
        return mCounts[node];
    }

    int target(int node, int index) {
        return mTargets.get(node)[index];
    }

    /**
     * The strongly connected components (Tarjan's algorithm, without recursion): the number of each node's component;
     * a component's number is larger than those of all components that it leads to.
     */
    Components components() {
        return new Tarjan().run();
    }

    /** The component of each node, and the number of components. */
    record Components(int[] of, int count) {}

    private final class Tarjan {
        private static final int UNSEEN = -1;

        private final int[] mIndex = filled();
        private final int[] mLow = new int[size()];
        private final int[] mComponent = filled();
        private final int[] mOpen = new int[size()];
        private final int[] mPath = new int[size()];
        private final int[] mNextEdge = new int[size()];
        private int mOpenCount;
        private int mSeen;
        private int mComponents;

        private int[] filled() {
            int[] array = new int[size()];
            Arrays.fill(array, UNSEEN);
            return array;
        }

        Components run() {
            for (int node = 0; node < size(); node++) {
                if (mIndex[node] == UNSEEN) {
                    explore(node);
                }
            }
            return new Components(mComponent, mComponents);
        }

        private void explore(int root) {
            int depth = 0;
            enter(mPath[0] = root);
            while (depth >= 0) {
                int node = mPath[depth];
                if (mNextEdge[node] < count(node)) {
                    int target = target(node, mNextEdge[node]++);
                    if (mIndex[target] == UNSEEN) {
                        enter(mPath[++depth] = target);
                    } else if (mComponent[target] == UNSEEN) {
                        mLow[node] = Math.min(mLow[node], mIndex[target]);
                    }
                } else {
                    leave(node);
                    depth--;
                    if (depth >= 0) {
                        mLow[mPath[depth]] = Math.min(mLow[mPath[depth]], mLow[node]);
                    }
                }
            }
        }

        private void enter(int node) {
            mIndex[node] = mLow[node] = mSeen++;
            mOpen[mOpenCount++] = node;
        }

        private void leave(int node) {
            if (mLow[node] != mIndex[node]) {
                return;
            }
            int member;
            do {
                member = mOpen[--mOpenCount];
                mComponent[member] = mComponents;
            } while (member != node);
            mComponents++;
        }
    }
}
