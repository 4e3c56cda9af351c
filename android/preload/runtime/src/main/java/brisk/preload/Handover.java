// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.util.concurrent.CountDownLatch;

/** A value that one thread makes and others wait for; there may be none. */
final class Handover<T> {
    private final CountDownLatch mGiven = new CountDownLatch(1);
    private T mThing;

    /** May be called once, before the end. */
    void give(T thing) {
        mThing = thing;
    }

    /** Wakes the waiting threads. */
    void end() {
        mGiven.countDown();
    }

    /** Waits; null if there is no value. */
    T take() {
        try {
            mGiven.await();
            return mThing;
        } catch (InterruptedException e) {
            return null;
        }
    }
}
