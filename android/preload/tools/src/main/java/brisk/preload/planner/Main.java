// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;

import brisk.preload.ClassList;

/** The command line of the planner, called by {@code brisk boot plan}. */
public final class Main {
    private static final int EXIT_NOTHING_TO_WIN = 1;
    private static final int EXIT_ERROR = 2;
    /** Below this share of the sequential time a plan is not worth its risk. */
    private static final double LEAST_GAIN = 0.05;
    /** The default throughput of two threads if it was not measured: two idle cores of a computer. */
    private static final double USUAL_SPEEDUP_OF_TWO = 1.9;
    private static final int[] PREDICTED_THREADS = {2, 4, 8};
    private static final int USUAL_LIST_LENGTH = 2300;

    private static final Set<String> VALUED =
            Set.of("output", "bind", "costs", "observed", "resources", "ambient", "speedup", "count");

    private Main() {}

    /** {@code plan JARS LIST --output PLAN} or {@code list JARS}. */
    public static void main(String[] arguments) {
        try {
            System.exit(run(List.of(arguments)));
        } catch (NoSuchFileException e) {
            fail("there is no file " + e.getMessage());
        } catch (FileSystemException e) {
            fail("cannot use " + e.getFile() + ": " + Reason.of(e));
        } catch (IOException | IllegalArgumentException | UncheckedIOException e) {
            fail(e.getMessage());
        }
    }

    private static void fail(String why) {
        System.err.println("brisk: " + why);
        System.exit(EXIT_ERROR);
    }

    private static int run(List<String> arguments) throws IOException {
        String command = arguments.isEmpty() ? "" : arguments.get(0);
        Options options = new Options(arguments.subList(Math.min(1, arguments.size()), arguments.size()), VALUED,
                Set.of("json"));
        if (command.equals("plan") && options.rest().size() == 2 && options.has("output")) {
            return plan(options);
        }
        if (command.equals("list") && options.rest().size() == 1) {
            Predicate<String> ambient = ambient(options);
            ListMaker.derive(Options.paths(options.rest().get(0)), options.number("count", USUAL_LIST_LENGTH), ambient)
                    .forEach(System.out::println);
            return 0;
        }
        throw new IllegalArgumentException("usage: plan JARS LIST --output PLAN [--json] [--bind JARS] [--costs FILE]"
                + " [--observed FILE] [--resources METHOD] [--ambient PREFIXES] [--speedup NUMBER]\n"
                + "       list JARS [--count NUMBER] [--ambient PREFIXES]");
    }

    private static int plan(Options options) throws IOException {
        List<Path> jars = Options.paths(options.rest().get(0));
        Planner.Input input = new Planner.Input(jars, ClassList.read(Path.of(options.rest().get(1)).toFile()))
                .ambient(ambient(options)).resources(options.get("resources", null));
        if (options.has("bind")) {
            input.boundTo(Options.paths(options.get("bind", "")));
        }
        if (options.has("costs")) {
            input.costsUs(costs(options.path("costs")));
        }
        if (options.has("observed")) {
            input.observations(Observations.read(options.path("observed")));
        }
        Schedule.Speedup speedup = speedup(options);
        Planner.Result result = Planner.plan(input);
        PlanWriter.write(result, options.path("output"));
        System.out.print(options.has("json") ? Summary.json(result, speedup, PREDICTED_THREADS)
                : Summary.text(result, speedup, PREDICTED_THREADS));
        double gain = 1 - result.predictedUs(2, speedup) / result.schedule().total();
        return gain >= LEAST_GAIN ? 0 : EXIT_NOTHING_TO_WIN;
    }

    private static Schedule.Speedup speedup(Options options) {
        String word = options.get("speedup", String.valueOf(USUAL_SPEEDUP_OF_TWO));
        try {
            double speedup = Double.parseDouble(word);
            if (speedup >= 1 && speedup <= 2) {
                return new Schedule.Speedup(speedup);
            }
        } catch (NumberFormatException e) {
            // reported below
        }
        throw new IllegalArgumentException("--speedup " + word + ": the throughput of two threads is between 1 and 2");
    }

    private static Predicate<String> ambient(Options options) {
        String[] prefixes = options.get("ambient", "java/").replace('.', '/').split(",");
        return name -> {
            for (String prefix : prefixes) {
                if (!prefix.isEmpty() && name.startsWith(prefix)) {
                    return true;
                }
            }
            return false;
        };
    }

    /** A class and microseconds per line. */
    public static Map<String, Double> costs(Path path) throws IOException {
        Map<String, Double> costs = new HashMap<>();
        for (String line : Files.readAllLines(path)) {
            String[] words = line.split(" ");
            try {
                costs.put(words[0], Double.parseDouble(words[1]));
            } catch (NumberFormatException | ArrayIndexOutOfBoundsException e) {
                throw new IOException(String.format(Locale.ROOT, "%s: not a class and its microseconds: %s", path, line), e);
            }
        }
        return costs;
    }
}
