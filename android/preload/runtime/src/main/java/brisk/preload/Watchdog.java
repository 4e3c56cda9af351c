// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.util.Map;

/**
 * Reports when no class has been finished for too long. Two threads that wait for each other's initialisers cannot be
 * separated, and no detector of the virtual machine sees them; so it reports, and the marker makes the next start sequential.
 */
final class Watchdog implements Runnable {
    private static final long POLL_PERIOD_MS = 100;

    private final ParallelPreloader mPreloader;
    private final long mLimitMs;
    private final ParallelPreloader.StallListener mListener;
    private boolean mEnded;

    Watchdog(ParallelPreloader preloader, long limitMs, ParallelPreloader.StallListener listener) {
        mPreloader = preloader;
        mLimitMs = limitMs;
        mListener = listener;
    }

    @Override
    public void run() {
        StallDetector detector = new StallDetector(mLimitMs, nowMs());
        while (sleep()) {
            if (detector.stalled(mPreloader.done(), nowMs())) {
                mListener.stalled(describe());
            }
        }
    }

    synchronized void end() {
        mEnded = true;
        notifyAll();
    }

    private synchronized boolean sleep() {
        try {
            if (!mEnded) {
                wait(Math.min(POLL_PERIOD_MS, mLimitMs));
            }
        } catch (InterruptedException e) {
            return !mEnded;
        }
        return !mEnded;
    }

    private String describe() {
        StringBuilder text = new StringBuilder("no class has been initialised for ").append(mLimitMs).append(" ms");
        text.append(" (").append(mPreloader.done()).append(" of ").append(mPreloader.size()).append(" are); threads:");
        for (Map.Entry<Thread, StackTraceElement[]> entry : Thread.getAllStackTraces().entrySet()) {
            StringBuilder initialisers = new StringBuilder();
            for (StackTraceElement frame : entry.getValue()) {
                if (frame.getMethodName().equals("<clinit>")) {
                    initialisers.append(initialisers.length() == 0 ? " in " : " from ").append(frame.getClassName());
                }
            }
            if (initialisers.length() > 0) {
                text.append("\n  ").append(entry.getKey().getName()).append(initialisers);
            }
        }
        return text.toString();
    }

    private static long nowMs() {
        return System.nanoTime() / 1000000;
    }
}
