// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.FileSystem;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;

import brisk.preload.ClassList;
import brisk.preload.Fixture;
import brisk.preload.PreloadPlan;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The graph, its components, the schedule, and the tasks made of them. */
class PlannerTest {
    @TempDir
    Path mFolder;

    private PreloadPlan plan(Fixture fixture, List<String> names, Observations seen) throws IOException {
        Path jar = fixture.jar(mFolder.resolve("made.jar"));
        ClassList list = ClassList.read(Fixture.list(mFolder.resolve("list"), names).toFile());
        PlanWriter.write(Planner.plan(new Planner.Input(List.of(jar), list).observations(seen)), mFolder.resolve("plan"));
        return PreloadPlan.read(mFolder.resolve("plan").toFile(), list);
    }

    /** The names of the classes that must be initialised before {@code name} is. */
    private static Set<String> before(PreloadPlan plan, String name) {
        for (PreloadPlan.Task task : plan.tasks()) {
            if (List.of(task.classes()).contains(name)) {
                Set<String> before = new HashSet<>();
                for (int dependency : task.dependencies()) {
                    before.addAll(List.of(plan.tasks().get(dependency).classes()));
                }
                return before;
            }
        }
        throw new AssertionError(name + " is not planned");
    }

    // Verifies CHART-1.
    @Test
    void a_file_that_cannot_be_used_is_named_with_the_reason() throws IOException {
        Path nowhere = mFolder.resolve("nowhere.jar");
        String said = assertThrows(IOException.class, () -> Program.open(List.of(nowhere))).getMessage();
        assertEquals("cannot read " + nowhere + ": there is no such file", said);
        Path noJar = Files.writeString(mFolder.resolve("text.jar"), "text");
        said = assertThrows(IOException.class, () -> Program.open(List.of(noJar))).getMessage();
        assertTrue(said.startsWith("cannot read " + noJar + ": ") && !said.endsWith(noJar.toString()), said);
        assertEquals("permission denied", Reason.of(new java.nio.file.AccessDeniedException("x")));
        assertEquals("Is a directory", Reason.of(new java.nio.file.FileSystemException("x", null, "Is a directory")));
    }

    // Verifies PRELOAD-2.
    @Test
    void every_way_to_initialise_a_class_is_an_edge() throws IOException {
        Fixture fixture = new Fixture();
        for (String target : List.of("F", "M", "V", "P", "N", "S")) {
            fixture.add(target);
        }
        fixture.add("D").asInterface();
        fixture.add("Field").readsField("F");
        fixture.add("Method").throughMethod("M");
        fixture.add("Virtual").throughVirtual("V");
        fixture.add("Privileged").throughPrivileged("P");
        fixture.add("Named").byName("N");
        fixture.add("Below").below("S");
        fixture.add("Implementing").implementing("D");
        PreloadPlan plan = plan(fixture, fixture.names(), Observations.NONE);
        assertEquals(Set.of("made.F"), before(plan, "made.Field"));
        assertEquals(Set.of("made.M"), before(plan, "made.Method"));
        // A virtual call may have any subclass's method as its target.
        assertEquals(Set.of("made.V", "made.P"), before(plan, "made.Virtual"));
        assertTrue(before(plan, "made.Privileged").contains("made.P"));
        assertEquals(Set.of("made.N"), before(plan, "made.Named"));
        assertEquals(Set.of("made.S"), before(plan, "made.Below"));
        assertEquals(Set.of("made.D"), before(plan, "made.Implementing"));
        assertEquals(Set.of(), before(plan, "made.F"));
    }

