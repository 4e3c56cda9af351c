// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;

import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Generated classes for a test: initialisers that initialise other classes, throw, collect, or never end. All of them call the hook. */
public final class Fixture {
    /** The class of a virtual use. */
    private static final String CARRIER = "made/Carrier";

    /** One class under construction. */
    public final class Made {
        private final String mName;
        private String mSuper = "java/lang/Object";
        private final List<String> mInterfaces = new ArrayList<>();
        private final List<String[]> mTouches = new ArrayList<>();
        private boolean mIsInterface;
        private boolean mThrows;
        private boolean mEndless;
        private boolean mCollects;

        private Made(String name) {
            mName = "made/" + name;
        }

        public Made below(String name) {
            mSuper = "made/" + name;
            return this;
        }

        public Made implementing(String name) {
            mInterfaces.add("made/" + name);
            return this;
        }

        /** An interface with a default method. */
        public Made asInterface() {
            mIsInterface = true;
            return this;
        }

        /** The initialiser reads a static field of {@code name}. */
        public Made readsField(String name) {
            return touch("field", name);
        }

        /** The initialiser calls a static method of its own, which reads a static field of {@code name}. */
        public Made throughMethod(String name) {
            return touch("method", name);
        }

        /** The initialiser calls a virtual method whose only instance reads a static field of {@code name}. */
        public Made throughVirtual(String name) {
            return touch("virtual", name);
        }

        /** The initialiser passes {@code AccessController} an action that reads a static field of {@code name}. */
        public Made throughPrivileged(String name) {
            return touch("privileged", name);
        }

        /** The initialiser calls {@code Class.forName} with the name as a constant. */
        public Made byName(String name) {
            return touch("name", name);
        }

        private Made touch(String how, String name) {
            mTouches.add(new String[] {how, "made/" + name});
            return this;
        }

        public Made throwing() {
            mThrows = true;
            return this;
        }

        public Made endless() {
            mEndless = true;
            return this;
        }

        /** The initialiser requests a garbage collection. */
        public Made collecting() {
            mCollects = true;
            return this;
        }
    }

    private final Map<String, Made> mMade = new LinkedHashMap<>();

    /** Begins a class {@code made.NAME}. */
    public Made add(String name) {
        Made made = new Made(name);
        mMade.put(name, made);
        return made;
    }

    /** The names with dots, in the order in which they were begun. */
    public List<String> names() {
        return mMade.keySet().stream().map(name -> "made." + name).toList();
    }

    /** Writes the jar. */
    public Path jar(Path path) throws IOException {
        Map<String, byte[]> files = new LinkedHashMap<>();
        files.put(CARRIER, carrier(CARRIER, "java/lang/Object", null));
        mMade.values().forEach(made -> write(made, files));
        try (ZipOutputStream out = new ZipOutputStream(Files.newOutputStream(path))) {
            for (Map.Entry<String, byte[]> file : files.entrySet()) {
                out.putNextEntry(new ZipEntry(file.getKey() + ".class"));
                out.write(file.getValue());
            }
        }
        return path;
    }

    /** A new loader of {@code jar}: no class of it is initialised. */
    public static URLClassLoader loader(Path jar) throws IOException {
        return new URLClassLoader(new URL[] {jar.toUri().toURL()}, Fixture.class.getClassLoader());
    }

    /** Writes a class list. */
    public static Path list(Path path, List<String> names) throws IOException {
        return Files.write(path, names);
    }

