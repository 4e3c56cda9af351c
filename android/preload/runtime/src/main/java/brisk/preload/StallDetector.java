// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

/** Decides when nothing has moved for too long; the time is passed in. */
final class StallDetector {
    private final long mLimitMs;
    private long mMovedAtMs;
    private int mDone;

    StallDetector(long limitMs, long nowMs) {
        mLimitMs = limitMs;
        mMovedAtMs = nowMs;
    }

    /** True when {@code done} has not changed for the limit, and each time when it has not for as long again. */
    boolean stalled(int done, long nowMs) {
        if (done != mDone) {
            mDone = done;
            mMovedAtMs = nowMs;
        }
        if (nowMs - mMovedAtMs < mLimitMs) {
            return false;
        }
        // To be told again when nothing has moved for as long again.
        mMovedAtMs = nowMs;
        return true;
    }
}
