// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.objectweb.asm.Opcodes;

/** The planner's data of one class; names are internal ({@code android/view/View}). */
final class ClassInfo {
    /** The initialiser's key among the methods. */
    static final String INITIALIZER = "<clinit>()V";

    final String name;
    final String superName;
    final List<String> interfaces;
    final int access;
    final Set<String> staticFields = new HashSet<>();
    final Map<String, MethodInfo> methods = new HashMap<>();

    ClassInfo(String name, String superName, List<String> interfaces, int access) {
        this.name = name;
        this.superName = superName;
        this.interfaces = interfaces;
        this.access = access;
    }

    boolean isInterface() {
        return (access & Opcodes.ACC_INTERFACE) != 0;
    }

    boolean isAbstract() {
        return (access & (Opcodes.ACC_INTERFACE | Opcodes.ACC_ABSTRACT)) != 0;
    }

    /** True for an interface that is initialised with the classes that implement it. */
    boolean declaresDefaultMethods() {
        return isInterface() && methods.values().stream().anyMatch(MethodInfo::isDefault);
    }

    /** A method's body as its uses of classes and members, read on demand. */
    static final class MethodInfo {
        final ClassInfo owner;
        final String signature;
        final int access;
        List<Use> uses = List.of();

        MethodInfo(ClassInfo owner, String signature, int access) {
            this.owner = owner;
            this.signature = signature;
            this.access = access;
        }

        boolean isStatic() {
            return (access & Opcodes.ACC_STATIC) != 0;
        }

        private boolean isDefault() {
            return (access & (Opcodes.ACC_ABSTRACT | Opcodes.ACC_STATIC)) == 0;
        }
    }

    /** How a method's code names another class or member. */
    enum Kind {
        /** An instance is created. */
        INSTANCE,
        /** A static field is read or written. */
        FIELD,
        /** A static method is called. */
        STATIC,
        /** A constructor, a private method or a superclass's method is called. */
        SPECIAL,
        /** A method is called that subclasses may override. */
        VIRTUAL,
        /** A string constant may be the name of a class, in a method that initialises classes by name. */
        NAMED
    }

    /** One use; {@code member} is a field's name or a method's signature. */
    record Use(Kind kind, String owner, String member) {}
}
