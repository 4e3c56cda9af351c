// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.nio.file.Path;

import brisk.preload.ParallelPreloader;

/**
 * The paper's fork(2), through JNI: a child of this process, with everything that this process has loaded, does its work and
 * exits. What it loads is lost with it.
 *
 * <p>Of HotSpot's threads the child has the one that forked, and no other executes the machine's operations: in the child a
 * garbage collection, {@code System.exit}, a dump of threads, and a class that invalidates compiled code never end. So the machine
 * must only interpret, and need no collection; the child ends by _exit(2), or by SIGALRM at its limit. A fork during such an
 * operation of the parent ends in the same way.
 */
final class ForkedChild implements ParallelPreloader.Fork {
    /** What a child does; an exception ends it as a failure. */
    interface Work {
        void run() throws IOException;
    }

    /** Far longer than a preload takes. */
    static final int LIMIT_MS = 120_000;
    private static final int SIGALRM = 14;

    private final Path mLibrary;
    private final int mLimitMs;
    private final boolean mWaits;
    private final Work mWork;
    private int mPid;

    /**
     * {@code library} is what {@link ForkLibrary} has made. The child is killed after {@code limitMs}. With {@code waits} the zygote
     * waits for its end before it goes on.
     */
    ForkedChild(Path library, int limitMs, boolean waits, Work work) {
        mLibrary = library;
        mLimitMs = limitMs;
        mWaits = waits;
        mWork = work;
    }

    @Override
    public void start() throws IOException {
        if (!System.getProperty("java.vm.info", "").contains("interpreted mode")) {
            throw new IOException("only a Java machine that interprets (-Xint) can load classes in a child");
        }
        try {
            System.load(mLibrary.toAbsolutePath().toString());
        } catch (UnsatisfiedLinkError e) {
            throw new IOException(e);
        }
        int pid = fork(mLimitMs);
        if (pid == 0) {
            work();
        }
        mPid = pid;
    }

    private void work() {
        int code = 1;
        try {
            mWork.run();
            code = 0;
        } catch (Throwable e) {
            System.err.println("the child: " + e);
        } finally {
            end(code);
        }
    }

    @Override
    public void join() throws IOException {
        if (mWaits) {
            awaitEnd();
        }
    }

    /**
     * Waits for its end, which its limit bounds.
     *
     * @throws IOException if it has not done its work
     */
    void awaitEnd() throws IOException {
        if (mPid == 0) {
            return; // It has ended, and was waited for.
        }
        int status = await(mPid);
        mPid = 0;
        if (status == -SIGALRM) {
            throw new IOException("it did not end within " + mLimitMs + " ms");
        }
        if (status != 0) {
            throw new IOException(status < 0 ? "signal " + -status + " ended it" : "it ended with " + status);
        }
    }

    private static native int fork(int limitMs) throws IOException;

    private static native int await(int pid) throws IOException;

    private static native void end(int code);
}
