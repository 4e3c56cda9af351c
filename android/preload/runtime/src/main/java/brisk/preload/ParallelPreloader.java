// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * Preloads the zygote's classes and resources on several threads. When {@link #preload} returns, the threads that it has
 * started have exited.
 *
 * <p>It never refuses: if a mode is not possible, it preloads like the platform, and the report has the reason.
 */
public final class ParallelPreloader {
    /** Receives a stall, on a thread that still runs. */
    public interface StallListener {
        void stalled(String description);
    }

    /** Lets a child process initialise the list ({@link PreloadMode#FORK}). */
    public interface Fork {
        /** Starts the child. */
        void start() throws IOException;

        /** Is called when the resources are done; waits for the child's end if the zygote is to wait. */
        void join() throws IOException;
    }

    private static final long STALL_LIMIT_MS = 30000;

    private final PreloadMode mAsked;
    private int mThreads = Runtime.getRuntime().availableProcessors();
    private ClassLoader mLoader;
    private Runnable mWorkerSetup;
    private Runnable mResources;
    private Fork mFork;
    private File mMarkerFile;
    private long mStallLimitMs = STALL_LIMIT_MS;
    private StallListener mStallListener;

    // State of the current preload.
    private final List<String> mFaults = new ArrayList<String>();
    private String mReason;
    private BootMarker mMarker;
    private Crew mCrew;
    private Crew mWatch;
    private Watchdog mWatchdog;
    /** Read by the watchdog. */
    private volatile ClassTable mTable;
    private boolean mResourcesDone;
    private long mResourcesNanos;
    private boolean mMarked;

    public ParallelPreloader(PreloadMode mode) {
        mAsked = mode;
    }

    /** The number of threads, including the calling one; the number of processors by default. */
    public ParallelPreloader setThreads(int threads) {
        mThreads = threads;
        return this;
    }

    /** The loader of the classes; by default the boot class path's. A loader in Java must be parallel capable. */
    public ParallelPreloader setLoader(ClassLoader loader) {
        mLoader = loader;
        return this;
    }

    /** Runs first on each worker: in a zygote it drops root for that thread. */
    public ParallelPreloader setWorkerSetup(Runnable setup) {
        mWorkerSetup = setup;
        return this;
    }

    /** Preloads resources; runs in parallel with the classes where a plan has a task for it, and after them otherwise. */
    public ParallelPreloader setResources(Runnable resources) {
        mResources = resources;
        return this;
    }

    /** The child of {@link PreloadMode#FORK}. */
    public ParallelPreloader setFork(Fork fork) {
        mFork = fork;
        return this;
    }

    /** A file that tells the next start that this one hung, on storage that persists. */
    public ParallelPreloader setMarker(File marker) {
        mMarkerFile = marker;
        return this;
    }

    /** The listener for a stall, when no class was finished for {@code limitMs}; it should end the process. */
    public ParallelPreloader setStallListener(long limitMs, StallListener listener) {
        mStallLimitMs = limitMs;
        mStallListener = listener;
        return this;
    }

    /**
     * Preloads. {@code plan} may be null; {@code jars} are those that the plan must match.
     */
    public PreloadReport preload(ClassList list, File plan, List<File> jars) {
        long startedNanos = System.nanoTime();
        mFaults.clear();
        mReason = null;
        mMarker = mMarkerFile == null ? null : new BootMarker(mMarkerFile, configuration(list, null, 0));
        mMarked = false;
        mResourcesDone = mResources == null;
        mResourcesNanos = 0;
        mCrew = new Crew(mWorkerSetup);
        mTable = new ClassTable(list.names(), mLoader);
        PlanReader reader = null;
        String mismatch = "there is no plan";
        if (plan != null && mAsked != PreloadMode.OFF && mAsked != PreloadMode.FORK) {
            try {
                reader = new PlanReader(plan);
                mismatch = reader.origin().mismatch(jars, list);
            } catch (IOException e) {
                mismatch = plan + ": " + e.getMessage();
            }
        }
        if (mMarkerFile != null && mismatch == null) {
            mMarker = new BootMarker(mMarkerFile, configuration(list, reader, plan.length()));
        }
        PreloadMode mode = decide(mismatch);
        run(mode, list, mismatch == null ? reader : null);
        finish();
        return new PreloadReport(mReason != null ? PreloadMode.OFF : mode, mReason, mTable, mFaults,
                mResourcesNanos, System.nanoTime() - startedNanos);
    }

