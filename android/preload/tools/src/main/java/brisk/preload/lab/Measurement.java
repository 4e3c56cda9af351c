// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.Set;

import brisk.preload.planner.Options;
import brisk.preload.planner.Schedule;

/**
 * Times the modes on this machine's own processors: blocks of all arms in random order, each in a fresh Java machine, compared
 * within the block. Also measures the throughput of two processors (two sequential zygotes at once) and of two class-loading
 * threads of one Java machine: HotSpot lets hardly more than one load at a time.
 */
public final class Measurement {
    private static final int THREADS = 2;
    /** The arms apart from the sequential one. */
    private static final List<String> ARMS = List.of(Zygote.HALVES, "ahead", "plan");
    private static final String SEQUENTIAL = "off";
    private static final String TWO_PROCESSES = "two processes";
    private static final String LOAD_ALONE = "load alone";
    private static final String LOAD_BY_TWO = "load by two";

    private final Rehearsal mRehearsal;
    private final List<String> mMachine;
    private final Map<String, List<Double>> mMs = new LinkedHashMap<>();
    private final Map<String, List<Double>> mRatios = new LinkedHashMap<>();
    private final List<Double> mProcessSpeedups = new ArrayList<>();
    private final List<Double> mLoadSpeedups = new ArrayList<>();
    private final List<Double> mOwnMs = new ArrayList<>();
    private final List<Double> mLoads = new ArrayList<>();
    private final Map<String, Integer> mStalls = new LinkedHashMap<>();

    private Measurement(Rehearsal rehearsal, List<String> machine) {
        mRehearsal = rehearsal;
        mMachine = machine;
    }

    /** {@code --frameworks FOLDER --scratch FOLDER [--release 4.1.2|14] [--blocks N] [--cost-runs N] [--machine OPTION,..]} */
    public static void main(String[] arguments) throws IOException {
        Options options = new Options(List.of(arguments),
                Set.of("frameworks", "scratch", "release", "blocks", "cost-runs", "machine", "seed"), Set.of());
        Framework framework = options.get("release", "4.1.2").equals("14") ? Framework.UPSIDE_DOWN_CAKE : Framework.JELLY_BEAN;
        String machine = options.get("machine", "");
        Rehearsal rehearsal = new Rehearsal(framework, options.path("frameworks"), options.path("scratch"))
                .plan(options.number("cost-runs", 9));
        Measurement measurement =
                new Measurement(rehearsal, machine.isEmpty() ? List.of() : List.of(machine.split(",")));
        Random random = new Random(options.number("seed", 1));
        int blocks = options.number("blocks", 15);
        measurement.block(random); // the first one warms the page cache
        measurement.forget();
        for (int block = 0; block < blocks; block++) {
            measurement.block(random);
        }
        measurement.print(System.out);
    }

    private void forget() {
        mMs.clear();
        mRatios.clear();
        mProcessSpeedups.clear();
        mLoadSpeedups.clear();
        mOwnMs.clear();
        mLoads.clear();
        mStalls.clear();
    }

    private void block(Random random) throws IOException {
        List<String> order = new ArrayList<>(ARMS);
        Collections.addAll(order, SEQUENTIAL, TWO_PROCESSES, LOAD_ALONE, LOAD_BY_TWO, Zygote.OWN);
        Collections.shuffle(order, random);
        Map<String, Double> block = new LinkedHashMap<>();
        for (String arm : order) {
            block.put(arm, switch (arm) {
                case TWO_PROCESSES -> twoAtOnce();
                case LOAD_ALONE -> time(arm, loading(1));
                case LOAD_BY_TWO -> time(arm, loading(THREADS));
                default -> time(arm, mRehearsal.arguments(arm, THREADS));
            });
        }
        mLoads.add(load());
        double sequential = block.get(SEQUENTIAL);
        mProcessSpeedups.add(2 * sequential / block.remove(TWO_PROCESSES));
        mLoadSpeedups.add(block.remove(LOAD_ALONE) / block.remove(LOAD_BY_TWO));
        mOwnMs.add(block.remove(Zygote.OWN));
        block.forEach((arm, ms) -> {
            if (!ms.isNaN()) {
                mMs.computeIfAbsent(arm, key -> new ArrayList<>()).add(ms);
                mRatios.computeIfAbsent(arm, key -> new ArrayList<>()).add(ms / sequential);
            }
        });
    }

    private List<String> loading(int threads) {
        return List.of("--mode", Zygote.LOAD, "--threads", "" + threads, "--list", mRehearsal.list().toString());
    }

    private Child ready(List<String> arguments) throws IOException {
        List<String> waiting = new ArrayList<>(arguments);
        waiting.add("--wait");
        return Child.start(mRehearsal.stubbed(), mMachine, waiting).awaitReady();
    }

