// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The classes of one preload and their outcomes. Each class is initialised by one thread; other threads read the figures after
 * they have joined it.
 */
final class ClassTable {
    private final String[] mNames;
    private final Outcome[] mOutcomes;
    private final long[] mNanos;
    private final ClassLoader mLoader;
    private final AtomicInteger mDone = new AtomicInteger();

    ClassTable(List<String> names, ClassLoader loader) {
        mNames = names.toArray(new String[0]);
        mOutcomes = new Outcome[mNames.length];
        mNanos = new long[mNames.length];
        mLoader = loader;
    }

    int size() {
        return mNames.length;
    }

    String name(int index) {
        return mNames[index];
    }

    /** Null until a thread has tried. */
    Outcome outcome(int index) {
        return mOutcomes[index];
    }

    long nanos(int index) {
        return mNanos[index];
    }

    /** The number of classes that are done; any thread may increase it. */
    int done() {
        return mDone.get();
    }

    void leave(int index) {
        mOutcomes[index] = Outcome.LEFT;
    }

    /** Initialises the class. An exception of its initialiser is an outcome; other errors are passed on. */
    void initialise(int index) {
        long startedNanos = System.nanoTime();
        Outcome outcome;
        try {
            Class.forName(mNames[index], true, mLoader);
            outcome = Outcome.INITIALISED;
        } catch (ClassNotFoundException e) {
            outcome = Outcome.UNKNOWN;
        } catch (ExceptionInInitializerError e) {
            outcome = Outcome.THREW;
        } catch (LinkageError e) {
            outcome = thrownByInitialiser(e) ? Outcome.THREW : Outcome.UNLINKED;
        } catch (OutOfMemoryError e) {
            throw e;
        } catch (Throwable e) {
            // An Error of an initialiser is thrown unchanged; a loader may throw anything.
            outcome = Outcome.THREW;
        }
        mNanos[index] = System.nanoTime() - startedNanos;
        mOutcomes[index] = outcome;
        mDone.incrementAndGet();
    }

    /** Loads the class without initialising it. Errors are reported by the later initialisation. */
    void load(int index) {
        try {
            Class.forName(mNames[index], false, mLoader);
        } catch (ClassNotFoundException e) {
            return;
        } catch (LinkageError e) {
            return;
        }
    }

    private static boolean thrownByInitialiser(LinkageError error) {
        for (StackTraceElement frame : error.getStackTrace()) {
            if (frame.getMethodName().equals("<clinit>")) {
                return true;
            }
        }
        return false;
    }
}
