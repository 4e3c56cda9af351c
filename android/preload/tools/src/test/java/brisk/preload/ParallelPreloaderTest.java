// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;

import brisk.preload.lab.Hook;
import brisk.preload.planner.Observations;
import brisk.preload.planner.PlanWriter;
import brisk.preload.planner.Planner;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Every mode, on classes generated for it. */
class ParallelPreloaderTest {
    @TempDir
    Path mFolder;

    private final Map<String, String> mThreads = new ConcurrentHashMap<>();

    @AfterEach
    void deaf() {
        Hook.listen(name -> { });
    }

    /** Everything that one preload needs, in files as on a device. */
    private final class Case {
        final Path jar;
        final ClassList list;
        final File plan = mFolder.resolve("plan").toFile();

        Case(Fixture fixture, List<String> names, Observations seen) throws IOException {
            jar = fixture.jar(mFolder.resolve("made.jar"));
            list = ClassList.read(Fixture.list(mFolder.resolve("list"), names).toFile());
            PlanWriter.write(Planner.plan(new Planner.Input(List.of(jar), list).observations(seen)), plan.toPath());
        }

        Case(Fixture fixture) throws IOException {
            this(fixture, fixture.names(), Observations.NONE);
        }

        PreloadReport run(ParallelPreloader preloader) throws IOException {
            return preloader.setLoader(Fixture.loader(jar)).preload(list, plan, List.of(jar.toFile()));
        }

        PreloadReport run(PreloadMode mode, int threads) throws IOException {
            return run(new ParallelPreloader(mode).setThreads(threads));
        }
    }

    private static Map<String, Boolean> initialised(PreloadReport report, ClassList list) {
        Map<String, Boolean> result = new TreeMap<>();
        for (int index = 0; index < report.size(); index++) {
            if (list.names().contains(report.name(index))) {
                result.put(report.name(index), report.outcome(index) == Outcome.INITIALISED);
            }
        }
        return result;
    }

    private static Outcome outcome(PreloadReport report, String name) {
        for (int index = 0; index < report.size(); index++) {
            if (report.name(index).equals(name)) {
                return report.outcome(index);
            }
        }
        return null;
    }

    private void noteThreads() {
        Hook.listen(name -> mThreads.put(name, Thread.currentThread().getName()));
    }

    // Verifies PRELOAD-1.
    @Test
    void ahead_runs_no_initialiser_on_a_worker() throws IOException {
        Fixture fixture = new Fixture();
        for (int i = 0; i < 50; i++) {
            fixture.add("C" + i).readsField("C" + (i + 7) % 50);
        }
        noteThreads();
        PreloadReport report = new Case(fixture).run(PreloadMode.AHEAD, 4);
        assertEquals(PreloadMode.AHEAD, report.mode());
        assertEquals(50, report.count(Outcome.INITIALISED));
        assertEquals(Set.of(Thread.currentThread().getName()), new TreeSet<>(mThreads.values()));
    }