    private static void write(Made made, Map<String, byte[]> files) {
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_FRAMES);
        int access = made.mIsInterface ? Opcodes.ACC_INTERFACE | Opcodes.ACC_ABSTRACT : Opcodes.ACC_SUPER;
        writer.visit(Opcodes.V1_8, Opcodes.ACC_PUBLIC | access, made.mName, null, made.mSuper,
                made.mInterfaces.toArray(String[]::new));
        writer.visitField(Opcodes.ACC_PUBLIC | Opcodes.ACC_STATIC | (made.mIsInterface ? Opcodes.ACC_FINAL : 0), "x", "I", null,
                null);
        if (made.mIsInterface) {
            MethodVisitor method = writer.visitMethod(Opcodes.ACC_PUBLIC, "work", "()V", null, null);
            end(method, Opcodes.RETURN);
        }
        MethodVisitor body = writer.visitMethod(Opcodes.ACC_STATIC, "<clinit>", "()V", null, null);
        body.visitLdcInsn(made.mName.replace('/', '.'));
        body.visitMethodInsn(Opcodes.INVOKESTATIC, "brisk/preload/lab/Hook", "begin", "(Ljava/lang/String;)V", false);
        for (int i = 0; i < made.mTouches.size(); i++) {
            touch(made, i, writer, body, files);
        }
        if (made.mCollects) {
            body.visitMethodInsn(Opcodes.INVOKESTATIC, "java/lang/System", "gc", "()V", false);
        }
        if (made.mEndless) {
            Label again = new Label();
            body.visitLabel(again);
            body.visitMethodInsn(Opcodes.INVOKESTATIC, "java/lang/Thread", "yield", "()V", false);
            body.visitJumpInsn(Opcodes.GOTO, again);
        } else if (made.mThrows) {
            body.visitTypeInsn(Opcodes.NEW, "java/lang/IllegalStateException");
            body.visitInsn(Opcodes.DUP);
            body.visitMethodInsn(Opcodes.INVOKESPECIAL, "java/lang/IllegalStateException", "<init>", "()V", false);
            body.visitInsn(Opcodes.ATHROW);
        } else {
            body.visitInsn(Opcodes.RETURN);
        }
        body.visitMaxs(0, 0);
        body.visitEnd();
        writer.visitEnd();
        files.put(made.mName, writer.toByteArray());
    }

    private static void touch(Made made, int index, ClassWriter writer, MethodVisitor body, Map<String, byte[]> files) {
        String target = made.mTouches.get(index)[1];
        String helper = made.mName + "Touch" + index;
        switch (made.mTouches.get(index)[0]) {
            case "field" -> readField(body, target);
            case "method" -> {
                MethodVisitor method = writer.visitMethod(Opcodes.ACC_STATIC, "touch" + index, "()V", null, null);
                readField(method, target);
                end(method, Opcodes.RETURN);
                body.visitMethodInsn(Opcodes.INVOKESTATIC, made.mName, "touch" + index, "()V", made.mIsInterface);
            }
            case "virtual" -> {
                files.put(helper, carrier(helper, CARRIER, target));
                make(body, helper);
                body.visitMethodInsn(Opcodes.INVOKEVIRTUAL, CARRIER, "run", "()Ljava/lang/Object;", false);
                body.visitInsn(Opcodes.POP);
            }
            case "privileged" -> {
                files.put(helper, carrier(helper, CARRIER, target));
                make(body, helper);
                body.visitMethodInsn(Opcodes.INVOKESTATIC, "java/security/AccessController", "doPrivileged",
                        "(Ljava/security/PrivilegedAction;)Ljava/lang/Object;", false);
                body.visitInsn(Opcodes.POP);
            }
            default -> {
                body.visitLdcInsn(target.replace('/', '.'));
                body.visitMethodInsn(Opcodes.INVOKESTATIC, "java/lang/Class", "forName",
                        "(Ljava/lang/String;)Ljava/lang/Class;", false);
                body.visitInsn(Opcodes.POP);
            }
        }
    }

    private static void make(MethodVisitor body, String name) {
        body.visitTypeInsn(Opcodes.NEW, name);
        body.visitInsn(Opcodes.DUP);
        body.visitMethodInsn(Opcodes.INVOKESPECIAL, name, "<init>", "()V", false);
    }

    private static void readField(MethodVisitor body, String target) {
        body.visitFieldInsn(Opcodes.GETSTATIC, target, "x", "I");
        body.visitInsn(Opcodes.POP);
    }

    /** A class whose {@code run} reads a static field of {@code target}, or nothing. */
    private static byte[] carrier(String name, String above, String target) {
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        writer.visit(Opcodes.V1_8, Opcodes.ACC_PUBLIC | Opcodes.ACC_SUPER, name, null, above,
                new String[] {"java/security/PrivilegedAction"});
        MethodVisitor constructor = writer.visitMethod(Opcodes.ACC_PUBLIC, "<init>", "()V", null, null);
        constructor.visitVarInsn(Opcodes.ALOAD, 0);
        constructor.visitMethodInsn(Opcodes.INVOKESPECIAL, above, "<init>", "()V", false);
        end(constructor, Opcodes.RETURN);
        MethodVisitor run = writer.visitMethod(Opcodes.ACC_PUBLIC, "run", "()Ljava/lang/Object;", null, null);
        if (target != null) {
            readField(run, target);
        }
        run.visitInsn(Opcodes.ACONST_NULL);
        end(run, Opcodes.ARETURN);
        writer.visitEnd();
        return writer.toByteArray();
    }

    /** A class with a static method that reads a static field of {@code target}. */
    public static byte[] caller(String name, String method, String target) {
        ClassWriter writer = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        writer.visit(Opcodes.V1_8, Opcodes.ACC_PUBLIC | Opcodes.ACC_SUPER, name, null, "java/lang/Object", null);
        MethodVisitor body = writer.visitMethod(Opcodes.ACC_PUBLIC | Opcodes.ACC_STATIC, method, "()V", null, null);
        readField(body, target);
        end(body, Opcodes.RETURN);
        writer.visitEnd();
        return writer.toByteArray();
    }

    private static void end(MethodVisitor method, int opcode) {
        method.visitInsn(opcode);
        method.visitMaxs(0, 0);
        method.visitEnd();
    }
}
