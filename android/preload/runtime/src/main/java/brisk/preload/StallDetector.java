// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

/** Detects that no class has been finished for too long; the time is passed in. */
final class StallDetector {
    private final long mLimitMs;
    private long mMovedAtMs;
    private int mDone;

    StallDetector(long limitMs, long nowMs) {
        mLimitMs = limitMs;
        mMovedAtMs = nowMs;
    }

    /** True if {@code done} has not changed for the limit, and again after each further limit. */
    boolean stalled(int done, long nowMs) {
        if (done != mDone) {
            mDone = done;
            mMovedAtMs = nowMs;
        }
        if (nowMs - mMovedAtMs < mLimitMs) {
            return false;
        }
        // Report again after another limit.
        mMovedAtMs = nowMs;
        return true;
    }
}