    @Test
    void a_plan_runs_initialisers_on_every_thread() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A");
        fixture.add("B");
        Case made = new Case(fixture);
        // Each waits until the other has begun, which needs two threads.
        Map<String, CountDownLatch> begun = Map.of("made.A", new CountDownLatch(1), "made.B", new CountDownLatch(1));
        Hook.listen(name -> {
            begun.get(name).countDown();
            await(begun.get(name.equals("made.A") ? "made.B" : "made.A"));
        });
        assertEquals(2, made.run(PreloadMode.PLAN, 2).count(Outcome.INITIALISED));
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    @Test
    void a_cycle_is_one_task_before_its_dependants() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("User").readsField("B");
        fixture.add("A").readsField("B");
        fixture.add("B").throughMethod("C");
        fixture.add("C").throughVirtual("A");
        Case made = new Case(fixture);
        List<PreloadPlan.Task> tasks = PreloadPlan.read(made.plan, made.list).tasks();
        assertEquals(2, tasks.size());
        assertEquals(List.of("made.A", "made.B", "made.C"), List.of(tasks.get(0).classes()));
        assertEquals(List.of("made.User"), List.of(tasks.get(1).classes()));
        noteThreads();
        assertEquals(4, made.run(PreloadMode.PLAN, 4).count(Outcome.INITIALISED));
        assertEquals(1, new TreeSet<>(List.of(mThreads.get("made.A"), mThreads.get("made.B"), mThreads.get("made.C"))).size());
    }

    // Verifies PRELOAD-1.
    @Test
    void unknown_and_throwing_classes_are_outcomes_in_every_mode() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("Good");
        fixture.add("Bad").throwing();
        fixture.add("NeedsBad").readsField("Bad");
        List<String> names = List.of("made.Good", "made.None", "made.Bad", "made.Good", "made.NeedsBad");
        Case made = new Case(fixture, names, Observations.NONE);
        for (PreloadMode mode : List.of(PreloadMode.OFF, PreloadMode.AHEAD, PreloadMode.PLAN)) {
            PreloadReport report = made.run(mode, 3);
            assertEquals(mode, report.mode());
            assertEquals(Outcome.INITIALISED, outcome(report, "made.Good"), mode.toString());
            assertEquals(Outcome.UNKNOWN, outcome(report, "made.None"), mode.toString());
            assertEquals(Outcome.THREW, outcome(report, "made.Bad"), mode.toString());
            assertEquals(Outcome.THREW, outcome(report, "made.NeedsBad"), mode.toString());
            assertTrue(report.toString().contains("1 initialised, 1 unknown, 2 initialiser threw"), report.toString());
        }
    }

    // Verifies PRELOAD-2.
    @Test
    void a_plan_that_does_not_match_makes_the_preload_sequential() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A");
        Case made = new Case(fixture);
        File jar = made.jar.toFile();
        noteThreads();
        ParallelPreloader preloader = new ParallelPreloader(PreloadMode.PLAN).setThreads(2).setLoader(Fixture.loader(made.jar));
        expectOff("there is no plan", preloader.preload(made.list, null, List.of(jar)));
        expectOff("1 jars, but there are 2", preloader.preload(made.list, made.plan, List.of(jar, jar)));
        ClassList other = ClassList.read(Fixture.list(mFolder.resolve("other"), List.of("made.A", "made.B")).toFile());
        expectOff("another class list", preloader.preload(other, made.plan, List.of(jar)));
        Path renamed = Files.copy(made.jar, mFolder.resolve("renamed.jar"));
        expectOff("does not know", preloader.preload(made.list, made.plan, List.of(renamed.toFile())));
        Path cut = mFolder.resolve("cut");
        Files.write(cut, Files.readAllLines(made.plan.toPath()).subList(0, 3));
        expectOff("line 4: the plan is cut short", preloader.preload(made.list, cut.toFile(), List.of(jar)));
        expectOff("no/such/plan", preloader.preload(made.list, new File("no/such/plan"), List.of(jar)));
        fixture.add("B");
        fixture.jar(made.jar);
        expectOff("has changed since", preloader.preload(made.list, made.plan, List.of(jar)));
        expectOff("one processor", made.run(PreloadMode.AHEAD, 1));
        expectOff("nothing to fork", made.run(PreloadMode.FORK, 2));
        File nowhere = mFolder.resolve("none/marker").toFile();
        Case again = new Case(fixture);
        expectOff("cannot write the marker", again.run(new ParallelPreloader(PreloadMode.PLAN).setThreads(2).setMarker(nowhere)));
        PreloadReport ahead = again.run(new ParallelPreloader(PreloadMode.AHEAD).setThreads(2).setMarker(nowhere));
        assertEquals(PreloadMode.AHEAD, ahead.mode());
        assertEquals(1, ahead.faults().size());
    }

    /** A child that cannot start or has failed leaves no class out: this process initialises them in order. */
    // Verifies PRELOAD-2.
    @Test
    void the_classes_of_a_failed_child_are_initialised_in_order() throws IOException {
        for (boolean starts : new boolean[] {false, true}) {
            Fixture fixture = new Fixture();
            fixture.add("A");
            List<String> began = new ArrayList<>();
            Hook.listen(began::add);
            ParallelPreloader.Fork fails = new ParallelPreloader.Fork() {
                @Override
                public void start() throws IOException {
                    if (!starts) {
                        throw new IOException("too many processes");
                    }
                }

                @Override
                public void join() throws IOException {
                    throw new IOException("signal 9 ended it");
                }
            };
            PreloadReport report = new Case(fixture).run(new ParallelPreloader(PreloadMode.FORK).setFork(fails));
            expectOff(starts ? "the child: signal 9 ended it" : "no child: too many processes", report);
            assertEquals(Outcome.INITIALISED, outcome(report, "made.A"));
            assertEquals(List.of("made.A"), began);
        }
    }

    // Verifies PRELOAD-2.
    @Test
    void a_forks_child_starts_before_the_resources_and_is_joined_after_them() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A");
        Case made = new Case(fixture);
        List<String> order = new ArrayList<>();
        Hook.listen(order::add);
        ParallelPreloader.Fork child = new ParallelPreloader.Fork() {
            @Override
            public void start() {
                order.add("start");
            }

            @Override
            public void join() {
                order.add("join");
            }
        };
        PreloadReport report = made.run(
                new ParallelPreloader(PreloadMode.FORK).setFork(child).setResources(() -> order.add("resources")));
        assertEquals(PreloadMode.FORK, report.mode());
        assertEquals(List.of("start", "resources", "join"), order);
        assertEquals(Outcome.LEFT, outcome(report, "made.A"));
    }

    private static void expectOff(String why, PreloadReport report) {
        assertEquals(PreloadMode.OFF, report.mode());
        assertTrue(report.reason().contains(why), report.reason());
        assertNotNull(outcome(report, "made.A"));
    }

    @Test
    void a_marker_exists_only_while_threads_work() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A");
        Case made = new Case(fixture);
        File marker = mFolder.resolve("marker").toFile();
        List<Boolean> stood = new ArrayList<>();
        Hook.listen(name -> stood.add(marker.exists()));
        for (PreloadMode mode : List.of(PreloadMode.AHEAD, PreloadMode.PLAN, PreloadMode.OFF)) {
            assertEquals(mode, made.run(new ParallelPreloader(mode).setThreads(2).setMarker(marker)).mode());
            assertFalse(marker.exists());
        }
        assertEquals(List.of(true, true, false), stood);
    }

    // Verifies PRELOAD-1.
    @Test
    void no_thread_is_left() throws IOException {
        Fixture fixture = new Fixture();
        for (int i = 0; i < 20; i++) {
            fixture.add("C" + i);
        }
        Case made = new Case(fixture);
        for (PreloadMode mode : List.of(PreloadMode.AHEAD, PreloadMode.PLAN)) {
            made.run(new ParallelPreloader(mode).setThreads(8).setStallListener(60_000, what -> { }));
            assertFalse(Crew.remains());
            assertTrue(Thread.getAllStackTraces().keySet().stream().noneMatch(thread -> thread.getName().startsWith("preload-")));
        }
    }

    // Verifies PRELOAD-1.
    @Test
    void a_worker_that_cannot_drop_its_rights_does_no_work() throws IOException {
        Fixture fixture = new Fixture();
        for (int i = 0; i < 20; i++) {
            fixture.add("C" + i);
        }
        Case made = new Case(fixture);
        noteThreads();
        for (PreloadMode mode : List.of(PreloadMode.AHEAD, PreloadMode.PLAN)) {
            PreloadReport report = made.run(new ParallelPreloader(mode).setThreads(4).setWorkerSetup(() -> {
                throw new SecurityException("still root");
            }));
            assertEquals(20, report.count(Outcome.INITIALISED));
            assertEquals(3, report.faults().size());
            assertTrue(report.faults().get(0).contains("still root"));
            assertEquals(Set.of(Thread.currentThread().getName()), new TreeSet<>(mThreads.values()));
        }
    }

    // Verifies PRELOAD-1.
    @Test
    void resources_begin_when_the_classes_that_they_need_are_done() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("Drawable").readsField("Unlisted");
        fixture.add("Resources").readsField("Drawable");
        fixture.add("Unlisted").readsField("Last");
        fixture.add("Last");
        fixture.add("Other");
        Path jar = fixture.jar(mFolder.resolve("made.jar"));
        ClassList list = ClassList.read(
                Fixture.list(mFolder.resolve("list"), List.of("made.Drawable", "made.Other", "made.Resources")).toFile());
        Path withMethod = addResourceMethod(jar);
        Planner.Result result = Planner.plan(new Planner.Input(List.of(withMethod), list)
                .resources("made.Preloading.preload()V")
                .observations(new Observations(List.of("made.Drawable", "made.Unlisted", "made.Last"), Map.of())));
        PlanWriter.write(result, mFolder.resolve("plan"));
        File plan = mFolder.resolve("plan").toFile();
        assertTrue(PreloadPlan.read(plan, list).tasks().stream().anyMatch(PreloadPlan.Task::isResources));
        for (PreloadMode mode : List.of(PreloadMode.OFF, PreloadMode.AHEAD, PreloadMode.PLAN)) {
            Set<String> began = ConcurrentHashMap.newKeySet();
            Hook.listen(began::add);
            List<Set<String>> atStart = new ArrayList<>();
            PreloadReport report = new ParallelPreloader(mode).setThreads(2).setLoader(Fixture.loader(withMethod))
                    .setResources(() -> atStart.add(Set.copyOf(began))).preload(list, plan, List.of(withMethod.toFile()));
            assertEquals(mode, report.mode());
            assertEquals(1, atStart.size(), "resources are preloaded once");
            assertTrue(atStart.get(0).containsAll(Set.of("made.Drawable", "made.Unlisted", "made.Last")), mode + " " + atStart);
        }
    }

    /** Adds a class whose method {@code preload} needs {@code made.Drawable}. */
    private Path addResourceMethod(Path jar) throws IOException {
        Path more = mFolder.resolve("more.jar");
        Files.copy(jar, more);
        try (FileSystem zip = FileSystems.newFileSystem(more)) {
            Files.write(zip.getPath("made/Preloading.class"), Fixture.caller("made/Preloading", "preload", "made/Drawable"));
        }
        return more;
    }

    @Test
    void resources_that_throw_are_a_fault_and_do_not_end_the_preload() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A");
        PreloadReport report = new Case(fixture).run(new ParallelPreloader(PreloadMode.AHEAD).setThreads(2).setResources(() -> {
            throw new IllegalStateException("no table");
        }));
        assertEquals(1, report.count(Outcome.INITIALISED));
        assertTrue(report.faults().get(0).contains("no table"));
    }

    /** Random programs with cycles, virtual calls and throwers: any number of threads has the outcomes of one thread. */
    // Verifies PRELOAD-1.
    @Test
    void any_plan_initialises_the_classes_of_its_list_and_ends() throws Exception {
        for (int seed = 1; seed <= 150; seed++) {
            Random random = new Random(seed);
            Fixture fixture = randomProgram(random);
            List<String> names = new ArrayList<>(fixture.names());
            names.removeIf(name -> random.nextInt(4) == 0);
            if (names.isEmpty()) {
                continue;
            }
            Case draft = new Case(fixture, names, Observations.NONE);
            List<String> order = new ArrayList<>();
            Hook.listen(order::add);
            Map<String, Boolean> sequential = initialised(draft.run(PreloadMode.OFF, 1), draft.list);
            Set<String> sequentialBegan = new TreeSet<>(order);
            Case made = new Case(fixture, names, new Observations(order, Map.of()));
            for (int threads = 2; threads <= 4; threads += 2) {
                Set<String> began = ConcurrentHashMap.newKeySet();
                Hook.Listener delays = Hook.delays(seed);
                Hook.listen(name -> {
                    began.add(name);
                    delays.begins(name);
                });
                PreloadReport report = made.run(PreloadMode.PLAN, threads);
                assertEquals(PreloadMode.PLAN, report.mode());
                assertEquals(sequential, initialised(report, made.list), "seed " + seed);
                assertEquals(sequentialBegan, new TreeSet<>(began), "seed " + seed);
            }
        }
    }

    private static Fixture randomProgram(Random random) {
        Fixture fixture = new Fixture();
        int classes = 3 + random.nextInt(12);
        for (int i = 0; i < classes; i++) {
            Fixture.Made made = fixture.add("C" + i);
            if (i > 0 && random.nextInt(4) == 0) {
                made.below("C" + random.nextInt(i));
            }
            for (int touches = random.nextInt(4); touches > 0; touches--) {
                String target = "C" + random.nextInt(classes);
                switch (random.nextInt(5)) {
                    case 0 -> made.throughMethod(target);
                    case 1 -> made.throughVirtual(target);
                    case 2 -> made.throughPrivileged(target);
                    case 3 -> made.byName(target);
                    default -> made.readsField(target);
                }
            }
            if (random.nextInt(12) == 0) {
                made.throwing();
            }
        }
        return fixture;
    }
}