    // Verifies PRELOAD-2.
    @Test
    void edges_lead_through_classes_that_are_not_listed() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A").readsField("Between");
        fixture.add("Between").throughMethod("B");
        fixture.add("B");
        PreloadPlan plan = plan(fixture, List.of("made.A", "made.B"), Observations.NONE);
        assertEquals(Set.of("made.B"), before(plan, "made.A"));
    }

    @Test
    void observed_initialisers_keep_their_order_and_causes_are_edges() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A").readsField("B");
        fixture.add("B").readsField("A");
        fixture.add("Hidden");
        fixture.add("User");
        Observations seen = new Observations(List.of("made.B", "made.A", "made.Hidden"), Map.of("made.Hidden", "made.User"));
        PreloadPlan plan = plan(fixture, List.of("made.A", "made.B", "made.User"), seen);
        assertEquals(Set.of("made.Hidden"), before(plan, "made.User"));
        assertTrue(plan.tasks().stream().anyMatch(task -> List.of(task.classes()).equals(List.of("made.B", "made.A"))));
    }

    // Verifies PRELOAD-2.
    @Test
    void tasks_that_may_enter_an_unseen_cycle_are_exclusive() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("One").readsField("X");
        fixture.add("Two").throughMethod("Y");
        fixture.add("Three").readsField("Single");
        fixture.add("X").readsField("Y");
        fixture.add("Y").readsField("X");
        fixture.add("Single");
        PreloadPlan plan = plan(fixture, List.of("made.One", "made.Two", "made.Three"), Observations.NONE);
        for (PreloadPlan.Task task : plan.tasks()) {
            assertEquals(!task.classes()[0].equals("made.Three"), task.exclusive(), task.classes()[0]);
        }
    }

    // Verifies PRELOAD-2.
    @Test
    void components_match_reachability_in_dependency_order() {
        Random random = new Random(1);
        for (int round = 0; round < 200; round++) {
            int size = 1 + random.nextInt(12);
            Digraph graph = new Digraph();
            boolean[][] reaches = new boolean[size][size];
            for (int node = 0; node < size; node++) {
                graph.add();
                reaches[node][node] = true;
            }
            for (int edges = random.nextInt(2 * size); edges > 0; edges--) {
                int from = random.nextInt(size);
                int to = random.nextInt(size);
                graph.connect(from, to);
                reaches[from][to] = true;
            }
            for (int over = 0; over < size; over++) {
                for (int from = 0; from < size; from++) {
                    for (int to = 0; to < size; to++) {
                        reaches[from][to] |= reaches[from][over] && reaches[over][to];
                    }
                }
            }
            int[] components = graph.components().of();
            for (int from = 0; from < size; from++) {
                for (int to = 0; to < size; to++) {
                    assertEquals(reaches[from][to] && reaches[to][from], components[from] == components[to]);
                    assertTrue(!reaches[from][to] || components[from] >= components[to]);
                }
            }
        }
    }

    private static Tasks.Task task(boolean exclusive, int... dependencies) {
        return new Tasks.Task(List.of(), dependencies, exclusive);
    }

    private static Schedule schedule(List<Tasks.Task> tasks, double... costs) {
        return new Schedule(tasks, costs, new double[costs.length]);
    }

    @Test
    void loading_in_parallel_costs_more_than_beside_other_work() {
        List<Tasks.Task> two = List.of(task(false), task(false));
        Schedule.Speedup speedup = new Schedule.Speedup(2, 1);
        assertEquals(20, new Schedule(two, new double[] {10, 10}, new double[] {10, 10}).makespan(2, speedup), 1e-6);
        assertEquals(10, new Schedule(two, new double[] {10, 10}, new double[] {10, 0}).makespan(2, speedup), 1e-6);
        // Both load for 8 ms of 4 ms each, then initialise side by side.
        assertEquals(14, new Schedule(two, new double[] {10, 10}, new double[] {4, 4}).makespan(2, speedup), 1e-6);
    }

    @Test
    void a_schedule_matches_one_made_by_hand() {
        Schedule.Speedup perfect = new Schedule.Speedup(2);
        List<Tasks.Task> independent = List.of(task(false), task(false), task(false), task(false));
        Schedule four = schedule(independent, 10, 10, 10, 10);
        assertEquals(40, four.makespan(1, perfect), 1e-9);
        assertEquals(20, four.makespan(2, perfect), 1e-9);
        assertEquals(10, four.makespan(8, perfect), 1e-9);
        assertEquals(25, four.makespan(2, new Schedule.Speedup(1.6)), 1e-9);
        Schedule chain = schedule(List.of(task(false), task(false, 0), task(false, 1)), 5, 6, 7);
        assertEquals(18, chain.makespan(4, perfect), 1e-9);
        assertEquals(18, chain.longestWay(), 1e-9);
        assertArrayEquals(new double[] {18, 13, 7}, new double[] {chain.urgency(0), chain.urgency(1), chain.urgency(2)}, 1e-9);
        Schedule exclusive = schedule(List.of(task(true), task(true), task(false)), 10, 10, 10);
        assertEquals(20, exclusive.makespan(3, perfect), 1e-9);
        // The long one first: started last it would end at 30.
        Schedule uneven = schedule(List.of(task(false), task(false), task(false)), 10, 10, 20);
        assertEquals(20, uneven.makespan(2, perfect), 1e-9);
    }

    private static Tasks.Task named(String name, int... dependencies) {
        return new Tasks.Task(List.of(name), dependencies, false);
    }

    /** Each task's classes and the classes of its dependencies. */
    private static List<String> words(List<Tasks.Task> tasks) {
        List<String> words = new ArrayList<>();
        for (Tasks.Task task : tasks) {
            StringBuilder text = new StringBuilder(String.join("", task.classes()));
            for (int dependency : task.dependencies()) {
                text.append(" ").append(tasks.get(dependency).classes().get(0));
            }
            words.add(text.toString());
        }
        return words;
    }

    // Verifies PRELOAD-2.
    @Test
    void small_tasks_are_joined_without_long_waits() {
        // B and C need A, D needs both; E and F need none.
        List<Tasks.Task> tasks =
                List.of(named("A"), named("B", 0), named("C", 0), named("D", 1, 2), named("E"), named("F"));
        double[] costs = {1, 1, 1, 1, 1, 1};
        assertEquals(List.of("A", "E", "F", "B A", "C A", "D B C"), words(Coarsening.of(tasks, costs, 1)));
        assertEquals(List.of("ACBD", "EF"), words(Coarsening.of(tasks, costs, 4)));
        assertEquals(List.of("A", "EF", "BC A", "D B"), words(Coarsening.of(tasks, new double[] {9, 1, 1, 9, 1, 1}, 2)));
        List<Tasks.Task> special = List.of(task(false), new Tasks.Task(List.of("X"), new int[0], true), named("E"));
        assertEquals(3, Coarsening.of(special, costs, 9).size(), "resources and exclusive tasks stay as they are");
    }

    // Verifies PRELOAD-2.
    @Test
    void joining_tasks_keeps_each_after_its_dependencies() {
        Random random = new Random(2);
        for (int round = 0; round < 300; round++) {
            int size = 1 + random.nextInt(14);
            List<Tasks.Task> tasks = new ArrayList<>();
            double[] costs = new double[size];
            for (int number = 0; number < size; number++) {
                int[] dependencies = IntStream.range(0, number).filter(other -> random.nextInt(4) == 0).toArray();
                tasks.add(new Tasks.Task(List.of("" + number), dependencies, random.nextInt(8) == 0));
                costs[number] = random.nextInt(4);
            }
            List<Tasks.Task> coarse = Coarsening.of(tasks, costs, random.nextInt(10));
            // In the order of one thread: dependencies come first, and each class comes once.
            Map<String, Integer> done = new HashMap<>();
            for (int place = 0; place < coarse.size(); place++) {
                for (int dependency : coarse.get(place).dependencies()) {
                    assertTrue(dependency < place, "round " + round);
                }
                for (String name : coarse.get(place).classes()) {
                    for (int needed : tasks.get(Integer.parseInt(name)).dependencies()) {
                        Integer at = done.get("" + needed);
                        assertTrue(at != null && (at == place || comesAfter(coarse, place, at)), "round " + round);
                    }
                    done.put(name, place);
                }
            }
            assertEquals(size, done.size(), "round " + round);
        }
    }

    /** True if a task depends on another, directly or indirectly. */
    private static boolean comesAfter(List<Tasks.Task> tasks, int task, int other) {
        for (int dependency : tasks.get(task).dependencies()) {
            if (dependency == other || comesAfter(tasks, dependency, other)) {
                return true;
            }
        }
        return false;
    }

    @Test
    void the_most_urgent_task_is_first_after_its_dependencies() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("Light");
        fixture.add("Heavy").readsField("Base");
        fixture.add("Base");
        Path jar = fixture.jar(mFolder.resolve("made.jar"));
        ClassList list = ClassList.read(Fixture.list(mFolder.resolve("list"), fixture.names()).toFile());
        Planner.Result result = Planner.plan(new Planner.Input(List.of(jar), list)
                .costsUs(Map.of("made.Light", 500.0, "made.Heavy", 1000.0, "made.Base", 1.0)));
        List<String> order = new ArrayList<>();
        result.plan().tasks().forEach(task -> order.addAll(List.of(task.classes())));
        assertEquals(List.of("made.Base", "made.Heavy", "made.Light"), order);
        assertEquals(1504, result.sequentialUs(), 1e-6);
        assertEquals(1003, result.predictedUs(2, new Schedule.Speedup(2)), 1e-6);
    }

    // Verifies PRELOAD-2.
    @Test
    void resources_are_as_urgent_as_their_cost() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("Drawable");
        fixture.add("Heavy");
        fixture.add("Light");
        Path jar = fixture.jar(mFolder.resolve("made.jar"));
        try (FileSystem zip = FileSystems.newFileSystem(jar)) {
            Files.write(zip.getPath("made/Preloading.class"), Fixture.caller("made/Preloading", "preload", "made/Drawable"));
        }
        ClassList list = ClassList.read(Fixture.list(mFolder.resolve("list"), fixture.names()).toFile());
        Map<String, Double> classes = Map.of("made.Drawable", 1.0, "made.Heavy", 1000.0, "made.Light", 500.0);
        Map<String, Double> brief = new HashMap<>(classes);
        brief.put("resources", 700.0);
        for (var entry : Map.of(classes, "Drawable, Heavy, resources, Light", brief, "Heavy, Drawable, resources, Light").entrySet()) {
            Planner.Result result = Planner.plan(new Planner.Input(List.of(jar), list).costsUs(entry.getKey())
                    .resources("made.Preloading.preload()V"));
            List<String> order = new ArrayList<>();
            result.plan().tasks().forEach(task -> order.add(task.isResources() ? "resources" : task.classes()[0].substring(5)));
            assertEquals(entry.getValue(), String.join(", ", order));
            Planner.Result longer = result.withResources(2000);
            assertEquals(3504, longer.sequentialUs(), 1e-6);
            assertEquals(2002, longer.predictedUs(2, new Schedule.Speedup(2)), 1e-6, "independent tasks run in parallel");
        }
    }

    @Test
    void an_invalid_jar_is_refused_by_name() throws IOException {
        Path rubbish = Files.write(mFolder.resolve("rubbish.jar"), new byte[100]);
        ClassList list = ClassList.read(Fixture.list(mFolder.resolve("list"), List.of("a.A", "made.A")).toFile());
        String said = assertThrows(IOException.class, () -> Planner.plan(new Planner.Input(List.of(rubbish), list))).getMessage();
        assertTrue(said.contains("rubbish.jar"), said);
        Fixture fixture = new Fixture();
        fixture.add("A");
        Path jar = fixture.jar(mFolder.resolve("made.jar"));
        Planner.Input input = new Planner.Input(List.of(jar), list).resources("made.A.none()V");
        assertTrue(assertThrows(IllegalArgumentException.class, () -> Planner.plan(input)).getMessage().contains("no method"));
        assertEquals(2, Planner.plan(new Planner.Input(List.of(jar), list)).plan().tasks().size(), "unknown names are tasks");
    }

    private Planner.Result result(String... names) throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A");
        fixture.add("B");
        Path jar = fixture.jar(mFolder.resolve("made.jar"));
        ClassList list = ClassList.read(Fixture.list(mFolder.resolve("list"), List.of(names)).toFile());
        return Planner.plan(new Planner.Input(List.of(jar), list));
    }

    // Verifies PRELOAD-2.
    @Test
    void arrays_are_identified_by_their_elements() throws IOException {
        Planner.Result result = result("made.A", "[B", "[[J", "[Lmade.B;", "[[Lmade.A;", "[Lmade.None;", "[Q", "[made.A", "[L;");
        assertEquals(List.of("[Lmade.None;", "[Q", "[made.A", "[L;"), result.statistics().unknown());
        assertEquals(9, result.plan().tasks().size(), "the preloader tries them all, as the platform does");
    }

    // Verifies PRELOAD-2.
    @Test
    void classes_that_are_not_initialised_give_no_gain() throws IOException {
        Schedule.Speedup perfect = new Schedule.Speedup(2);
        double alone = result("made.A").sequentialUs();
        Planner.Result result = result("made.A", "a.garbage", "more garbage", "yet.More", "[Lmade.B;");
        // Each task costs only the microsecond that a thread needs to take it.
        assertEquals(alone + 4, result.sequentialUs(), 1e-6);
        assertEquals(alone, result.predictedUs(2, perfect), 1e-6);
        assertTrue(result("made.A", "made.B").predictedUs(2, perfect) < 0.6 * result("made.A", "made.B").sequentialUs());
    }

    // Verifies PRELOAD-2.
    @Test
    void unknown_names_are_named() throws IOException {
        Planner.Result result = result("made.A", "a.\"quoted\\", "b.\u0007C");
        String json = Summary.json(result, new Schedule.Speedup(2), new int[] {2});
        assertTrue(json.contains("\"unknown_classes\": [\"a.\\\"quoted\\\\\", \"b.\\u0007C\"]"), json);
        assertTrue(Summary.text(result, new Schedule.Speedup(2), new int[] {2}).contains("  unknown: a.\"quoted"));
        String[] many = new String[30];
        Arrays.setAll(many, number -> number == 0 ? "made.A" : "none.N" + number);
        String text = Summary.text(result(many), new Schedule.Speedup(2), new int[] {2});
        assertTrue(text.contains("29 of them unknown") && text.contains("none.N10\n  and 19 more"), text);
    }

    // Verifies PRELOAD-2.
    @Test
    void a_list_without_classes_is_refused() {
        String empty = assertThrows(IllegalArgumentException.class, () -> result()).getMessage();
        assertEquals("the list names no class", empty);
        String garbage = assertThrows(IllegalArgumentException.class, () -> result("x", "y", "z")).getMessage();
        assertTrue(garbage.startsWith("the jars have no class of the list") && garbage.endsWith(" x"), garbage);
    }
}
