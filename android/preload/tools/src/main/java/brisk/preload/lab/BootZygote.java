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
 * Replaces Android's zygote in a guest that boots. It runs the four parts of a zygote in order, and prints a line per part,
 * {@code part NAME NANOS}; the line of {@code preload} continues with the mode that ran, the number of the list's classes that
 * are initialised in this process, the nanoseconds of resources, and the clock ticks that all its threads ran meanwhile. The
 * processes that it starts print their own lines to the same output; a fork's child prints {@code child initialised COUNT}.
 * Its socket is inherited, like that of Android's zygote from init: each line on standard input requests an application.
 * After the boot, an {@code m} requests the input of predictions, lines {@code measured own NANOS NANOS} and
 * {@code measured two NANOS NANOS}, and a {@code c} the end of a fork's child: {@code child ended}, or
 * {@code child failed: REASON}.
 *
 * <p>It uses no lambda and no stream: a zygote does not have their cost at first use.
 */
public final class BootZygote {
    private final Options mOptions;
    private ClassList mList;
    private ForkedChild mChild;
    private long mBeganNanos = System.nanoTime();

    private BootZygote(Options options) {
        mOptions = options;
    }

    /**
     * {@code --mode MODE --threads N --list FILE --plan FILE --jars JARS --resources JAR --system-server COMMAND
     * --application COMMAND [--fork-library FILE] [--wait]}; with {@code --wait} the zygote waits for a fork's child before it
     * goes on.
     */
    public static void main(String[] arguments) throws IOException {
        Options options = new Options(List.of(arguments), Set.of("mode", "threads", "list", "plan", "jars", "resources",
                "system-server", "application", "fork-library"), Set.of("wait"));
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
            switch (request) {
                case '\n':
                    start("application");
                    say("loop", lap());
                    break;
                case 'm':
                    measureOwn();
                    measureTwo();
                    break;
                case 'c':
                    tell("child " + endOfChild());
                    break;
                default:
                    throw new IOException("the request " + request + " is unknown");
            }
        }
    }

    /**
     * Duration of a plan whose classes are initialised and whose resources are empty, and of the list in order then. The
     * difference is the preloader's overhead: reading, starting and joining threads.
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
     * Duration of resources on one thread, and on two threads that each preload all of them. Both have done so once before,
     * because a governor raises the frequency of an idle CPU only after some time.
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

    /** Returns when the second run began, which both threads start at the same time. */
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

    private String endOfChild() {
        if (mChild == null) {
            return "failed: there is none";
        }
        try {
            mChild.awaitEnd();
            return "ended";
        } catch (IOException e) {
            return "failed: " + e.getMessage();
        }
    }

    /** The number of initialised classes of the list; a plan may add others. */
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
            mChild = child();
            preloader.setFork(mChild);
        }
        mList = ClassList.read(mOptions.path("list").toFile());
        return preloader.preload(mList, mOptions.path("plan").toFile(), jars());
    }

    private ForkedChild child() {
        return new ForkedChild(mOptions.path("fork-library"), ForkedChild.LIMIT_MS, mOptions.has("wait"), new ForkedChild.Work() {
            @Override
            public void run() {
                tell("child initialised " + initialised(new ParallelPreloader(PreloadMode.OFF).preload(mList, null, jars())));
            }
        });
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

    /** CPU time of all threads of this process, including exited ones: fields 14 and 15 of proc_pid_stat(5). */
    private static long cpuTicks() throws IOException {
        byte[] bytes = new byte[1024];
        int length;
        try (FileInputStream stat = new FileInputStream("/proc/self/stat")) {
            length = stat.read(bytes);
        }
        String text = new String(bytes, 0, length, StandardCharsets.ISO_8859_1);
        // A name may contain any character; the text after its last bracket begins with field 3.
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
