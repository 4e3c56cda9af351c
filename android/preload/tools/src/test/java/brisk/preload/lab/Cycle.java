// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

/** Two classes whose initialisers need each other. */
final class Cycle {
    private Cycle() {}

    static final class First {
        static final Object SECOND;

        static {
            Hook.begin(First.class.getName());
            SECOND = Second.FIRST == null ? "first came first" : Second.FIRST;
        }
    }

    static final class Second {
        static final Object FIRST;

        static {
            Hook.begin(Second.class.getName());
            FIRST = First.SECOND == null ? "second came first" : First.SECOND;
        }
    }
}
