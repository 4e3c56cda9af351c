// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * The threads of one preload. A zygote may only fork while it has a single thread, in the kernel's eyes too.
 */
final class Crew {
    /** What every thread is called by; the kernel keeps the first fifteen bytes. */
    private static final String PREFIX = "preload-";
    private static final File TASKS = new File("/proc/self/task");

    private final Runnable mSetup;
    private final List<Thread> mThreads = new ArrayList<Thread>();
    private final List<String> mFaults = new ArrayList<String>();

    /** {@code setup} runs first on each thread and gives its rights up; a thread where it fails does nothing. */
    Crew(Runnable setup) {
        mSetup = setup;
    }

    /** Starts a thread; false when there can be none. */
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
            // Out of memory, or the runtime forbids threads here: the others do its work.
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

    /** What has gone wrong with threads. */
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

    /** Waits until the kernel has forgotten every thread of any crew: it ends a moment after it can be joined. */
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

    /** True while a task of this process bears a name of ours. */
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

    /** Reads bytes alone: what makes lines of them would be most of a short preload's end. */
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
            return false; // it has gone
        }
        for (int at = 0; at < name.length; at++) {
            if (name[at] != PREFIX.charAt(at)) {
                return false;
            }
        }
        return true;
    }
}
