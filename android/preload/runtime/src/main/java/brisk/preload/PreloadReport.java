// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The result of a preload, class by class. */
public final class PreloadReport {
    /** The name of resources among the costs, where every other name is a class's. */
    public static final String RESOURCES = "resources";

    private final PreloadMode mMode;
    private final String mReason;
    private final ClassTable mTable;
    private final List<String> mFaults;
    private final long mResourcesNanos;
    private final long mNanos;

    PreloadReport(PreloadMode mode, String reason, ClassTable table, List<String> faults, long resourcesNanos, long nanos) {
        mMode = mode;
        mReason = reason;
        mTable = table;
        mFaults = Collections.unmodifiableList(new ArrayList<String>(faults));
        mResourcesNanos = resourcesNanos;
        mNanos = nanos;
    }

    /** The mode that ran, which may differ from the requested one. */
    public PreloadMode mode() {
        return mMode;
    }

    /** Why another mode than the requested one ran, or null. */
    public String reason() {
        return mReason;
    }

    /** The duration, from the start of the first worker to the end of the last. */
    public long nanos() {
        return mNanos;
    }

    /** The number of classes: those of the list, and those that a plan adds. */
    public int size() {
        return mTable.size();
    }

    public String name(int index) {
        return mTable.name(index);
    }

    public Outcome outcome(int index) {
        return mTable.outcome(index);
    }

    /** The class's duration, including the classes that it initialised. */
    public long nanos(int index) {
        return mTable.nanos(index);
    }

    /** The resources' duration; 0 without resources. */
    public long resourcesNanos() {
        return mResourcesNanos;
    }

    public int count(Outcome outcome) {
        int count = 0;
        for (int index = 0; index < size(); index++) {
            if (outcome(index) == outcome) {
                count++;
            }
        }
        return count;
    }

    /** Errors other than classes: workers that could not start, resources that threw. */
    public List<String> faults() {
        return mFaults;
    }

    /** Writes the duration of each class and {@value #RESOURCES} for the planner: a name, a space, microseconds. */
    public void writeCosts(Appendable out) throws IOException {
        for (int index = 0; index < size(); index++) {
            out.append(name(index)).append(' ').append(Long.toString(nanos(index) / 1000)).append('\n');
        }
        if (mResourcesNanos > 0) {
            out.append(RESOURCES).append(' ').append(Long.toString(mResourcesNanos / 1000)).append('\n');
        }
    }

    /** A line for the log: mode, time, outcomes; below it the errors. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder("preloaded ").append(size()).append(" classes in ");
        text.append(mNanos / 1000000).append(" ms (").append(mMode);
        text.append(mReason == null ? ")" : ": " + mReason + ")");
        for (Outcome outcome : Outcome.values()) {
            int count = count(outcome);
            if (count > 0) {
                text.append(", ").append(count).append(' ').append(outcome);
            }
        }
        for (String fault : mFaults) {
            text.append("\n  ").append(fault);
        }
        return text.toString();
    }
}
