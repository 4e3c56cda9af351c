// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * The threads of one preload. A zygote may only fork while it has a single thread, also in the kernel.
 */
final class Crew {
    /** The prefix of every thread's name; the kernel keeps the first fifteen bytes. */
    private static final String PREFIX = "preload-";
    private static final File TASKS = new File("/proc/self/task");

    private final Runnable mSetup;
    private final List<Thread> mThreads = new ArrayList<Thread>();
    private final List<String> mFaults = new ArrayList<String>();

    /** {@code setup} runs first on each thread and drops its rights; a thread where it fails does no work. */
    Crew(Runnable setup) {
        mSetup = setup;
    }

    /** Starts a thread; false if that is not possible. */
    boolean start(String name, final Runnable work) {
        final Thread thread = new Thread(null, new Runnable() {
            @Override
            public void run() {
                work(work);
            }
        }, PREFIX + name);
        thread.setDaemon(true);
        try {
            thread.start();
        } catch (Throwable e) {
            // Out of memory, or the runtime forbids threads now: the other threads do its work.
            fault("cannot start: " + e);
            return false;
        }
        mThreads.add(thread);
        return true;
    }

    private void work(Runnable work) {
        try {
            if (mSetup != null) {
                mSetup.run();
            }
            work.run();
        } catch (Throwable e) {
            fault(e.toString());
        }
    }

    private synchronized void fault(String what) {
        mFaults.add(Thread.currentThread().getName() + ": " + what);
    }

    /** The errors of threads. */
    synchronized List<String> faults() {
        return new ArrayList<String>(mFaults);
    }

    /** Waits for every thread. */
    void join() {
        boolean interrupted = false;
        for (Thread thread : mThreads) {
            while (thread.isAlive()) {
                try {
                    thread.join();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Waits until the kernel has removed every thread of any crew: that happens shortly after it can be joined. */
    static void awaitGone() {
        boolean interrupted = false;
        while (remains()) {
            try {
                Thread.sleep(1);
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** True while a thread of this process has a name of ours. */
    static boolean remains() {
        File[] tasks = TASKS.listFiles();
        if (tasks == null) {
            return false;
        }
        for (File task : tasks) {
            if (isOurs(task)) {
                return true;
            }
        }
        return false;
    }

    /** Reads bytes only: a line reader would take most of the end of a short preload. */
    private static boolean isOurs(File task) {
        byte[] name = new byte[PREFIX.length()];
        try {
            FileInputStream in = new FileInputStream(new File(task, "comm"));
            try {
                if (in.read(name) < name.length) {
                    return false;
                }
            } finally {
                in.close();
            }
        } catch (IOException e) {
            return false; // it has exited
        }
        for (int at = 0; at < name.length; at++) {
            if (name[at] != PREFIX.charAt(at)) {
                return false;
            }
        }
        return true;
    }
}