    private void run(PreloadMode mode, ClassList list, PlanReader reader) {
        switch (mode) {
            case AHEAD:
                ahead(list, reader);
                break;
            case PLAN:
                planned(list, reader);
                break;
            case FORK:
                fork();
                break;
            default:
                break;
        }
    }

    /** Completes the preload in order, on this thread: everything in sequential mode, otherwise what is left. */
    private void finish() {
        for (int index = 0; index < mTable.size(); index++) {
            if (mTable.outcome(index) == null) {
                mTable.initialise(index);
            }
        }
        runResources();
        if (mMarked) {
            try {
                mMarker.end();
            } catch (IOException e) {
                mFaults.add(e.getMessage());
            }
        }
    }

    private PreloadMode decide(String mismatch) {
        if (mAsked == PreloadMode.OFF) {
            return PreloadMode.OFF;
        }
        if (mAsked == PreloadMode.FORK) {
            return mFork == null ? off("there is nothing to fork with") : PreloadMode.FORK;
        }
        if (mThreads < 2) {
            return off("there is one processor");
        }
        if (mAsked == PreloadMode.PLAN && mismatch != null) {
            return off(mismatch);
        }
        if (mMarker != null) {
            try {
                String objection = mMarker.objection();
                if (objection != null) {
                    return off(objection);
                }
                mMarker.begin();
                mMarked = true;
            } catch (IOException e) {
                // Loading ahead cannot hang; a plan with a missing edge may, and the next start would not know.
                if (mAsked == PreloadMode.PLAN) {
                    return off("cannot write the marker of a hang: " + e.getMessage());
                }
                mFaults.add(e.getMessage());
            }
        }
        return mAsked;
    }

    private PreloadMode off(String reason) {
        mReason = reason;
        return PreloadMode.OFF;
    }

    /** One word that changes whenever another try may succeed. */
    private String configuration(ClassList list, PlanReader plan, long planBytes) {
        String of = plan == null ? "none" : Integer.toHexString(plan.origin().hashCode()) + "." + planBytes;
        return mAsked + "-" + mThreads + "-" + Long.toHexString(list.checksum()) + "-" + of;
    }

    /** Starts the watchdog before the workers, which could keep it from running. */
    private void watch() {
        mWatch = new Crew(mWorkerSetup);
        mWatchdog = new Watchdog(this, mStallLimitMs, mStallListener);
        if (mStallListener != null) {
            mWatch.start("watchdog", mWatchdog);
        }
    }

    /** Runs {@code work} on this thread and waits until no other thread is left. */
    private void work(Runnable work) {
        try {
            work.run();
        } catch (Throwable e) {
            // The rest is done in order, on this thread.
            mFaults.add(e.toString());
        }
        mCrew.join();
        mWatchdog.end();
        mWatch.join();
        mFaults.addAll(mCrew.faults());
        mFaults.addAll(mWatch.faults());
        Crew.awaitGone();
    }

