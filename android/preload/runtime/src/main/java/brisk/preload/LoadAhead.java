// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.util.concurrent.atomic.AtomicInteger;

/** Workers load classes before the main thread reaches them; the main thread initialises in order. */
final class LoadAhead implements Runnable {
    private final ClassTable mTable;
    private final AtomicInteger mNext = new AtomicInteger();
    /** The class that the main thread has reached; at first none. */
    private volatile int mAt = -1;

    LoadAhead(ClassTable table) {
        mTable = table;
    }

    /** Must be called on each worker. */
    @Override
    public void run() {
        for (int index = mNext.getAndIncrement(); index < mTable.size() && mAt < mTable.size(); index = mNext.getAndIncrement()) {
            // The main thread loads the class that it has reached itself.
            if (index > mAt) {
                mTable.load(index);
            }
        }
    }

    /** Workers stop after their current class. */
    void stop() {
        mAt = mTable.size();
    }

    /** Must be called on the main thread; {@code gate}, if not null, is notified of each class that is done. */
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
