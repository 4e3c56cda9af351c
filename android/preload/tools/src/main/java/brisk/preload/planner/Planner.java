// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;

import brisk.preload.ClassList;
import brisk.preload.JarFingerprint;
import brisk.preload.PreloadPlan;
import brisk.preload.PreloadReport;

/** Makes a plan from class files, a class list, and measurements and observations of the list's initialisation. */
public final class Planner {
    /** The assumed cost of a class that was not measured, in microseconds. */
    private static final double UNMEASURED_COST_US = 50;
    /** The cost for a thread to take a task, in microseconds. */
    private static final double LEAST_COST_US = 1;
    /** Tasks are joined until each has about this part of all classes' cost. */
    private static final int GRAINS = 100;

    /** The planner's input. */
    public static final class Input {
        List<Path> jars = List.of();
        List<Path> boundTo = List.of();
        ClassList list;
        Map<String, Double> costsUs = Map.of();
        Map<String, Double> loadsUs = Map.of();
        Observations observations = Observations.NONE;
        Predicate<String> ambient = name -> name.startsWith("java/");
        String resources;

        /** {@code jars} hold the class files. */
        public Input(List<Path> jars, ClassList list) {
            this.jars = jars;
            this.boundTo = jars;
            this.list = list;
        }

        /** The jars whose fingerprints the plan contains, if a device does not have the class files themselves. */
        public Input boundTo(List<Path> jars) {
            boundTo = jars;
            return this;
        }

        /** The cost of each class in microseconds, by its name with dots; and {@link PreloadReport#RESOURCES}. */
        public Input costsUs(Map<String, Double> costs) {
            costsUs = costs;
            return this;
        }

        /** The loading part of each class's cost, in microseconds; nothing if unknown. */
        public Input loadsUs(Map<String, Double> loads) {
            loadsUs = loads;
            return this;
        }

        /** The observed initialisations, beyond the list. */
        public Input observations(Observations seen) {
            observations = seen;
            return this;
        }

        /** True for classes (internal names) that are initialised before any preloading. */
        public Input ambient(Predicate<String> classes) {
            ambient = classes;
            return this;
        }

        /** The method, as {@code package.Class.method(descriptor)}, that preloads resources. */
        public Input resources(String method) {
            resources = method;
            return this;
        }
    }

    /** A plan, and facts about it. */
    public record Result(PreloadPlan plan, Map<String, JarFingerprint> jars, ClassList list, Schedule schedule,
            Statistics statistics) {
        /** Predicted microseconds of classes and measured resources on {@code threads}. */
        public double predictedUs(int threads, Schedule.Speedup speedup) {
            return schedule.makespan(threads, speedup);
        }

        /** The same with {@code ownUs} of overhead on one thread, to read the plan and to start the other threads. */
        public double predictedUs(int threads, Schedule.Speedup speedup, double ownUs) {
            return schedule.with(ownUs).makespan(threads, speedup);
        }

        /** The same with {@code us} for resources. */
        public Result withResources(double us) {
            return new Result(plan, jars, list, schedule.withResources(us), statistics);
        }

        /** Microseconds of classes and measured resources on one thread. */
        public double sequentialUs() {
            return schedule.total();
        }

        /** The critical path in microseconds, a lower limit for any number of threads. */
        public double longestWayUs() {
            return schedule.longestWay();
        }
    }

    /** The size of the plan's input, and the names of the list that the jars lack. */
    public record Statistics(int listed, List<String> unknown, int observed, int classes, int methods, int tasks, int largestTask,
            int inCycles, int exclusive, int unplannedCycles, int measured) {}

    private Planner() {}

