// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.zip.Deflater;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;

import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Makes a copy of a framework's jar that an ordinary Java machine can initialise: native methods get bodies, libraries are not
 * loaded. A body returns the method's last argument if the type matches (a property's default), otherwise a zero, an empty
 * string or array, or null.
 */
public final class Rewriter {
    private static final String HOOK = Hook.class.getName().replace('.', '/');

    private Rewriter() {}

    /**
     * Writes the copy, uncompressed as Android maps its code; {@code hooked} makes every initialiser call {@link Hook} first.
     */
    public static void rewrite(Path jar, Path copy, boolean hooked) throws IOException {
        Path draft = copy.resolveSibling(copy.getFileName() + ".draft");
        Files.createDirectories(copy.toAbsolutePath().getParent());
        try (ZipFile from = new ZipFile(jar.toFile()); ZipOutputStream to = new ZipOutputStream(Files.newOutputStream(draft))) {
            to.setLevel(Deflater.NO_COMPRESSION);
            for (ZipEntry entry : (Iterable<ZipEntry>) from.stream().map(ZipEntry.class::cast)::iterator) {
                if (!entry.getName().endsWith(".class")) {
                    continue;
                }
                try (InputStream in = from.getInputStream(entry)) {
                    to.putNextEntry(new ZipEntry(entry.getName()));
                    to.write(rewrite(in.readAllBytes(), hooked));
                }
            }
        }
        Files.move(draft, copy, StandardCopyOption.REPLACE_EXISTING);
    }

    static byte[] rewrite(byte[] bytes, boolean hooked) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String type, String signature, String[] thrown) {
                MethodVisitor out = super.visitMethod(access & ~Opcodes.ACC_NATIVE, name, type, signature, thrown);
                if ((access & Opcodes.ACC_NATIVE) != 0) {
                    stub(out, type, (access & Opcodes.ACC_STATIC) != 0);
                }
                return new Body(out, hooked && name.equals("<clinit>") ? reader.getClassName() : null);
            }
        }, 0);
        return writer.toByteArray();
    }

    private static void stub(MethodVisitor out, String type, boolean isStatic) {
        out.visitCode();
        Type result = Type.getReturnType(type);
        List<Type> arguments = List.of(Type.getArgumentTypes(type));
        if (!arguments.isEmpty() && arguments.get(arguments.size() - 1).equals(result)) {
            int slot = isStatic ? 0 : 1;
            for (Type argument : arguments.subList(0, arguments.size() - 1)) {
                slot += argument.getSize();
            }
            out.visitVarInsn(result.getOpcode(Opcodes.ILOAD), slot);
        } else {
            nothing(out, result);
        }
        out.visitInsn(result.getOpcode(Opcodes.IRETURN));
        out.visitMaxs(0, 0);
        out.visitEnd();
    }

    private static void nothing(MethodVisitor out, Type type) {
        switch (type.getSort()) {
            case Type.VOID -> { }
            case Type.LONG -> out.visitInsn(Opcodes.LCONST_0);
            case Type.FLOAT -> out.visitInsn(Opcodes.FCONST_0);
            case Type.DOUBLE -> out.visitInsn(Opcodes.DCONST_0);
            case Type.OBJECT -> {
                if (type.getClassName().equals("java.lang.String")) {
                    out.visitLdcInsn("");
                } else {
                    out.visitInsn(Opcodes.ACONST_NULL);
                }
            }
            case Type.ARRAY -> emptyArray(out, type);
            default -> out.visitInsn(Opcodes.ICONST_0);
        }
    }

    private static void emptyArray(MethodVisitor out, Type type) {
        Type element = Type.getType(type.getDescriptor().substring(1));
        out.visitInsn(Opcodes.ICONST_0);
        switch (element.getSort()) {
            case Type.OBJECT, Type.ARRAY -> out.visitTypeInsn(Opcodes.ANEWARRAY, element.getInternalName());
            case Type.BOOLEAN -> out.visitIntInsn(Opcodes.NEWARRAY, Opcodes.T_BOOLEAN);
            case Type.CHAR -> out.visitIntInsn(Opcodes.NEWARRAY, Opcodes.T_CHAR);
            case Type.BYTE -> out.visitIntInsn(Opcodes.NEWARRAY, Opcodes.T_BYTE);
            case Type.SHORT -> out.visitIntInsn(Opcodes.NEWARRAY, Opcodes.T_SHORT);
            case Type.INT -> out.visitIntInsn(Opcodes.NEWARRAY, Opcodes.T_INT);
            case Type.FLOAT -> out.visitIntInsn(Opcodes.NEWARRAY, Opcodes.T_FLOAT);
            case Type.LONG -> out.visitIntInsn(Opcodes.NEWARRAY, Opcodes.T_LONG);
            default -> out.visitIntInsn(Opcodes.NEWARRAY, Opcodes.T_DOUBLE);
        }
    }

    /** Copies a body without its calls that load libraries, and with the hook if requested. */
    private static final class Body extends MethodVisitor {
        private final String mHooked;

        Body(MethodVisitor out, String hooked) {
            super(Opcodes.ASM9, out);
            mHooked = hooked;
        }

        @Override
        public void visitCode() {
            super.visitCode();
            if (mHooked != null) {
                super.visitLdcInsn(mHooked.replace('/', '.'));
                super.visitMethodInsn(Opcodes.INVOKESTATIC, HOOK, "begin", "(Ljava/lang/String;)V", false);
            }
        }

        @Override
        public void visitMethodInsn(int opcode, String owner, String name, String type, boolean isInterface) {
            boolean loads = name.equals("loadLibrary") || name.equals("load");
            if (loads && type.equals("(Ljava/lang/String;)V") && owner.equals("java/lang/System")) {
                super.visitInsn(Opcodes.POP);
            } else if (loads && type.equals("(Ljava/lang/String;)V") && owner.equals("java/lang/Runtime")) {
                super.visitInsn(Opcodes.POP2);
            } else {
                super.visitMethodInsn(opcode, owner, name, type, isInterface);
            }
        }
    }
}
