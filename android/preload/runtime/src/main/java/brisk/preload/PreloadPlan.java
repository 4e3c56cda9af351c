// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Classes that are initialised together, and their order. {@code README.md} has the format. A plan is only valid for the jars
 * and the list that it was made from.
 */
public final class PreloadPlan {
    /** The first line of every plan. */
    public static final String HEADER = "brisk-preload-plan 2";

    /** Classes that one thread initialises in order: one, or those of a cycle; none for the task that preloads resources. */
    public static final class Task {
        private final String[] mClasses;
        private final int[] mDependencies;
        private final boolean mExclusive;

        /** Keeps the arrays, which must not change any more. */
        public Task(String[] classes, int[] dependencies, boolean exclusive) {
            mClasses = classes;
            mDependencies = dependencies;
            mExclusive = exclusive;
        }

        public String[] classes() {
            return mClasses.clone();
        }

        int classCount() {
            return mClasses.length;
        }

        void addClassesTo(Collection<String> names) {
            Collections.addAll(names, mClasses);
        }

        int dependencyCount() {
            return mDependencies.length;
        }

        int dependency(int index) {
            return mDependencies[index];
        }

        /** The tasks that must be done before, by their number in the plan; each is smaller than this task's own. */
        public int[] dependencies() {
            return mDependencies.clone();
        }

        /** True if no other exclusive task may run at the same time. */
        public boolean exclusive() {
            return mExclusive;
        }

        /** True for the task that preloads resources. */
        public boolean isResources() {
            return mClasses.length == 0;
        }
    }

    /** What a plan was made from; it is at the beginning, so that it can be checked before the rest is read. */
    static final class Origin {
        private final Map<String, JarFingerprint> mJars;
        private final long mListChecksum;

        Origin(Map<String, JarFingerprint> jars, long listChecksum) {
            mJars = new HashMap<String, JarFingerprint>(jars);
            mListChecksum = listChecksum;
        }

        /** Why the plan is not valid for these jars and this list, or null if it is. */
        String mismatch(List<File> jars, ClassList list) {
            if (list.checksum() != mListChecksum) {
                return "the plan was made from another class list";
            }
            if (jars.size() != mJars.size()) {
                return "the plan was made from " + mJars.size() + " jars, but there are " + jars.size();
            }
            for (File jar : jars) {
                JarFingerprint planned = mJars.get(jar.getName());
                if (planned == null) {
                    return "the plan does not know " + jar;
                }
                try {
                    if (!planned.equals(JarFingerprint.of(jar))) {
                        return jar + " has changed since the plan was made";
                    }
                } catch (IOException e) {
                    return e.getMessage();
                }
            }
            return null;
        }

        @Override
        public int hashCode() {
            return mJars.hashCode() * 31 + (int) mListChecksum;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Origin && mJars.equals(((Origin) other).mJars)
                    && mListChecksum == ((Origin) other).mListChecksum;
        }
    }

    private final List<Task> mTasks;

    public PreloadPlan(List<Task> tasks) {
        mTasks = Collections.unmodifiableList(new ArrayList<Task>(tasks));
    }

    /**
     * Reads and checks a plan that was made from {@code list}.
     *
     * @throws PlanException if it is damaged, with the line
     * @throws IOException if it cannot be read
     */
    public static PreloadPlan read(File file, ClassList list) throws IOException {
        return new PlanReader(file).tasks(list.names());
    }

    /** The tasks, the most urgent first; each comes after those that it depends on. */
    public List<Task> tasks() {
        return mTasks;
    }
}