    /**
     * Makes a plan.
     *
     * @throws IOException if a jar cannot be read
     * @throws IllegalArgumentException if the jars lack the method that preloads resources, or every class of the list
     */
    public static Result plan(Input input) throws IOException {
        try (Program program = Program.open(input.jars)) {
            InitializationGraph graph = new InitializationGraph(program, input.ambient);
            // Observed classes are in the order in which they began: the order within a cycle.
            Set<String> wanted = new LinkedHashSet<>(input.observations.order());
            wanted.addAll(input.list.names());
            List<String> planned = new ArrayList<>();
            List<String> outside = new ArrayList<>();
            List<String> unknown = new ArrayList<>();
            for (String name : wanted) {
                boolean known = graph.addClass(name.replace('.', '/'));
                if (known) {
                    planned.add(name.replace('.', '/'));
                } else if (input.list.names().contains(name)) {
                    outside.add(name);
                    if (!program.has(name)) {
                        unknown.add(name);
                    }
                }
            }
            if (unknown.size() == input.list.names().size()) {
                throw new IllegalArgumentException(unknown.isEmpty() ? "the list names no class"
                        : "the jars have no class of the list; it begins with " + unknown.get(0));
            }
            input.observations.causes().forEach((to, from) -> graph.addObserved(from.replace('.', '/'), to.replace('.', '/')));
            int resources = input.resources == null ? -1 : resourceNode(graph, input.resources);
            Tasks tasks = new Tasks(graph.graph(), graph.classes(), planned);
            return result(input, graph, tasks, resources, outside, unknown);
        }
    }

    private static int resourceNode(InitializationGraph graph, String method) {
        int parameters = method.indexOf('(');
        int name = parameters < 0 ? -1 : method.lastIndexOf('.', parameters);
        int node = name < 0 ? -1 : graph.addMethod(method.substring(0, name).replace('.', '/'), method.substring(name + 1));
        if (node < 0) {
            throw new IllegalArgumentException("the jars have no method " + method
                    + "; it is written package.Class.method(descriptor), as in a.B.preload()V");
        }
        return node;
    }

    private static Result result(Input input, InitializationGraph graph, Tasks tasks, int resources, List<String> outside,
            List<String> unknown) throws IOException {
        Map<String, Double> costsUs = costsUs(input, unknown);
        List<Tasks.Task> all = new ArrayList<>();
        for (String name : outside) {
            all.add(new Tasks.Task(List.of(name), new int[0], false));
        }
        int shift = all.size();
        for (Tasks.Task task : tasks.tasks()) {
            List<String> names = task.classes().stream().map(name -> name.replace('/', '.')).toList();
            all.add(new Tasks.Task(names, shifted(task.dependencies(), shift), task.exclusive()));
        }
        if (resources >= 0) {
            Tasks.Task task = tasks.taskOf(resources);
            all.add(new Tasks.Task(List.of(), shifted(task.dependencies(), shift), task.exclusive()));
        }
        List<Tasks.Task> ranked = ranked(coarse(all, costsUs), costsUs);
        Schedule schedule =
                new Schedule(ranked, costs(ranked, costsUs, LEAST_COST_US), loads(ranked, input.loadsUs));
        Map<String, JarFingerprint> jars = new LinkedHashMap<>();
        for (Path jar : input.boundTo) {
            jars.put(jar.getFileName().toString(), JarFingerprint.of(jar.toFile()));
        }
        List<PreloadPlan.Task> planned = new ArrayList<>();
        ranked.forEach(task -> planned.add(planned(task)));
        return new Result(new PreloadPlan(planned), jars, input.list, schedule,
                statistics(input, graph, tasks, ranked, unknown));
    }

    /**
     * The measured costs, without classes that are not initialised: those that the jars lack, and arrays, whose elements'
     * classes are only loaded (JLS 12.4.1). They contribute no gain.
     */
    private static Map<String, Double> costsUs(Input input, List<String> unknown) {
        Map<String, Double> costsUs = new HashMap<>(input.costsUs);
        unknown.forEach(name -> costsUs.putIfAbsent(name, 0.0));
        input.list.names().stream().filter(name -> name.startsWith("[")).forEach(name -> costsUs.putIfAbsent(name, 0.0));
        return costsUs;
    }

