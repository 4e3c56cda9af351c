// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;

import brisk.preload.Outcome;

/** The naive arm: two threads, each initialises one half of the list. It sometimes deadlocks. */
final class Halves {
    private final List<String> mNames;
    private final ClassLoader mLoader;
    private final long mPatienceMs;
    private final Consumer<String> mStalled;
    private final Map<String, Outcome> mOutcomes = new ConcurrentHashMap<>();

    Halves(List<String> names, ClassLoader loader, long patienceMs, Consumer<String> stalled) {
        mStalled = stalled;
        mPatienceMs = patienceMs;
        mNames = names;
        mLoader = loader;
    }

    Map<String, Outcome> run() {
        int middle = mNames.size() / 2;
        List<Thread> threads = new ArrayList<>();
        for (List<String> half : List.of(mNames.subList(0, middle), mNames.subList(middle, mNames.size()))) {
            Thread thread = new Thread(() -> half.forEach(this::initialise));
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            join(thread);
        }
        return mOutcomes;
    }

    private void join(Thread thread) {
        try {
            for (thread.join(mPatienceMs); thread.isAlive(); thread.join(mPatienceMs)) {
                mStalled.accept("the halves wait for each other");
            }
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void initialise(String name) {
        try {
            Class.forName(name, true, mLoader);
            mOutcomes.put(name, Outcome.INITIALISED);
        } catch (ClassNotFoundException | LinkageError e) {
            mOutcomes.put(name, Outcome.THREW);
        }
    }
}
