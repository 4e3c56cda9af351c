// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;

import brisk.preload.Outcome;

/** Measures how long classes take to load, apart from their initialisation. */
final class Loading {
    private final List<String> mNames;
    private final ClassLoader mLoader;

    Loading(List<String> names, ClassLoader loader) {
        mNames = names;
        mLoader = loader;
    }

    /** Loads all classes on {@code count} threads, each taking the next one. */
    void run(int count) {
        AtomicInteger next = new AtomicInteger();
        Runnable work = () -> {
            for (int index = next.getAndIncrement(); index < mNames.size(); index = next.getAndIncrement()) {
                resolve(mNames.get(index), false);
            }
        };
        List<Thread> threads = new ArrayList<>();
        for (int i = 1; i < count; i++) {
            Thread thread = new Thread(work);
            thread.start();
            threads.add(thread);
        }
        work.run();
        for (Thread thread : threads) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** Loads and initialises one after the other; writes a name, the total and the loading time in microseconds. */
    Map<String, Outcome> split(Path costs) throws IOException {
        Map<String, Outcome> outcomes = new LinkedHashMap<>();
        List<String> lines = new ArrayList<>();
        for (String name : mNames) {
            long begunNanos = System.nanoTime();
            resolve(name, false);
            long loadedNanos = System.nanoTime();
            outcomes.put(name, resolve(name, true) ? Outcome.INITIALISED : Outcome.THREW);
            long doneNanos = System.nanoTime();
            lines.add(name + " " + (doneNanos - begunNanos) / 1000.0 + " " + (loadedNanos - begunNanos) / 1000.0);
        }
        Files.write(costs, lines);
        return outcomes;
    }

    private boolean resolve(String name, boolean initialise) {
        try {
            Class.forName(name, initialise, mLoader);
            return true;
        } catch (ClassNotFoundException | LinkageError e) {
            return false;
        }
    }
}
