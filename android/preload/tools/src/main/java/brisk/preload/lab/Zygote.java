// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.File;
import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

import brisk.preload.ClassList;
import brisk.preload.Outcome;
import brisk.preload.ParallelPreloader;
import brisk.preload.PreloadMode;
import brisk.preload.PreloadReport;
import brisk.preload.planner.Observations;
import brisk.preload.planner.Options;

/**
 * Replaces Android's zygote: a process that preloads, in a fresh Java machine. It prints a line per run:
 * {@code run MODE NANOS RUN_DELAY_NANOS SAME}, where SAME says whether the same classes were initialised as in the file of
 * {@code --expect}. With {@code --wait} it waits for a line on standard input before the first run.
 */
public final class Zygote {
    /** Two threads, each with half of the list, without regard to the initialisers' dependencies. */
    static final String HALVES = "halves";
    /** Classes are loaded and none initialised. */
    static final String LOAD = "load";
    /** Each class is loaded, then initialised, and both are timed. */
    static final String SPLIT = "split";
    /** A plan is followed whose classes are initialised already: the rest is the preloader's overhead. */
    static final String OWN = "own";
    static final int EXIT_STALLED = 3;
    private static final int EXIT_DIFFERENT = 4;
    private static final int STALL_LIMIT_MS = 120_000;

    private final Options mOptions;
    private final ClassList mList;
    private final List<File> mJars;
    private final Map<String, CountDownLatch> mMeeting = new LinkedHashMap<>();
    private final Map<String, String> mCauses = Collections.synchronizedMap(new LinkedHashMap<>());

    private Zygote(Options options) throws IOException {
        mOptions = options;
        mList = ClassList.read(options.path("list").toFile());
        if (options.has("meet")) {
            for (String name : options.get("meet", "").split(",")) {
                mMeeting.put(name, new CountDownLatch(1));
            }
        }
        mJars = Options.paths(options.get("jars", "")).stream().map(Path::toFile).toList();
    }

    public static void main(String[] arguments) throws IOException {
        Options options = new Options(List.of(arguments), Set.of("mode", "threads", "list", "plan", "jars", "own", "runs",
                "seed", "costs", "state", "expect", "observe", "resources", "marker", "meet", "stall-ms", "fork-library",
                "fork-limit-ms", "child-state"), Set.of("wait"));
        boolean same = new Zygote(options).run();
        System.out.flush();
        // Threads that initialisers have started must not delay the exit.
        Runtime.getRuntime().halt(same ? 0 : EXIT_DIFFERENT);
    }

    private boolean run() throws IOException {
        if (mOptions.has("wait")) {
            System.out.println("ready");
            System.out.flush();
            System.in.read();
        }
        boolean same = true;
        int runs = mOptions.number("runs", 1);
        for (int run = 0; run < runs; run++) {
            same &= once(run);
        }
        return same;
    }

    private boolean once(int run) throws IOException {
        Set<String> began = ConcurrentHashMap.newKeySet();
        Hook.Listener delays = mOptions.has("seed") ? Hook.delays(mOptions.number("seed", 1) * 1_000_003L + run) : null;
        Hook.listen(name -> {
            began.add(name);
            if (mOptions.has("observe")) {
                mCauses.put(name, cause());
            }
            if (delays != null) {
                delays.begins(name);
            }
            meet(name);
        });
        ClassLoader loader = mOptions.has("own") ? own(mOptions.path("own")) : null;
        if (mOptions.get("mode", "off").equals(OWN)) {
            new ParallelPreloader(PreloadMode.OFF).setLoader(loader).preload(mList, null, mJars);
        }
        long delayBefore = runDelayNanos();
        long startedNanos = System.nanoTime();
        Map<String, Outcome> outcomes;
        String mode = mOptions.get("mode", "off");
        if (mode.equals(LOAD)) {
            new Loading(mList.names(), loader).run(mOptions.number("threads", 2));
            outcomes = Map.of();
        } else if (mode.equals(SPLIT)) {
            outcomes = new Loading(mList.names(), loader).split(mOptions.path("costs"));
        } else if (mode.equals(HALVES)) {
            outcomes = new Halves(mList.names(), loader, mOptions.number("stall-ms", STALL_LIMIT_MS), this::stalled).run();
        } else {
            PreloadReport report = preload(mode.equals(OWN) ? PreloadMode.PLAN : PreloadMode.called(mode), loader, began);
            mode = mode.equals(OWN) ? mode : report.mode().toString();
            outcomes = outcomes(report);
            if (report.reason() != null || !report.faults().isEmpty()) {
                System.err.println(report);
            }
        }
        long nanos = System.nanoTime() - startedNanos;
        long delayNanos = runDelayNanos() - delayBefore;
        boolean same = record(outcomes, began);
        System.out.println("run " + mode + " " + nanos + " " + delayNanos + " " + same);
        return same;
    }

