// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.util.concurrent.locks.LockSupport;

/** Every initialiser of a hooked jar calls this first. */
public final class Hook {
    /** Is notified when an initialiser begins, on its thread. */
    public interface Listener {
        void begins(String className);
    }

    private static volatile Listener sListener = className -> { };

    private Hook() {}

    /** Called by the initialiser of {@code className}. */
    public static void begin(String className) {
        sListener.begins(className);
    }

    /** Sets the listener. */
    public static void listen(Listener listener) {
        sListener = listener;
    }

    /** Delays some initialisers, selected by {@code seed}: other threads then reach rare states. */
    public static Listener delays(long seed) {
        return className -> {
            long random = mix(seed ^ className.hashCode() * 0x9e3779b97f4a7c15L);
            int kind = (int) (random & 31);
            if (kind == 0) {
                LockSupport.parkNanos(1_000_000 + (random >>> 44));
            } else if (kind < 6) {
                LockSupport.parkNanos(random >>> 47);
            } else if (kind < 12) {
                Thread.yield();
            }
        };
    }

    private static long mix(long value) {
        long mixed = (value ^ value >>> 30) * 0xbf58476d1ce4e5b9L;
        mixed = (mixed ^ mixed >>> 27) * 0x94d049bb133111ebL;
        return mixed ^ mixed >>> 31;
    }
}
