// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

import brisk.preload.ClassList;
import brisk.preload.PreloadPlan;
import brisk.preload.PreloadReport;
import brisk.preload.planner.Main;
import brisk.preload.planner.Observations;
import brisk.preload.planner.PlanWriter;
import brisk.preload.planner.Planner;

/**
 * All steps before a planned preload of a real framework: the list, the observed initialisations of a sequential run, a first
 * plan, each class's cost in that plan's order, and the final plan.
 */
public final class Rehearsal {
    private final Framework mFramework;
    private final Path mFrameworks;
    private final Path mScratch;
    private final Path mList;
    private final Path mStubbed;
    private final Path mHooked;
    private final Map<String, Double> mCostsUs = new HashMap<>();
    private final Map<String, Double> mLoadsUs = new HashMap<>();
    private List<String> mMachine = List.of();
    private Path mResources;
    private Path mResourceJar;
    private Planner.Result mResult;

    /** Prepares the jars and a list of the paper's length in {@code scratch}. */
    public Rehearsal(Framework framework, Path frameworks, Path scratch) throws IOException {
        this(framework, frameworks, scratch, Framework.LIST_LENGTH, Set.of());
    }

    /** The same with a list of {@code classes} names, without some classes. */
    public Rehearsal(Framework framework, Path frameworks, Path scratch, int classes, Set<String> without)
            throws IOException {
        mFramework = framework;
        mFrameworks = frameworks;
        mScratch = scratch.toAbsolutePath();
        mList = framework.list(frameworks, mScratch, classes, without);
        mStubbed = framework.stubbed(frameworks, mScratch, false);
        mHooked = framework.stubbed(frameworks, mScratch, true);
    }

    /** Options of the Java machine that costs are measured on. */
    public Rehearsal withMachine(List<String> options) {
        mMachine = options;
        return this;
    }

    /** Lets the plan start resources in time; {@code code} holds the method that preloads them, {@code jar} the resources. */
    public Rehearsal withResources(Path code, Path jar) {
        mResources = code;
        mResourceJar = jar;
        return this;
    }

    /** Observes, plans, measures costs {@code runs} times, and plans again. */
    public Rehearsal plan(int runs) throws IOException {
        observe();
        List<Path> jars = new ArrayList<>(List.of(mFramework.jar(mFrameworks)));
        if (mResources != null) {
            jars.add(mResources);
        }
        Planner.Input input = new Planner.Input(jars, ClassList.read(mList.toFile()))
                .ambient(Framework.hosts()).observations(Observations.read(file("observed")));
        if (mResources != null) {
            input.resources(FrameworkResources.class.getName() + ".preload()V");
        }
        Planner.Result draft = Planner.plan(input.boundTo(List.of(mStubbed)));
        measure(draft.plan(), runs);
        if (mResources != null) {
            mCostsUs.put(PreloadReport.RESOURCES, resourcesUs(runs));
        }
        input.costsUs(mCostsUs).loadsUs(mLoadsUs);
        PlanWriter.write(Planner.plan(input.boundTo(List.of(mHooked))), plan(mHooked));
        mResult = Planner.plan(input.boundTo(List.of(mStubbed)));
        PlanWriter.write(mResult, plan(mStubbed));
        return this;
    }

    /** The loading part of the classes' cost, in microseconds. */
    public double loadingUs() {
        return mLoadsUs.values().stream().mapToDouble(us -> us).sum();
    }

    public Planner.Result result() {
        return mResult;
    }

    public Path list() {
        return mList;
    }

    public Path stubbed() {
        return mStubbed;
    }

    public Path hooked() {
        return mHooked;
    }

    /** The original jar, which has the resources. */
    public Path original() throws IOException {
        return mFramework.jar(mFrameworks);
    }

    /** The path of the plan for {@code jar}. */
    public Path plan(Path jar) {
        return jar.resolveSibling(jar.getFileName() + ".plan");
    }

    /** The classes that a sequential run initialised and the initialisers that began, a line each. */
    public Path sequentialState() {
        return file("state");
    }

    /** A file of this framework in the scratch folder. */
    public Path file(String name) {
        return mScratch.resolve(mFramework.version() + "-" + name);
    }

    /** A zygote's arguments for {@code mode}, its classes on the boot class path. */
    public List<String> arguments(String mode, int threads) {
        return List.of("--mode", mode, "--threads", "" + threads, "--list", mList.toString(), "--jars", mStubbed.toString(),
                "--plan", plan(mStubbed).toString());
    }

    /** A zygote's arguments for {@code mode}, its classes in a separate loader, whose initialisers call the hook. */
    public List<String> hookedArguments(String mode, int threads) {
        return List.of("--mode", mode, "--threads", "" + threads, "--list", mList.toString(), "--jars", mHooked.toString(),
                "--own", mHooked.toString(), "--plan", plan(mHooked).toString());
    }

    private void observe() throws IOException {
        List<String> arguments = List.of("--mode", "off", "--list", mList.toString(), "--own", mHooked.toString(),
                "--state", sequentialState().toString(), "--observe", file("observed").toString());
        expectSuccess(Child.start(null, List.of(), arguments));
    }

    /** The medians of each class's cost and of its loading part, when every class finds its dependencies done. */
    private void measure(PreloadPlan plan, int runs) throws IOException {
        List<String> order = new ArrayList<>();
        for (PreloadPlan.Task task : plan.tasks()) {
            order.addAll(Arrays.asList(task.classes()));
        }
        Path list = Files.write(file("order"), order);
        Map<String, List<Double>> costs = new HashMap<>();
        Map<String, List<Double>> loads = new HashMap<>();
        for (int run = 0; run < runs; run++) {
            expectSuccess(Child.start(mStubbed, mMachine,
                    List.of("--mode", Zygote.SPLIT, "--list", list.toString(), "--costs", file("costs").toString())));
            for (String line : Files.readAllLines(file("costs"))) {
                String[] words = line.split(" ");
                costs.computeIfAbsent(words[0], name -> new ArrayList<>()).add(Double.parseDouble(words[1]));
                loads.computeIfAbsent(words[0], name -> new ArrayList<>()).add(Double.parseDouble(words[2]));
            }
        }
        costs.forEach((name, us) -> mCostsUs.put(name, Figures.median(us)));
        loads.forEach((name, us) -> mLoadsUs.put(name, Math.min(Figures.median(us), mCostsUs.get(name))));
    }

    /** The median cost of resources after the classes. */
    private double resourcesUs(int runs) throws IOException {
        List<Double> us = new ArrayList<>();
        for (int run = 0; run < runs; run++) {
            expectSuccess(Child.start(mStubbed, mMachine, List.of("--mode", "off", "--list", mList.toString(), "--resources",
                    mResourceJar.toString(), "--costs", file("costs").toString())));
            us.add(Main.costs(file("costs")).get(PreloadReport.RESOURCES));
        }
        return Figures.median(us);
    }

    private static void expectSuccess(Child child) throws IOException {
        int code = child.join();
        if (code != 0) {
            throw new IOException("the zygote ended with " + code + ":\n" + child.text());
        }
    }
}
