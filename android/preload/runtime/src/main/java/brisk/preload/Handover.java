// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.util.concurrent.CountDownLatch;

/** What one thread makes and others wait for; may turn out to be nothing. */
final class Handover<T> {
    private final CountDownLatch mGiven = new CountDownLatch(1);
    private T mThing;

    /** To be called at most once, before the end. */
    void give(T thing) {
        mThing = thing;
    }

    /** Lets the others go on. */
    void end() {
        mGiven.countDown();
    }

    /** Waits; null when nothing came of it. */
    T take() {
        try {
            mGiven.await();
            return mThing;
        } catch (InterruptedException e) {
            return null;
        }
    }
}