    /** Milliseconds; NaN if it stalled. */
    private double time(String arm, List<String> arguments) throws IOException {
        Child child = ready(arguments).go();
        int code = child.join();
        if (code == Zygote.EXIT_STALLED) {
            mStalls.merge(arm, 1, Integer::sum);
            return Double.NaN;
        }
        if (code != 0 || !arguments.contains(child.runs().get(0).mode())) {
            throw new IOException(arm + " ended with " + code + ":\n" + child.text());
        }
        return child.runs().get(0).nanos() / 1e6;
    }

    private double twoAtOnce() throws IOException {
        Child first = ready(mRehearsal.arguments(SEQUENTIAL, 1));
        Child second = ready(mRehearsal.arguments(SEQUENTIAL, 1));
        first.go();
        second.go();
        first.join();
        second.join();
        return (first.runs().get(0).nanos() + second.runs().get(0).nanos()) / 2e6;
    }

    private static double load() throws IOException {
        return Double.parseDouble(Files.readString(Path.of("/proc/loadavg")).split(" ")[0]);
    }

    private void print(PrintStream out) {
        double sequential = Figures.median(mMs.get(SEQUENTIAL));
        out.printf(Locale.ROOT, "%-8s %3s %9s %17s %8s %18s%n", "arm", "n", "median ms", "quartiles", "ratio", "95 % interval");
        mMs.forEach((arm, ms) -> {
            double[] interval = Figures.interval(mRatios.get(arm));
            out.printf(Locale.ROOT, "%-8s %3d %9.1f %8.1f %8.1f %8.3f %9.3f %8.3f%n", arm, ms.size(), Figures.median(ms),
                    Figures.quantile(ms, 0.25), Figures.quantile(ms, 0.75), Figures.median(mRatios.get(arm)), interval[0],
                    interval[1]);
        });
        out.println("stalled: " + mStalls);
        out.printf(Locale.ROOT, "sum of measured costs %.1f ms, sequential %.1f ms, critical path %.1f ms%n",
                mRehearsal.result().sequentialUs() / 1000, sequential, mRehearsal.result().longestWayUs() / 1000);
        out.printf(Locale.ROOT, "of that loading %.1f ms%n", mRehearsal.loadingUs() / 1000);
        speedup(out, "two processes", mProcessSpeedups);
        speedup(out, "two threads that load", mLoadSpeedups);
        out.printf(Locale.ROOT, "the preloader itself %.1f ms (quartiles %.1f %.1f)%n", Figures.median(mOwnMs),
                Figures.quantile(mOwnMs, 0.25), Figures.quantile(mOwnMs, 0.75));
        double ofTwo = Math.min(2, Figures.median(mProcessSpeedups));
        model(out, "by the speed-up of two processes alone", new Schedule.Speedup(ofTwo));
        model(out, "by both speed-ups", new Schedule.Speedup(ofTwo, Math.min(ofTwo, Figures.median(mLoadSpeedups))));
        out.printf(Locale.ROOT, "load average %.2f (largest %.2f)%n", Figures.median(mLoads), Collections.max(mLoads));
        out.println(mRehearsal.result().statistics());
    }

    private static void speedup(PrintStream out, String of, List<Double> speedups) {
        out.printf(Locale.ROOT, "%s have %.3f times the throughput of one (quartiles %.3f %.3f)%n", of, Figures.median(speedups),
                Figures.quantile(speedups, 0.25), Figures.quantile(speedups, 0.75));
    }

    /** The limit of list scheduling for the measured costs at a speed-up, the model's error, and its predictions. */
    private void model(PrintStream out, String of, Schedule.Speedup speedup) {
        double total = mRehearsal.result().sequentialUs();
        double bound = mRehearsal.result().predictedUs(THREADS, speedup) / total;
        double planned = Figures.median(mRatios.get("plan"));
        out.printf(Locale.ROOT, "%s list scheduling allows ratio %.3f; plan has %.3f, %.1f %% of that gain%n", of, bound,
                planned, 100 * (1 - planned) / (1 - bound));
        double ownUs = 1000 * Figures.median(mOwnMs);
        double modelled = mRehearsal.result().predictedUs(THREADS, speedup, ownUs) / total;
        out.printf(Locale.ROOT, "  with the preloader's own time the model says %.3f: %+.1f %% off%n", modelled,
                100 * (modelled / planned - 1));
        for (int threads : new int[] {4, 8}) {
            out.printf(Locale.ROOT, "  predicted, not measured: ratio %.3f on %d threads%n",
                    mRehearsal.result().predictedUs(threads, speedup, ownUs) / total, threads);
        }
    }
}