    private static List<Tasks.Task> coarse(List<Tasks.Task> tasks, Map<String, Double> costsUs) {
        double[] costs = costs(tasks, costsUs, 0);
        double classesUs = 0;
        for (int task = 0; task < costs.length; task++) {
            classesUs += tasks.get(task).classes().isEmpty() ? 0 : costs[task];
        }
        return Coarsening.of(tasks, costs, classesUs / GRAINS);
    }

    /**
     * The most urgent first; a task is more urgent than all tasks that wait for it. Unmeasured resources are assumed to be the
     * critical path: started last, they would be the only work of one thread while the other threads have none left.
     */
    private static List<Tasks.Task> ranked(List<Tasks.Task> tasks, Map<String, Double> costsUs) {
        double longestUs = new Schedule(tasks, costs(tasks, costsUs, LEAST_COST_US), new double[tasks.size()]).longestWay();
        Schedule schedule = new Schedule(tasks, costs(tasks, costsUs, longestUs), new double[tasks.size()]);
        List<Integer> order = new ArrayList<>();
        for (int task = 0; task < tasks.size(); task++) {
            order.add(task);
        }
        order.sort(Comparator.comparingDouble(task -> -schedule.urgency(task)));
        int[] rank = new int[tasks.size()];
        for (int place = 0; place < rank.length; place++) {
            rank[order.get(place)] = place;
        }
        List<Tasks.Task> ranked = new ArrayList<>();
        for (int task : order) {
            Tasks.Task old = tasks.get(task);
            int[] dependencies = Arrays.stream(old.dependencies()).map(dependency -> rank[dependency]).sorted().toArray();
            ranked.add(new Tasks.Task(old.classes(), dependencies, old.exclusive()));
        }
        return ranked;
    }

    private static int[] shifted(int[] tasks, int by) {
        return Arrays.stream(tasks).map(task -> task + by).toArray();
    }

    private static double cost(Tasks.Task task, Map<String, Double> costsUs, double resourcesUs) {
        if (task.classes().isEmpty()) {
            return costsUs.getOrDefault(PreloadReport.RESOURCES, resourcesUs);
        }
        double cost = LEAST_COST_US;
        for (String name : task.classes()) {
            cost += costsUs.getOrDefault(name, UNMEASURED_COST_US);
        }
        return cost;
    }

    /** {@code resourcesUs} is the assumed cost of resources that were not measured. */
    private static double[] costs(List<Tasks.Task> tasks, Map<String, Double> costsUs, double resourcesUs) {
        return tasks.stream().mapToDouble(task -> cost(task, costsUs, resourcesUs)).toArray();
    }

    private static double[] loads(List<Tasks.Task> tasks, Map<String, Double> loadsUs) {
        return tasks.stream().mapToDouble(task -> task.classes().stream()
                .mapToDouble(name -> loadsUs.getOrDefault(name, 0.0)).sum()).toArray();
    }

    private static PreloadPlan.Task planned(Tasks.Task task) {
        return new PreloadPlan.Task(task.classes().toArray(String[]::new), task.dependencies(), task.exclusive());
    }

    private static Statistics statistics(Input input, InitializationGraph graph, Tasks tasks, List<Tasks.Task> all,
            List<String> unknown) {
        Map<String, Boolean> listed = new HashMap<>();
        input.list.names().forEach(name -> listed.put(name, true));
        int largest = all.stream().mapToInt(task -> task.classes().size()).max().orElse(0);
        int inCycles = all.stream().mapToInt(task -> task.classes().size()).filter(size -> size > 1).sum();
        int exclusive = (int) all.stream().filter(Tasks.Task::exclusive).count();
        int observed = (int) input.observations.order().stream().filter(name -> !listed.containsKey(name)).count();
        int measured = (int) all.stream().flatMap(task -> task.classes().stream()).filter(input.costsUs::containsKey).count();
        return new Statistics(listed.size(), unknown, observed, graph.classes().size(), graph.methodCount(), all.size(),
                largest, inCycles, exclusive, tasks.unplannedCycles(), measured);
    }
}
