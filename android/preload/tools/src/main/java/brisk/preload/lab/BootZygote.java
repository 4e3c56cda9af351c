// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CyclicBarrier;

import brisk.preload.ClassList;
import brisk.preload.Outcome;
import brisk.preload.ParallelPreloader;
import brisk.preload.PreloadMode;
import brisk.preload.PreloadReport;
import brisk.preload.planner.Options;

/**
 * Stands in for Android's zygote in a guest that boots. It does the four parts of one in their order, and its standard output
 * has a line a part, {@code part NAME NANOS}; the line of {@code preload} goes on with the mode that ran, how many of the
 * list's classes are initialised in this process, the nanoseconds that resources took, and the clock ticks that all its threads
 * ran meanwhile. What it starts says its own lines there.
 * Its socket is inherited, as Android's zygote has it from init: each line's end on standard input asks for an application.
 * An {@code m} asks, after the boot, for what predictions are made from: lines {@code measured own NANOS NANOS} and
 * {@code measured two NANOS NANOS}.
 *
 * <p>It has no lambda and no stream: what those cost where they are first met is nothing that a zygote does.
 */
public final class BootZygote {
    private final Options mOptions;
    private ClassList mList;
    private long mBeganNanos = System.nanoTime();

    private BootZygote(Options options) {
        mOptions = options;
    }

    /**
     * {@code --mode MODE --threads N --list FILE --plan FILE --jars JARS --resources JAR --system-server COMMAND
     * --application COMMAND [--machine OPTIONS]}; the last are for the Java machine of a fork's child.
     */
    public static void main(String[] arguments) throws IOException {
        Options options = new Options(List.of(arguments), Set.of("mode", "threads", "list", "plan", "jars", "resources",
                "system-server", "application", "machine"), Set.of());
        new BootZygote(options).boot();
    }

    private void boot() throws IOException {
        InputStream requests = System.in;
        long ticks = cpuTicks();
        say("socket", lap());
        PreloadReport report = preload();
        long preloadNanos = lap();
        long preloadTicks = cpuTicks() - ticks;
        start("system-server");
        long systemServerNanos = lap();
        say("preload", preloadNanos + " " + report.mode() + " " + initialised(report) + " " + report.resourcesNanos()
                + " " + preloadTicks);
        say("system-server", systemServerNanos);
        if (report.reason() != null || !report.faults().isEmpty()) {
            System.err.println(report);
        }
        lap();
        for (int request = requests.read(); request >= 0; request = requests.read()) {
            if (request == 'm') {
                measureOwn();
                measureTwo();
                continue;
            }
            start("application");
            say("loop", lap());
        }
    }

    /**
     * How long a plan is followed whose classes are initialised and whose resources are nothing, and how long the list is
     * gone through in order then. What the first takes longer is the preloader's own: reading, starting and joining threads.
     */
    private void measureOwn() {
        long began = System.nanoTime();
        preloader(PreloadMode.PLAN, new Runnable() {
            @Override
            public void run() {
            }
        }).preload(mList, mOptions.path("plan").toFile(), jars());
        long planned = System.nanoTime();
        new ParallelPreloader(PreloadMode.OFF).preload(mList, null, jars());
        tell("measured own " + (planned - began) + " " + (System.nanoTime() - planned));
    }

    /**
     * How long resources take on one thread, and how long when two threads each preload all of them. Both have done so once
     * before, for a governor raises a CPU that was idle only after a while.
     */
    private static void measureTwo() throws IOException {
        long began = System.nanoTime();
        FrameworkResources.preload();
        long one = System.nanoTime();
        final CyclicBarrier warm = new CyclicBarrier(2);
        Thread other = new Thread() {
            @Override
            public void run() {
                preloadTwice(warm);
            }
        };
        other.start();
        long beganTwo = preloadTwice(warm);
        try {
            other.join();
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
        tell("measured two " + (one - began) + " " + (System.nanoTime() - beganTwo));
    }

    /** Returns when the second time began, which it does on both threads at once. */
    private static long preloadTwice(CyclicBarrier warm) {
        FrameworkResources.preload();
        try {
            warm.await();
        } catch (InterruptedException | BrokenBarrierException e) {
            throw new IllegalStateException(e);
        }
        long began = System.nanoTime();
        FrameworkResources.preload();
        return began;
    }

    /** How many of the list; a plan may add others. */
    private int initialised(PreloadReport report) {
        Set<String> listed = new HashSet<>(mList.names());
        int count = 0;
        for (int index = 0; index < report.size(); index++) {
            count += report.outcome(index) == Outcome.INITIALISED && listed.contains(report.name(index)) ? 1 : 0;
        }
        return count;
    }

    private PreloadReport preload() throws IOException {
        FrameworkResources.use(mOptions.path("resources"));
        PreloadMode mode = PreloadMode.called(mOptions.get("mode", "off"));
        ParallelPreloader preloader = preloader(mode, new Runnable() {
            @Override
            public void run() {
                FrameworkResources.preload();
            }
        });
        if (mode == PreloadMode.FORK) {
            preloader.setFork(new ForkedChild(mOptions, words("machine")));
        }
        mList = ClassList.read(mOptions.path("list").toFile());
        return preloader.preload(mList, mOptions.path("plan").toFile(), jars());
    }

    private ParallelPreloader preloader(PreloadMode mode, Runnable resources) {
        return new ParallelPreloader(mode).setThreads(mOptions.number("threads", 2)).setResources(resources);
    }

    private List<File> jars() {
        List<File> jars = new ArrayList<>();
        for (String jar : mOptions.get("jars", "").split(File.pathSeparator)) {
            jars.add(new File(jar));
        }
        return jars;
    }

    private void start(String what) throws IOException {
        new ProcessBuilder(words(what)).inheritIO().redirectInput(new File("/dev/null")).start();
    }

    private List<String> words(String option) {
        return List.of(mOptions.get(option, "").split(" "));
    }

    /** What all threads of this process have run, those that have ended too: fields 14 and 15 of proc_pid_stat(5). */
    private static long cpuTicks() throws IOException {
        byte[] bytes = new byte[1024];
        int length;
        try (FileInputStream stat = new FileInputStream("/proc/self/stat")) {
            length = stat.read(bytes);
        }
        String text = new String(bytes, 0, length, StandardCharsets.ISO_8859_1);
        // A name may hold anything; what follows its last bracket begins with field 3.
        String[] fields = text.substring(text.lastIndexOf(')') + 2).split(" ");
        return Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
    }

    /** Nanoseconds since the last call. */
    private long lap() {
        long beganNanos = mBeganNanos;
        mBeganNanos = System.nanoTime();
        return mBeganNanos - beganNanos;
    }

    private static void say(String part, Object what) {
        tell("part " + part + " " + what);
    }

    private static void tell(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
