// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.util.concurrent.atomic.AtomicInteger;

/** Workers load classes before the main thread comes to them; the main thread initialises in order. */
final class LoadAhead implements Runnable {
    private final ClassTable mTable;
    private final AtomicInteger mNext = new AtomicInteger();
    /** The class that the main thread has reached; at first none. */
    private volatile int mAt = -1;

    LoadAhead(ClassTable table) {
        mTable = table;
    }

    /** To be called on each worker. */
    @Override
    public void run() {
        for (int index = mNext.getAndIncrement(); index < mTable.size() && mAt < mTable.size(); index = mNext.getAndIncrement()) {
            // What the main thread has reached, it loads itself.
            if (index > mAt) {
                mTable.load(index);
            }
        }
    }

    /** Workers come back after the class that they are at. */
    void stop() {
        mAt = mTable.size();
    }

    /** To be called on the main thread; {@code gate}, unless it is null, is told of each class that is done. */
    void initialiseInOrder(ResourceGate gate) {
        for (int index = 0; index < mTable.size(); index++) {
            mAt = index;
            if (mTable.outcome(index) == null) {
                mTable.initialise(index);
            }
            if (gate != null) {
                gate.done(index);
            }
        }
    }
}