    private void ahead(ClassList list, PlanReader reader) {
        watch();
        Set<String> needed = mResourcesDone || reader == null ? null : neededByResources(list, reader);
        if (needed != null) {
            Set<String> names = new LinkedHashSet<String>(list.names());
            names.addAll(needed);
            mTable = new ClassTable(new ArrayList<String>(names), mLoader);
        }
        final LoadAhead loading = new LoadAhead(mTable);
        final ResourceGate gate = needed == null ? null : new ResourceGate(mTable, needed, list.names().size());
        for (int worker = 1; worker < mThreads; worker++) {
            final boolean takesResources = gate != null && worker == 1;
            mCrew.start("" + worker, new Runnable() {
                @Override
                public void run() {
                    loading.run();
                    if (takesResources && gate.awaited()) {
                        runResources();
                    }
                }
            });
        }
        work(new Runnable() {
            @Override
            public void run() {
                try {
                    loading.initialiseInOrder(gate);
                } finally {
                    if (gate != null) {
                        gate.open();
                    }
                }
            }
        });
    }

    /** The classes that must be initialised before resources may run in parallel; null if unknown. */
    private Set<String> neededByResources(ClassList list, PlanReader reader) {
        PreloadPlan plan;
        try {
            plan = reader.tasks(list.names());
        } catch (IOException e) {
            mFaults.add("resources come after the classes: " + e.getMessage());
            return null;
        }
        for (PreloadPlan.Task task : plan.tasks()) {
            if (task.isResources()) {
                Set<String> needed = new LinkedHashSet<String>();
                for (int dependency : task.dependencies()) {
                    Collections.addAll(needed, plan.tasks().get(dependency).classes());
                }
                return needed;
            }
        }
        return null;
    }

    /** Workers load classes of the list while this thread reads the plan; then all threads follow it. */
    private void planned(ClassList list, PlanReader reader) {
        watch();
        final LoadAhead loading = new LoadAhead(mTable);
        final Handover<PlanRunner> handover = new Handover<PlanRunner>();
        for (int worker = 1; worker < mThreads; worker++) {
            mCrew.start("" + worker, new Runnable() {
                @Override
                public void run() {
                    loading.run();
                    PlanRunner runner = handover.take();
                    if (runner != null) {
                        runner.run();
                    }
                }
            });
        }
        try {
            handover.give(runner(list, reader));
        } finally {
            // In any case no thread must keep waiting for it.
            loading.stop();
            handover.end();
        }
        work(new Runnable() {
            @Override
            public void run() {
                PlanRunner runner = handover.take();
                if (runner != null) {
                    runner.run();
                }
            }
        });
    }

    /** Reads the rest of the plan and prepares its execution; null if it is damaged. */
    private PlanRunner runner(ClassList list, PlanReader reader) {
        try {
            PreloadPlan plan = reader.tasks(list.names());
            mTable = new ClassTable(names(plan), mLoader);
            return new PlanRunner(plan, mTable, new Runnable() {
                @Override
                public void run() {
                    runResources();
                }
            });
        } catch (IOException e) {
            mReason = e.getMessage();
            return null;
        }
    }

    private static List<String> names(PreloadPlan plan) {
        List<String> names = new ArrayList<String>();
        for (PreloadPlan.Task task : plan.tasks()) {
            task.addClassesTo(names);
        }
        return names;
    }

    /** Leaves the classes to a child; where that fails, they are initialised in order afterwards, on this thread. */
    private void fork() {
        try {
            mFork.start();
        } catch (IOException e) {
            mReason = "no child: " + e.getMessage();
            return;
        }
        runResources();
        try {
            mFork.join();
        } catch (IOException e) {
            mReason = "the child: " + e.getMessage();
            return;
        }
        for (int index = 0; index < mTable.size(); index++) {
            mTable.leave(index);
        }
    }

    /** The number of classes that are done, and their total. */
    int done() {
        return mTable.done();
    }

    int size() {
        return mTable.size();
    }

    /** Runs once, on the first thread that calls it. */
    private void runResources() {
        synchronized (mFaults) {
            if (mResourcesDone) {
                return;
            }
            mResourcesDone = true;
        }
        long startedNanos = System.nanoTime();
        try {
            mResources.run();
        } catch (Throwable e) {
            synchronized (mFaults) {
                mFaults.add("resources: " + e);
            }
        }
        // Read after the threads that have run them were joined.
        mResourcesNanos = System.nanoTime() - startedNanos;
    }
}
