// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

/** How the classes of the zygote's list are initialised. */
public enum PreloadMode {
    /** One after the other on the main thread, as the platform does it. */
    OFF("off"),
    /** Loaded ahead on worker threads, initialised in order on the main thread: no initialiser runs on a worker. */
    AHEAD("ahead"),
    /** Initialised on several threads, in the order of a plan that was made for exactly these jars. */
    PLAN("plan"),
    /** In a child process, as in a paper of 2013: the parent lacks the classes that the child has initialised. */
    FORK("fork");

    private final String mWord;

    PreloadMode(String word) {
        mWord = word;
    }

    /** The mode named {@code word} in a system property or on a command line, or null. */
    public static PreloadMode called(String word) {
        for (PreloadMode mode : values()) {
            if (mode.mWord.equals(word)) {
                return mode;
            }
        }
        return null;
    }

    /**
     * The mode that a device requests: by the property that the user sets or, if that is empty, by the one of the build. An
     * unknown mode is {@link #OFF}.
     */
    public static PreloadMode asked(String set, String built) {
        PreloadMode mode = called(set.isEmpty() ? built : set);
        return mode == null ? OFF : mode;
    }

    @Override
    public String toString() {
        return mWord;
    }
}
