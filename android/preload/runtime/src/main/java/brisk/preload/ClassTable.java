// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The classes of one preload and what became of each. Each class is initialised by one thread; the others read the
 * figures after they have joined it.
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

    /** How many classes are done; grows from any thread. */
    int done() {
        return mDone.get();
    }

    void leave(int index) {
        mOutcomes[index] = Outcome.LEFT;
    }

    /** Initialises the class. Whatever its initialiser throws is an outcome; what is not about the class goes through. */
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
            // An Error that an initialiser throws comes as it is; a loader may throw anything.
            outcome = Outcome.THREW;
        }
        mNanos[index] = System.nanoTime() - startedNanos;
        mOutcomes[index] = outcome;
        mDone.incrementAndGet();
    }

    /** Loads the class and initialises nothing. What is wrong with it, the initialisation will tell. */
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