    private PreloadReport preload(PreloadMode mode, ClassLoader loader, Set<String> began) throws IOException {
        File plan = mOptions.has("plan") ? mOptions.path("plan").toFile() : null;
        ParallelPreloader preloader = new ParallelPreloader(mode).setLoader(loader)
                .setThreads(mOptions.number("threads", 2)).setStallListener(mOptions.number("stall-ms", STALL_LIMIT_MS), this::stalled);
        if (mOptions.has("resources")) {
            FrameworkResources.use(mOptions.path("resources"));
            preloader.setResources(FrameworkResources::preload);
        }
        if (mOptions.has("marker")) {
            preloader.setMarker(mOptions.path("marker").toFile());
        }
        if (mode == PreloadMode.FORK) {
            preloader.setFork(new ForkedChild(mOptions.path("fork-library"),
                    mOptions.number("fork-limit-ms", ForkedChild.LIMIT_MS), true, () -> inChild(loader, began)));
        }
        PreloadReport report = preloader.preload(mList, plan, mJars);
        if (FrameworkResources.preloaded() != null) {
            System.out.println("resources " + FrameworkResources.preloaded());
        }
        if (mOptions.has("costs")) {
            StringBuilder costs = new StringBuilder();
            report.writeCosts(costs);
            Files.writeString(mOptions.path("costs"), costs);
        }
        return report;
    }

    /** The work of a fork's child; {@code --child-state} is the file for its classes. */
    private void inChild(ClassLoader loader, Set<String> began) throws IOException {
        PreloadReport report = new ParallelPreloader(PreloadMode.OFF).setLoader(loader).preload(mList, null, mJars);
        if (mOptions.has("child-state")) {
            Files.write(mOptions.path("child-state"), state(outcomes(report), began));
        }
    }

    /** The initialisers named by {@code --meet} wait until all of them have begun: the worst possible order. */
    private void meet(String name) {
        if (mMeeting.containsKey(name)) {
            mMeeting.get(name).countDown();
            for (CountDownLatch other : mMeeting.values()) {
                try {
                    other.await();
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
        }
    }

    /** True if the initialisers named by {@code --meet} have all begun; a stall before that is only slowness. */
    private boolean met() {
        return mMeeting.values().stream().allMatch(latch -> latch.getCount() == 0);
    }

    private void stalled(String description) {
        if (met()) {
            end(description);
        }
    }

    private static void end(String description) {
        System.out.println("stalled " + description);
        System.out.flush();
        Runtime.getRuntime().halt(EXIT_STALLED);
    }

    /** Without the plan's own additions: all modes are compared by the list. */
    private Map<String, Outcome> outcomes(PreloadReport report) {
        Set<String> listed = Set.copyOf(mList.names());
        Map<String, Outcome> outcomes = new LinkedHashMap<>();
        for (int index = 0; index < report.size(); index++) {
            if (listed.contains(report.name(index))) {
                outcomes.put(report.name(index), report.outcome(index));
            }
        }
        return outcomes;
    }

    /** Writes or compares the initialised classes and the initialisers that began. */
    private boolean record(Map<String, Outcome> outcomes, Set<String> began) throws IOException {
        Set<String> state = state(outcomes, began);
        if (mOptions.has("state")) {
            Files.write(mOptions.path("state"), state);
        }
        if (mOptions.has("observe")) {
            new Observations(new ArrayList<>(mCauses.keySet()), withoutRoots(mCauses)).write(mOptions.path("observe"));
        }
        if (!mOptions.has("expect")) {
            return true;
        }
        Set<String> expected = new TreeSet<>(Files.readAllLines(mOptions.path("expect")));
        Set<String> missing = new TreeSet<>(expected);
        missing.removeAll(state);
        state.removeAll(expected);
        missing.forEach(line -> System.out.println("missing " + line));
        state.forEach(line -> System.out.println("added " + line));
        return missing.isEmpty() && state.isEmpty();
    }

    private static Set<String> state(Map<String, Outcome> outcomes, Set<String> began) {
        Set<String> state = new TreeSet<>();
        outcomes.forEach((name, outcome) -> state.add(words(outcome) + " " + name));
        began.forEach(name -> state.add("began " + name));
        return state;
    }

    private static String words(Outcome outcome) {
        return switch (outcome) {
            case INITIALISED -> "initialised";
            case LEFT -> "absent";
            default -> "failed";
        };
    }

    private static Map<String, String> withoutRoots(Map<String, String> causes) {
        Map<String, String> found = new LinkedHashMap<>(causes);
        found.values().removeIf(String::isEmpty);
        return found;
    }

    /** The class whose initialiser is below the new one on the stack, or nothing. */
    private static String cause() {
        return StackWalker.getInstance().walk(frames -> frames
                .filter(frame -> frame.getMethodName().equals("<clinit>")).skip(1).findFirst()
                .map(StackWalker.StackFrame::getClassName).orElse(""));
    }

    /** This thread's run-queue delay; 0 if the kernel does not report it. */
    private static long runDelayNanos() {
        try {
            return Long.parseLong(Files.readString(Path.of("/proc/thread-self/schedstat")).trim().split(" ")[1]);
        } catch (IOException | RuntimeException e) {
            return 0;
        }
    }

    private static ClassLoader own(Path jar) throws IOException {
        return new URLClassLoader(new URL[] {jar.toUri().toURL()}, Zygote.class.getClassLoader());
    }
}
