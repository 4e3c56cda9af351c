// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;

import brisk.preload.planner.ClassInfo.MethodInfo;
import brisk.preload.planner.ClassInfo.Use;

/**
 * What may be initialised during a class's initialisation. A node is a class (its initialisation), a method, or a call with
 * several possible target methods; an edge says that the first may lead to the second before it ends.
 *
 * <p>A virtual call leads to every override in the class hierarchy, whether or not the class has instances.
 */
final class InitializationGraph {
    /** Methods of the platform that call their arguments. */
    private static final Map<String, List<Use>> CALL_BACKS = Map.of(
            "java/security/AccessController.doPrivileged", List.of(
                    new Use(ClassInfo.Kind.VIRTUAL, "java/security/PrivilegedAction", "run()Ljava/lang/Object;"),
                    new Use(ClassInfo.Kind.VIRTUAL, "java/security/PrivilegedExceptionAction", "run()Ljava/lang/Object;")));

    private final Program mProgram;
    private final Predicate<String> mAmbient;
    private final Digraph mGraph = new Digraph();
    private final Map<String, Integer> mClasses = new LinkedHashMap<>();
    private final Map<MethodInfo, Integer> mMethods = new HashMap<>();
    private final Map<String, Integer> mCalls = new HashMap<>();
    private final Deque<Runnable> mWork = new ArrayDeque<>();

    /** {@code ambient} is true for classes that are initialised before any preloading: their code is not read. */
    InitializationGraph(Program program, Predicate<String> ambient) {
        mProgram = program;
        mAmbient = ambient;
    }

    /** Adds a class and everything that its initialisation may lead to; false if the jars lack it or it is ambient. */
    boolean addClass(String name) {
        boolean known = classNode(name) != null;
        drain();
        return known;
    }

    /** Adds a method, as {@code owner.name(descriptor)}, and returns its node; -1 if the jars lack it. */
    int addMethod(String owner, String signature) {
        ClassInfo info = mProgram.find(owner);
        MethodInfo method = info == null ? null : mProgram.resolve(info, signature);
        if (method == null) {
            return -1;
        }
        int node = methodNode(method);
        if (method.isStatic()) {
            connect(node, classNode(owner));
        }
        drain();
        return node;
    }

    /** Adds an observed initialisation: while {@code from} was initialised, {@code to} was. */
    void addObserved(String from, String to) {
        Integer first = classNode(from);
        Integer second = classNode(to);
        if (first != null) {
            connect(first, second);
        }
        drain();
    }

    Digraph graph() {
        return mGraph;
    }

    /** Every class that was reached, with its node. */
    Map<String, Integer> classes() {
        return mClasses;
    }

    int methodCount() {
        return mMethods.size();
    }

    private void drain() {
        for (Runnable work = mWork.poll(); work != null; work = mWork.poll()) {
            work.run();
        }
    }

    private void connect(int from, Integer to) {
        if (to != null) {
            mGraph.connect(from, to);
        }
    }

    private Integer classNode(String name) {
        Integer known = mClasses.get(name);
        ClassInfo info = known != null || mAmbient.test(name) ? null : mProgram.find(name);
        if (info == null) {
            return known;
        }
        int node = mGraph.add();
        mClasses.put(name, node);
        mWork.add(() -> expandClass(info, node));
        return node;
    }

    /** The superclass, superinterfaces with default methods, and the initialiser's code (JLS 12.4.1). */
    private void expandClass(ClassInfo info, int node) {
        if (!info.isInterface()) {
            if (info.superName != null) {
                connect(node, classNode(info.superName));
            }
            for (String name : mProgram.allSupertypes(info)) {
                ClassInfo above = mProgram.find(name);
                if (above != null && above.declaresDefaultMethods()) {
                    connect(node, classNode(name));
                }
            }
        }
        MethodInfo initialiser = info.methods.get(ClassInfo.INITIALIZER);
        if (initialiser != null) {
            connect(node, methodNode(initialiser));
        }
    }

    private int methodNode(MethodInfo method) {
        Integer known = mMethods.get(method);
        if (known != null) {
            return known;
        }
        int node = mGraph.add();
        mMethods.put(method, node);
        if (!mAmbient.test(method.owner.name)) {
            mWork.add(() -> expandMethod(method, node));
        }
        return node;
    }

    private void expandMethod(MethodInfo method, int node) {
        for (Use use : mProgram.uses(method)) {
            follow(node, use);
        }
    }

    private void follow(int node, Use use) {
        switch (use.kind()) {
            case INSTANCE, NAMED -> connect(node, classNode(use.owner()));
            case FIELD -> {
                ClassInfo declaring = mProgram.declaring(use.owner(), use.member());
                connect(node, declaring == null ? null : classNode(declaring.name));
            }
            case STATIC, SPECIAL -> {
                ClassInfo owner = mProgram.find(use.owner());
                MethodInfo target = owner == null ? null : mProgram.resolve(owner, use.member());
                if (target != null) {
                    connect(node, use.kind() == ClassInfo.Kind.STATIC ? classNode(target.owner.name) : null);
                    connect(node, methodNode(target));
                }
                String name = use.owner() + "." + use.member().substring(0, use.member().indexOf('('));
                CALL_BACKS.getOrDefault(name, List.of()).forEach(called -> follow(node, called));
            }
            case VIRTUAL -> connect(node, callNode(use.owner(), use.member()));
        }
    }

    private int callNode(String owner, String signature) {
        Integer known = mCalls.get(owner + "." + signature);
        if (known != null) {
            return known;
        }
        int node = mGraph.add();
        mCalls.put(owner + "." + signature, node);
        Set<MethodInfo> answers = new HashSet<>();
        for (ClassInfo instance : mProgram.allSubtypes(owner)) {
            MethodInfo method = instance.isAbstract() ? null : mProgram.resolve(instance, signature);
            if (method != null && answers.add(method)) {
                mGraph.connect(node, methodNode(method));
            }
        }
        return node;
    }
}
