// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.CountDownLatch;

/**
 * Delays resources until the classes that they need are initialised: a worker that had to initialise one could enter a cycle of
 * initialisers together with the main thread, and both would deadlock. The main thread initialises the classes that the list
 * lacks as soon as the list's own are done.
 */
final class ResourceGate {
    private final Set<String> mWanted = new HashSet<String>();
    private final CountDownLatch mOpen = new CountDownLatch(1);
    private final ClassTable mTable;
    private final int mListed;

    /** The table's classes from {@code listed} on are those that resources need and the list lacks. */
    ResourceGate(ClassTable table, Set<String> needed, int listed) {
        mTable = table;
        mListed = listed;
        mWanted.addAll(needed);
        for (int index = listed; index < table.size(); index++) {
            mWanted.remove(table.name(index));
        }
    }

    /** The main thread has done this class. */
    void done(int index) {
        mWanted.remove(mTable.name(index));
        if (mWanted.isEmpty() && mOpen.getCount() > 0) {
            for (int extra = mListed; extra < mTable.size(); extra++) {
                mTable.initialise(extra);
            }
            open();
        }
    }

    void open() {
        mOpen.countDown();
    }

    /** Waits; false when interrupted. */
    boolean awaited() {
        try {
            mOpen.await();
            return true;
        } catch (InterruptedException e) {
            return false;
        }
    }
}
